"""A bar on standard error that tells how far long work is; only a terminal sees it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Progress:
    """A bar that makes way where something else is written.

    Parameters
    ----------
    total
        What the work comes to; 1 for each input.
    quiet
        Whether to show nothing even at a terminal.
    """

    def __init__(self, total: float, *, quiet: bool = False) -> None:
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        rich = importlib.import_module("rich.progress")
        console = importlib.import_module("rich.console").Console(file=sys.stderr)
        self._bar = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.TaskProgressColumn(),
            rich.TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: float | None, words: str) -> None:
        """Say how much of the work is done, ``None`` if nobody knows, and what is done now."""
        if self._bar is not None:
            unknown = {"total": None} if done is None else {"completed": done}
            self._bar.update(self._task, description=words, **unknown)
            self._bar.refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while the body writes to the terminal."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
