"""Records that could not be read, kept in a file of bounded size for people to look at."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from driftbn_service.records.rows import Rejected

logger = logging.getLogger("driftbn.service.quarantine")

_MAX_HELD_BYTES: Final = 1 << 16
TELL_SECONDS: Final = 60.0
"""How often the log says at most that records are rejected."""


class Quarantine:
    """Writes rejected records to a file, one JSON object a line.

    An object has ``time``, ``stream``, ``place``, ``reason``, ``detail``, ``record`` as text, and,
    where that is not all of it, ``record_base64``. When the file would grow beyond half of
    ``max_bytes`` it is renamed to end in ``.1``, in place of the one before: there are never more
    bytes than allowed, and always the newest records. The name of the file is that of the stream.

    Quarantine is for people; nothing depends on it. An error of the disk is counted and logged, and
    never raised. The first record, and later ones once a minute, are told in the log, without what
    is in them. Any thread may use it.

    Examples
    --------
    >>> import tempfile
    >>> from driftbn_service.records import RejectReason
    >>> path = Path(tempfile.mkdtemp()) / "orders.ndjson"
    >>> quarantine = Quarantine(path, 10_000, lambda: 0.0)
    >>> quarantine.add(Rejected("line 3", RejectReason.NOT_JSON, "Expecting value", b"{"))
    >>> quarantine.flush()
    >>> json.loads(path.read_text())["stream"]
    'orders'
    """

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float]) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._held: list[bytes] = []
        self._n_held_bytes = 0
        self.n_added = 0  # records that were written
        self.n_lost = 0  # records that were not, because of an error or for want of room
        self._failing = False
        self._n_untold = 0
        self._told_at: float | None = None

    def add(self, rejected: Rejected) -> None:
        """Take in one record. It stays in memory until ``flush``, or until there are many."""
        line = json.dumps(self._values(rejected), ensure_ascii=False).encode() + b"\n"
        with self._lock:
            self._tell(rejected)
            if len(line) > self.max_bytes // 2:
                self.n_lost += 1
                return
            if self._n_held_bytes + len(line) > min(_MAX_HELD_BYTES, self.max_bytes // 2):
                self._flush()
            self._held.append(line)
            self._n_held_bytes += len(line)

    def flush(self) -> None:
        """Write all that was added."""
        with self._lock:
            if self._held:
                self._flush()

    def _tell(self, rejected: Rejected) -> None:
        self._n_untold += 1
        now = self._clock()
        if self._told_at is not None and 0.0 <= now - self._told_at < TELL_SECONDS:
            return
        logger.warning(
            "records cannot be read and are set aside: %d more, the last one at %s",
            self._n_untold, rejected.place,
            extra={
                "monitor": self.path.stem,
                "reason": rejected.reason.value,
                "quarantine": str(self.path),
            },
        )  # fmt: skip
        self._n_untold, self._told_at = 0, now

    def _values(self, rejected: Rejected) -> dict[str, Any]:
        text = rejected.record.decode("utf-8", "replace")
        values = {
            "time": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
            "stream": self.path.stem,
            "place": rejected.place,
            "reason": rejected.reason.value,
            "detail": rejected.detail,
            "record": text,
        }
        if text.encode() != rejected.record:
            values["record_base64"] = base64.b64encode(rejected.record).decode()
        return values

    def _flush(self) -> None:
        n_held, data = len(self._held), b"".join(self._held)
        self._held, self._n_held_bytes = [], 0
        try:
            self._write(data)
        except OSError as error:
            self.n_lost += n_held
            if not self._failing:
                logger.warning(
                    "rejected records cannot be kept: %s", error, extra={"path": str(self.path)}
                )
            self._failing = True
            return
        self.n_added += n_held
        if self._failing:
            logger.info("rejected records are kept again", extra={"path": str(self.path)})
        self._failing = False

    def _write(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.path.stat().st_size + len(data) + 1 > self.max_bytes // 2:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
        with open(self.path, "a+b") as file:
            if file.tell():
                # A line that was cut short, by a full disk or a kill, must not spoil the next.
                file.seek(-1, os.SEEK_END)
                data = data if file.read(1) == b"\n" else b"\n" + data
            file.write(data)
