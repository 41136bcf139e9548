"""Where the texts of a picture find room."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

Point = tuple[float, float]

FONT = 14.0
"""Size of letters in pixels, as are all lengths."""
PULL = 0.45
"""How far a curve leaves a point upright, as a share of its height."""

_SHARES = (0.5, 0.35, 0.65, 0.2, 0.8)  # where on a piece of a line its sign is tried
_NARROW = frozenset("iljtfrI.,:;'|!()[]{} ")


@dataclass(frozen=True)
class Box:
    """A rectangle by its middle and its size."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Whether the two have a part in common."""
        beside = abs(self.x - other.x) >= (self.width + other.width) / 2
        return not beside and abs(self.y - other.y) < (self.height + other.height) / 2


def text_width(text: str) -> float:
    """Return about how wide a text is; no font is known here."""
    return FONT * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in _NARROW:
        return 0.38
    if character in "MWmw@%—…":
        return 0.95
    return 0.72 if character.isupper() else 0.6


def places_on(points: list[Point]) -> list[Point]:
    """Return points on a route where a sign may stand, the best first.

    Every second piece of a route passes by nodes; the others lie between two layers.
    """
    pieces = range(0, len(points) - 1, 2)
    ordered = sorted(pieces, key=lambda piece: abs(piece - (len(points) - 2) / 2))
    return [
        _on_curve(points[piece], points[piece + 1], share) for piece in ordered for share in _SHARES
    ]


def _on_curve(a: Point, b: Point, share: float) -> Point:
    """Return a point of the curve that a picture has between two points."""
    rest = 1 - share
    early, late = 3 * rest**2 * share, 3 * rest * share**2
    x = a[0] * (rest**3 + early) + b[0] * (share**3 + late)
    pull = PULL * (b[1] - a[1])
    y = a[1] * (rest**3 + early) + b[1] * (share**3 + late) + pull * (early - late)
    return x, y


def free_place(places: list[Point], width: float, taken: list[Box]) -> Point:
    """Return the first place that is free, or the first of all, and take it."""
    boxes = [Box(*place, width, FONT) for place in places]
    free = (box for box in boxes if not any(box.meets(other) for other in taken))
    chosen = next(free, boxes[0])
    taken.append(chosen)
    return chosen.x, chosen.y
