"""The monitors of one lane: one for each key, those in use in memory, the others on disk."""

from __future__ import annotations

import json
import logging
import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from driftbn import DriftMonitor, MonitorConfig
from driftbn.errors import DriftbnError
from driftbn.explain.words import counted, shortened
from driftbn.tables.schema import Schema
from driftbn_service.events import EventState

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

logger = logging.getLogger("driftbn.service.monitors")

_HEAD: Final = struct.Struct("<I")
"""Length of the JSON before the snapshot."""
_TABLES: Final = frozenset({"window", "learner", "decision", "schema", "knowledge"})
_MAX_SHOWN: Final = 80  # characters of a value in a message


class States(Protocol):
    """Where states are kept by key; the state of a lane is one."""

    def put(self, key: str, state: bytes) -> None:
        """Keep a state in place of an earlier one."""

    def get(self, key: str) -> bytes:
        """Return what was put last."""

    def keys(self) -> Iterator[str]:
        """Iterate over all keys."""

    def __contains__(self, key: object) -> bool: ...


class ChangedSetting(NamedTuple):
    """A setting that is another now."""

    name: str
    before: object
    now: object

    def __str__(self) -> str:
        return f"{self.name} was {_shown(self.before)} and is {_shown(self.now)}"


class ChangedSettingsError(DriftbnError):
    """A monitor was kept with other settings than it is to go on with.

    Attributes
    ----------
    monitor
        Its name.
    changes
        The settings that differ.
    """

    def __init__(self, monitor: str, changes: tuple[ChangedSetting, ...]) -> None:
        self.monitor = monitor
        self.changes = changes
        super().__init__(
            f"the settings of monitor {monitor!r} differ from those of its state: "
            f"{', '.join(str(change) for change in changes)}; put them back, give the monitor "
            "another name, or start it anew, without its state and history, with "
            f"'driftbn run --reset {monitor}'"
        )


@dataclass
class KeyedMonitor:
    """A monitor in memory.

    Parameters
    ----------
    monitor
        The monitor itself.
    events
        What its events so far mean for the next one.
    changed
        Whether it has moved on since it was last written to disk.
    since
        The batches that it has taken since then.
    """

    monitor: DriftMonitor
    events: EventState = field(default_factory=EventState)
    changed: bool = False
    since: list[Any] = field(default_factory=list, repr=False)


class MonitorSet:
    """Monitors by key, of which the least recently used ones live on disk.

    A monitor that comes back from disk goes on bit for bit, so nobody can tell that it was away.

    Parameters
    ----------
    name
        Of the stream, for messages.
    config
        Settings of every monitor.
    states
        Where monitors go that are not in memory.
    resident
        How many may be in memory.
    max_keys
        How many there may be at all.
    """

    def __init__(
        self, name: str, config: MonitorConfig, states: States, resident: int, max_keys: int
    ) -> None:
        self.name = name
        self.config = config
        self.resident = resident
        self.max_keys = max_keys
        self._states = states
        self._live: OrderedDict[str, KeyedMonitor] = OrderedDict()
        self._n_keys = sum(1 for _ in states.keys())  # noqa: SIM118 - it is no mapping

    def __len__(self) -> int:
        """Return the number of monitors, in memory or on disk."""
        return self._n_keys

    @property
    def n_resident(self) -> int:
        """The number of monitors in memory."""
        return len(self._live)

    @property
    def n_pending(self) -> int:
        """Records in no window yet, of the monitors in memory."""
        return sum(item.monitor.n_pending for item in self._live.values())

    @property
    def is_full(self) -> bool:
        """Whether no further key can be taken."""
        return self._n_keys >= self.max_keys

    def __contains__(self, key: object) -> bool:
        return key in self._live or key in self._states

    def schema(self, key: str) -> Schema | None:
        """Return the schema of a monitor in memory, if it has one yet."""
        item = self._live.get(key)
        return None if item is None else item.monitor.schema

    def fetch(self, key: str) -> KeyedMonitor:
        """Return the monitor of a key, which is made or brought back if need be."""
        item = self._live.get(key)
        if item is not None:
            self._live.move_to_end(key)
            return item
        is_new = key not in self._states
        item = KeyedMonitor(DriftMonitor(self.config)) if is_new else self._read(key)
        self._n_keys += is_new
        self._make_room()
        self._live[key] = item
        return item

    def check(self) -> None:
        """Make sure that monitors on disk can go on with the settings given.

        Raises
        ------
        ChangedSettingsError
            If they were made with others.
        """
        for key in self._states.keys():  # noqa: SIM118 - it is no mapping
            self.fetch(key)  # it stays in memory: mostly it is the only one, and soon needed
            return

    def drop(self, key: str) -> list[Any]:
        """Forget what is in memory of a monitor; return the batches that are not on disk then."""
        item = self._live.pop(key, None)
        if item is None:
            return []
        self._n_keys -= key not in self._states
        return item.since

    def save(self) -> None:
        """Write every monitor that has moved on.

        Raises
        ------
        OSError
            If the disk is full; what could not be written is tried again by the next call.
        """
        for key, item in self._live.items():
            if item.changed:
                self._write(key, item)

    def _make_room(self) -> None:
        while len(self._live) >= self.resident:
            key, item = next(iter(self._live.items()))
            try:
                if item.changed:
                    self._write(key, item)
            except OSError as error:
                # More monitors stay in memory for now; the commit, which fails too, stops the
                # stream until there is room.
                logger.warning("monitor cannot be moved to disk: %s", error.strerror)
                return
            del self._live[key]

    def _write(self, key: str, item: KeyedMonitor) -> None:
        head = json.dumps(item.events.to_dict(), sort_keys=True).encode()
        self._states.put(key, _HEAD.pack(len(head)) + head + item.monitor.snapshot())
        item.changed = False
        item.since = []

    def _read(self, key: str) -> KeyedMonitor:
        events, snapshot = unpacked(self._states.get(key))
        monitor = DriftMonitor.restore(snapshot)
        if monitor.config != self.config:
            raise ChangedSettingsError(self.name, _changed(monitor.config, self.config))
        return KeyedMonitor(monitor, events)


def unpacked(state: bytes) -> tuple[EventState, bytes]:
    """Return what is kept of a monitor: what its events mean for the next one, and its snapshot."""
    (length,) = _HEAD.unpack_from(state)
    start = _HEAD.size + length
    return EventState.from_dict(json.loads(state[_HEAD.size : start])), state[start:]


def _changed(kept: MonitorConfig, wanted: MonitorConfig) -> tuple[ChangedSetting, ...]:
    found = tuple(_changes(kept, wanted))
    short = {f"decision.{change.name}" for change in found}  # a short form stands for both
    return tuple(change for change in found if change.name not in short)


def _changes(
    kept: DataclassInstance, wanted: DataclassInstance, table: str = ""
) -> Iterator[ChangedSetting]:
    """Iterate over the settings that differ, those in tables with the name of the table before."""
    for item in fields(kept):
        name, before, now = item.name, getattr(kept, item.name), getattr(wanted, item.name)
        if before == now:
            continue
        if name in _TABLES:
            yield from _changes(before, now, f"{name}.")
        else:
            yield ChangedSetting(f"{table}{name}", before, now)


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Schema):
        return f"a schema of {counted(len(value.variables), 'field')}"
    word = value.value if isinstance(value, Enum) else value
    return shortened(json.dumps(word, ensure_ascii=False), _MAX_SHOWN)
