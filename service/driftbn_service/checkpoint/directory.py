"""The checkpoints of one lane in a directory."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from driftbn.errors import ConfigError
from driftbn_service.checkpoint.errors import CheckpointError, DamagedError
from driftbn_service.checkpoint.files import replace_file, sync_directory
from driftbn_service.checkpoint.layout import LOCK, manifest_path
from driftbn_service.checkpoint.lock import DirectoryLock
from driftbn_service.checkpoint.manifest import manifest_bytes, meta_text
from driftbn_service.checkpoint.recovery import Recovered, recover
from driftbn_service.checkpoint.segments import Segments, checksum_of, record_of, state_of
from driftbn_service.checkpoint.table import StateTable, sparse_segments

logger = logging.getLogger("driftbn.service.checkpoint")

COMPACTION_BYTES: Final = 4 << 20
"""Bytes of states that a commit moves at least, if there are any to move: some 20 ms."""


@dataclass(frozen=True)
class Loaded:
    """The checkpoint that a directory was opened with.

    Parameters
    ----------
    meta
        What ``commit`` was given.
    number
        Running number of the checkpoint.
    time
        Seconds since the epoch when it was made.
    n_damaged
        Later checkpoints that were damaged and set aside.
    """

    meta: dict[str, Any] = field(repr=False)
    number: int
    time: float
    n_damaged: int = 0


@dataclass(frozen=True)
class _Kept:
    """What must be known of a checkpoint that is kept; ``meta`` without what came as JSON."""

    number: int
    meta: str
    segments: frozenset[int]


class CheckpointDirectory:
    """States by key and what belongs to them, on disk; one process at a time, one thread.

    What is put is there for good with the next ``commit``, together with all else that was put
    before it, or not at all.

    Parameters
    ----------
    path
        The directory; it is made if need be.
    keep
        Checkpoints to keep, from 1.
    clock
        Gives the time that is written into a checkpoint.

    Raises
    ------
    ConfigError
        If ``keep`` is less than 1.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     with CheckpointDirectory(Path(path)) as directory:
    ...         directory.open()
    ...         directory.put("tenant", b"state")
    ...         directory.commit({"position": 5})
    ...     with CheckpointDirectory(Path(path)) as directory:
    ...         directory.open().meta, directory.get("tenant")
    ({'position': 5}, b'state')
    """

    def __init__(
        self, path: Path, *, keep: int = 3, clock: Callable[[], float] = time.time
    ) -> None:
        if keep < 1:
            raise ConfigError("keep", keep, "at least 1")
        self.path = Path(path)
        self.keep = keep
        self._clock = clock
        self._lock = DirectoryLock(self.path / LOCK)
        self._reset(Recovered())

    def _reset(self, recovered: Recovered) -> None:
        manifests = recovered.manifests
        self._kept = [_Kept(one.number, one.meta, one.segments) for one in manifests]
        self._last_number = recovered.last_number
        self._table = StateTable(manifests[-1].places if manifests else {})
        self._segments = Segments(self.path, recovered.segments)
        self._n_bytes_put = 0
        self._damaged: set[int] = set()

    def __enter__(self) -> CheckpointDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, *, wait: float = 0.0) -> Loaded | None:
        """Take the directory and load the newest good checkpoint.

        Every state that it names is read and checked. A damaged checkpoint is set aside, with an
        error in the log, and the one before is taken.

        Parameters
        ----------
        wait
            Seconds that another process may take to let go of the directory.

        Returns
        -------
        Loaded or None
            The checkpoint; ``None`` if there has been none yet.

        Raises
        ------
        LockedError
            If another process has the directory.
        NewerVersionError
            If a later driftbn wrote the checkpoint.
        CheckpointError
            If there are checkpoints and none is good, or the directory cannot be used.
        """
        try:
            self._create()
            self._lock.acquire(wait)
        except OSError as error:
            problem = f"checkpoints cannot be written here: {error.strerror}"
            raise CheckpointError(self.path, problem) from error
        try:
            recovered = recover(self.path)
            self._reset(recovered)
        except OSError as error:
            self._lock.release()
            problem = f"leftovers cannot be removed: {error.strerror}"
            raise CheckpointError(self.path, problem) from error
        except BaseException:
            self._lock.release()
            raise
        if not recovered.manifests:
            return None
        newest = recovered.manifests[-1]
        meta = json.loads(newest.meta)
        return Loaded(meta, newest.number, newest.time, recovered.n_damaged)

    def close(self) -> None:
        """Let go of the directory; what was put since the last ``commit`` is lost."""
        self._segments.close()
        self._lock.release()

    @property
    def oldest(self) -> dict[str, Any] | None:
        """What the oldest checkpoint that is kept was given; nothing ever goes back behind it.

        Values that ``commit`` was given as JSON need not be in it.
        """
        return dict(json.loads(self._kept[0].meta)) if self._kept else None

    def keys(self) -> Iterator[str]:
        """Iterate over the keys that have a state."""
        return iter(self._table)

    def __contains__(self, key: object) -> bool:
        return key in self._table

    def get(self, key: str) -> bytes:
        """Return the state that was put last, whether or not it is in a checkpoint yet.

        Raises
        ------
        KeyError
            If there is none.
        CheckpointError
            If it cannot be read or is damaged.
        """
        return state_of(self._segments.read(self._table[key]))

    def put(self, key: str, state: bytes) -> None:
        """Keep a state in place of an earlier one.

        Raises
        ------
        OSError
            If it cannot be written. The earlier one is still there; try again later.
        """
        record = record_of(state)
        known = self._table.get(key)
        if known is not None and known[2:] == (len(record), checksum_of(record)):
            return
        self._table.set(key, self._segments.append(record))
        self._n_bytes_put += len(record)

    def forget(self, key: str) -> None:
        """Remove a state, if there is one; checkpoints that have it keep it."""
        self._table.remove(key)

    def commit(self, meta: Mapping[str, Any], encoded: Mapping[str, bytes] | None = None) -> None:
        """Make a checkpoint of all states; on return it is there for good.

        Parameters
        ----------
        meta
            What belongs to them, as values that JSON has.
        encoded
            More of that, by other names, as JSON: for what is large.

        Raises
        ------
        OSError
            If it cannot be written. Earlier checkpoints stay good and nothing that was put is
            lost; try again later.
        """
        text = meta_text(meta, encoded)
        self._rescue()
        self._compact()
        self._segments.sync()
        number = self._last_number + 1
        manifest = manifest_bytes(number, self._clock(), text, self._table.rows)
        replace_file(manifest_path(self.path, number), manifest)
        self._last_number = number
        self._kept.append(_Kept(number, meta_text(meta), frozenset(self._table.live)))
        self._n_bytes_put = 0
        self._prune()

    def _create(self) -> None:
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_directory(path.parent)

    def _move(self, key: str) -> int:
        """Append the state of a key once more and return its size."""
        place = self._segments.append(self._segments.read(self._table[key]))
        self._table.set(key, place)
        return place.length

    def _rescue(self) -> None:
        """Write again what the operating system failed to write, while it can still be read."""
        if self._segments.any_suspect:
            for key in tuple(self._table):
                if self._segments.is_suspect(self._table[key]):
                    self._move(key)
            self._segments.trust()

    def _compact(self) -> None:
        """Move states out of segments that are mostly empty, some at a time."""
        current = {self._segments.current, *self._damaged}
        sizes = {n: size for n, size in self._segments.sizes.items() if n not in current}
        sparse = sparse_segments(sizes, self._table.live)
        if not sparse:
            return
        # What a commit leaves behind is not more than what was put, so as much must be moved.
        n_left = max(COMPACTION_BYTES, self._n_bytes_put)
        keys = self._table.keys_in(frozenset(sparse))
        for number in sparse:
            for key in keys[number]:
                if n_left <= 0:
                    return
                try:
                    n_left -= self._move(key)
                except DamagedError as error:
                    logger.error("the state of a monitor is damaged on disk: %s", error)
                    self._damaged.add(number)
                    break
                except OSError as error:
                    logger.warning("%s: no room to tidy up: %s", self.path, error.strerror)
                    return

    def _prune(self) -> None:
        """Delete what is not kept any more. The commit has been made, so nothing may fail."""
        try:
            while len(self._kept) > self.keep:
                manifest_path(self.path, self._kept[0].number).unlink(missing_ok=True)
                del self._kept[0]
            self._segments.delete_all_but(frozenset().union(*(one.segments for one in self._kept)))
        except OSError as error:
            logger.warning("%s: old files cannot be deleted: %s", self.path, error.strerror)
