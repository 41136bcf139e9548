"""Writes the stream of the demonstration to a file, as a program that logs its events would."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from driftbn_service.demo.scenes import Scene, windows_of

STAY_PACE: Final = 3.0
"""Seconds a window once the planned scenes are over: slow enough to watch."""


class Producer:
    """A thread that appends windows to a file.

    Parameters
    ----------
    path
        The file.
    scenes
        What to write.
    pace
        Seconds a window; 0 for as fast as possible.
    stay
        Whether to repeat the scenes for ever, each time with other records.
    """

    def __init__(self, path: Path, scenes: tuple[Scene, ...], pace: float, stay: bool) -> None:
        self.path = path
        self.scenes = scenes
        self.pace = pace
        self.stay = stay
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, name="demo stream", daemon=True)

    def start(self) -> None:
        """Start writing."""
        self.path.touch()
        self._thread.start()

    def stop(self) -> None:
        """Stop writing and wait until it has."""
        self._stopping.set()
        self._thread.join()

    def _write(self) -> None:
        with self.path.open("ab", buffering=0) as file:
            for window, pace in self._windows():
                file.write(window)
                if self._stopping.wait(pace):
                    return

    def _windows(self) -> Iterator[tuple[bytes, float]]:
        for window in windows_of(self.scenes):
            yield window, self.pace
        for n_round in itertools.count(1) if self.stay else ():
            for window in windows_of(self.scenes, first_seed=1000 + 1000 * n_round):
                yield window, self.pace or STAY_PACE
