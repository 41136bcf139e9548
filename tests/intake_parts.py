"""Records of every type, and what to ask of an intake that is fed with them."""

import datetime

import numpy as np

from driftbn.tables.intake import Intake

DAY = datetime.date(2024, 1, 1)
LENIENT = "reject_rows"


def records(n_rows: int = 40, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [
        {
            "text": str(rng.choice(["a", "b", "c"])),
            "flag": bool(rng.integers(2)) if rng.random() < 0.9 else None,
            "whole": int(rng.integers(5)),
            "number": float(rng.normal()) if rng.random() < 0.8 else None,
            "constant": 7,
            "empty": None,
            "copy": "same",
            "day": DAY,
            "mixed": [1, "x", True, 0.5][rng.integers(4)],
        }
        for _ in range(n_rows)
    ]


def feed(intake: Intake, batches) -> tuple[np.ndarray, np.ndarray | None]:
    """Take in all batches and return codes and times of the stream."""
    found = [encoded for batch in batches if (encoded := intake.take(batch)) is not None]
    last = intake.finish()
    found += [] if last is None else [last]
    times = None
    if found and found[0].times is not None:
        times = np.concatenate([encoded.times for encoded in found])
    return np.hstack([encoded.codes for encoded in found]), times
