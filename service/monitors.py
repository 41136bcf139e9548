"""The monitors of one lane: one for each key, those in use in memory, the others on disk."""

from __future__ import annotations

import json
import logging
import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Final, Protocol

from driftbn import DriftMonitor, MonitorConfig, WindowReport
from driftbn.errors import DriftbnError
from driftbn.schema import Schema
from service.cloud_events import EventState

logger = logging.getLogger(f"driftbn.{__name__}")

_HEAD: Final = struct.Struct("<I")
"""Length of the JSON before the snapshot."""


class States(Protocol):
    """Where states are kept by key; a checkpoint directory is one."""

    def put(self, key: str, state: bytes) -> None:
        """Keep a state in place of an earlier one."""

    def get(self, key: str) -> bytes:
        """Return what was put last."""

    def keys(self) -> Iterator[str]:
        """Iterate over all keys."""

    def __contains__(self, key: object) -> bool: ...


class ChangedSettingsError(DriftbnError):
    """A monitor was kept with other settings than it is to go on with.

    Attributes
    ----------
    monitor
        Its name.
    names
        The settings that differ.
    """

    def __init__(self, monitor: str, names: tuple[str, ...]) -> None:
        self.monitor = monitor
        self.names = names
        super().__init__(
            f"the settings of monitor {monitor!r} differ from those of its checkpoint in "
            f"{', '.join(names)}: put them back, give the monitor another name, or start it anew "
            f"with 'driftbn run --reset {monitor}'"
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
    """

    monitor: DriftMonitor
    events: EventState = field(default_factory=EventState)
    changed: bool = False


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

    def update(self, key: str, rows: object) -> tuple[KeyedMonitor, tuple[WindowReport, ...]]:
        """Give rows to the monitor of a key, which is made or brought back if need be."""
        item = self._fetch(key)
        item.changed = True
        return item, item.monitor.update(rows)

    def check(self) -> None:
        """Make sure that monitors on disk can go on with the settings given.

        Raises
        ------
        ChangedSettingsError
            If they were made with others.
        """
        for key in self._states.keys():  # noqa: SIM118 - it is no mapping
            self._fetch(key)  # it stays in memory: mostly it is the only one, and soon needed
            return

    def drop(self, key: str) -> None:
        """Forget what is in memory of a monitor, without writing it."""
        self._live.pop(key, None)

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

    def _fetch(self, key: str) -> KeyedMonitor:
        item = self._live.get(key)
        if item is not None:
            self._live.move_to_end(key)
            return item
        if key in self._states:
            item = self._read(key)
        else:
            item = KeyedMonitor(DriftMonitor(self.config))
            self._n_keys += 1
        self._make_room()
        self._live[key] = item
        return item

    def _make_room(self) -> None:
        while len(self._live) >= self.resident:
            key, item = next(iter(self._live.items()))
            try:
                if item.changed:
                    self._write(key, item)
            except OSError as error:
                # More monitors stay in memory for now; the checkpoint, which fails too, stops the
                # stream until there is room.
                logger.warning("monitor cannot be moved to disk: %s", error.strerror)
                return
            del self._live[key]

    def _write(self, key: str, item: KeyedMonitor) -> None:
        head = json.dumps(item.events.to_dict(), sort_keys=True).encode()
        self._states.put(key, _HEAD.pack(len(head)) + head + item.monitor.snapshot())
        item.changed = False

    def _read(self, key: str) -> KeyedMonitor:
        data = self._states.get(key)
        (length,) = _HEAD.unpack_from(data)
        events = json.loads(data[_HEAD.size : _HEAD.size + length])
        monitor = DriftMonitor.restore(data[_HEAD.size + length :])
        if monitor.config != self.config:
            raise ChangedSettingsError(self.name, _differences(monitor.config, self.config))
        return KeyedMonitor(monitor, EventState.from_dict(events))


def _differences(kept: MonitorConfig, wanted: MonitorConfig) -> tuple[str, ...]:
    names = (item.name for item in fields(kept))
    return tuple(name for name in names if getattr(kept, name) != getattr(wanted, name))
