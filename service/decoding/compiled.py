"""How the kernels of decoding are compiled: as those of the library."""

from __future__ import annotations

from driftbn.compiled import inlined, kernel

__all__ = ["inlined", "kernel"]
