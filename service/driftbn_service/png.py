"""Drawings as PNG, rendered by resvg with DejaVu Sans, whatever fonts a machine has."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib import resources
from typing import Final

from driftbn.explain.svg import Drawing
from driftbn_service.optional_parts import naming_the_extra

MAX_PIXELS: Final = 6000
"""Longest side of a picture; a larger drawing shrinks."""
_ZOOM: Final = 1.5  # pixels of a unit: sharp on dense screens too


def png_renderer() -> Callable[[Drawing], bytes]:
    """Return what makes a PNG of a drawing; asked for first, before any other work is done.

    Raises
    ------
    MissingExtraError
        If the packages of the extra ``png`` are not installed.
    """
    with naming_the_extra("a picture"):
        resvg = importlib.import_module("resvg_py")
        fonts = importlib.import_module("ziafont.fonts")  # scripts it lacks come from the system

    def render(drawing: Drawing) -> bytes:
        zoom = min(_ZOOM, MAX_PIXELS / max(drawing.width, drawing.height))
        with resources.as_file(resources.files(fonts) / "DejaVuSans.ttf") as font:
            png: bytes = resvg.svg_to_bytes(
                svg_string=drawing.document(), zoom=zoom, font_files=[str(font)]
            )
        return png

    return render
