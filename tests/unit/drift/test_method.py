"""The method as it is written down has the constants of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from driftbn import drift, report
from driftbn.drift import (
    comparison,
    decider,
    dispersion,
    facts,
    naming,
    outcome,
    plan,
    reference,
    scatter,
    trust,
)
from driftbn.kernels import deviance
from driftbn.learning import independence

MODULES = (
    plan,
    reference,
    comparison,
    dispersion,
    scatter,
    facts,
    decider,
    naming,
    outcome,
    trust,
    report,
    deviance,
    independence,
)
TEXT = (Path(drift.__path__[0]) / "METHOD.md").read_text("utf-8")
WRITTEN = re.findall(r"`([A-Z][A-Z_]+)` (?:\(|= )([0-9.]+)", re.sub(r"\s+", " ", TEXT))


def test_most_constants_are_written_down() -> None:
    assert len({name for name, _ in WRITTEN}) > 15


@pytest.mark.parametrize(("name", "value"), sorted(set(WRITTEN)))
def test_a_constant_in_the_text_is_that_of_the_code(name: str, value: str) -> None:
    (found,) = {getattr(module, name) for module in MODULES if hasattr(module, name)}
    assert found == float(value)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z][A-Z_]{3,})`", TEXT))))
def test_every_constant_of_the_text_exists(name: str) -> None:
    assert any(hasattr(module, name) for module in MODULES)
