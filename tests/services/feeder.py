"""Records that keep coming while a test does things to those who read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

PAUSE_SECONDS = 0.05
N_AT_ONCE = 20


class Feeder:
    """A thread that writes numbered records until the end of its ``with`` block."""

    def __init__(self, write: Callable[[Sequence[int]], None]) -> None:
        self.n_records = 0
        self._write = write
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            self._write(range(self.n_records, self.n_records + N_AT_ONCE))
            self.n_records += N_AT_ONCE

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
