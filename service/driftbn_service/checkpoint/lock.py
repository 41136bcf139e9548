"""One process at a time."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from pathlib import Path
from typing import Final

from driftbn_service.checkpoint.errors import CheckpointError, LockedError

logger = logging.getLogger("driftbn.service.checkpoint")

_POLL_SECONDS: Final = 0.05
"""Between two tries: ``flock`` cannot wait for a limited time."""
_HELD: Final = (errno.EWOULDBLOCK, errno.EACCES)
_PID_BYTES: Final = 32


class DirectoryLock:
    """A lock that the operating system takes back when the process ends, however it ends.

    Parameters
    ----------
    path
        A file that is made for it and stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, wait: float = 0.0) -> None:
        """Take the lock, for which another process may have up to ``wait`` seconds to let go.

        Raises
        ------
        LockedError
            If another process has it.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        deadline = time.monotonic() + wait
        try:
            while not self._taken(descriptor):
                if time.monotonic() >= deadline:
                    raise LockedError(self.path.parent, _pid_in(descriptor))
                time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self._write_pid(descriptor)

    def release(self) -> None:
        """Let go of the lock, if it was taken."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _taken(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                return False
            problem = f"no lock can be taken here ({error.strerror}): give a local directory"
            raise CheckpointError(self.path.parent, problem) from error
        return True

    def _write_pid(self, descriptor: int) -> None:
        """Write who has the lock, for the message that another process gives."""
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            logger.warning("%s: the process cannot write its number: %s", self.path, error.strerror)


def _pid_in(descriptor: int) -> int | None:
    text = os.pread(descriptor, _PID_BYTES, 0).strip()
    return int(text) if text.isdigit() else None
