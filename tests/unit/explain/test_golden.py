"""The whole explanation of faults that every stream has some day, word for word.

Whoever changes a sentence reads all of them as somebody who knows the fields and no statistics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from driftbn import DriftMonitor, WindowReport
from driftbn.config import DriftKind
from driftbn.drift.shares import MAX_MOVED
from driftbn.explain import Explanation
from tests.encoded import SchemaEventKind

ROWS, CALM = 2000, 10
START = pd.Timestamp("2026-03-02 08:00")


def orders(n_windows: int) -> pd.DataFrame:
    """Return orders, one a second, in which risk and segment decide on the rest."""
    n, rng = ROWS * n_windows, np.random.default_rng(7)
    country = rng.choice(["DE", "FR", "US"], n, p=[0.5, 0.3, 0.2])
    business = rng.random(n) < np.where(country == "US", 0.7, 0.25)
    risk = rng.choice(["low", "medium", "high"], n, p=[0.6, 0.25, 0.15])
    risk = np.where(business & (rng.random(n) < 0.5), "low", risk)
    reviewed, chance = pd.Series(risk).map({"low": 0.03, "medium": 0.2, "high": 0.6}), rng.random(n)
    declined = np.where(chance < reviewed + 0.05, "declined", "approved")
    status = np.where(chance < reviewed, "review", declined)
    price = np.round(rng.lognormal(3.5, 0.6, n) * np.where(business, 2.0, 1.0), 2)
    columns = {"country": country, "segment": np.where(business, "business", "private")}
    columns |= {"risk": risk, "status": status, "price": price}
    columns["days"] = np.clip(rng.poisson(np.where(country == "US", 6, 3)), 1, 9)
    return pd.DataFrame(columns).assign(at=START + pd.to_timedelta(np.arange(n), unit="s"))


def _reviewed(frame: pd.DataFrame, held: pd.Series) -> pd.DataFrame:
    """Let half of some orders be reviewed as well."""
    half = np.random.default_rng(1).random(len(frame)) < 0.5
    return frame.assign(status=frame.status.mask(held & half, "review"))


def _without_values(frame: pd.DataFrame) -> pd.DataFrame:
    kept = np.random.default_rng(1).random(len(frame)) > 0.4
    return frame.assign(risk=frame.risk.astype(object).where(kept, None))


def _permuted(frame: pd.DataFrame, field: str) -> pd.DataFrame:
    values = np.random.default_rng(1).permutation(frame[field].to_numpy())
    return frame.assign(**{field: values})


FAULTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "dropped field": lambda frame: frame.drop(columns="risk"),
    "null flood": _without_values,
    "unit change": lambda frame: frame.assign(price=frame.price * 100),
    "other numbers": lambda frame: frame.assign(price=frame.price - 150),
    "other type": lambda frame: frame.assign(price=[f"{price:.2f} EUR" for price in frame.price]),
    "renamed level": lambda frame: frame.replace({"status": {"review": "manual_review"}}),
    "broken join": lambda frame: _permuted(frame, "segment"),
    "removed dependency": lambda frame: _permuted(frame, "status"),
    "added dependency": lambda frame: _reviewed(frame, frame.country == "US"),
    "other rule": lambda frame: _reviewed(frame, frame.risk == "medium"),
}


def broken(kind: str, frame: pd.DataFrame) -> pd.DataFrame:
    return FAULTS[kind](frame)


GOLDEN = {
    "dropped field": """
Drift in window 10: 'risk' stopped coming.

- The field 'risk' is absent, not empty: no record has it any more.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- While that lasts, how 'risk' and 'segment' depend on each other cannot be
  compared with before.

What to do:
- Ask whoever sends the records whether 'risk' was dropped or renamed.
""",
    "null flood": """
Drift in window 10: 'risk' has no value in 40% of the records.

- Before, every record had one.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- While that lasts, how 'risk' and 'segment' depend on each other cannot be
  compared with before.

What to do:
- Look at what fills 'risk': a lookup or a join that finds nothing, or its
  source.
""",
    "unit change": """
Drift in window 10: the numbers of 'price' have another size, as if its unit had
changed.

- About half of its values were between 25.73 and 66.98 until now; about half
  are between 2,312 and 9,810 now.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- While that lasts, how 'price' and 'segment' depend on each other cannot be
  compared with before.

What to do:
- Check the unit of 'price' at its source, such as cents for euros or
  milliseconds for seconds.
""",
    "other numbers": """
Drift in window 10: the numbers of 'price' lie elsewhere than ever.

- About half of its values were between 25.73 and 66.98 until now; about half
  are between -139.3 and 0.142 now.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- While that lasts, how 'price' and 'segment' depend on each other cannot be
  compared with before.

What to do:
- Look for what changed at the source of 'price'.
""",
    "other type": """
Drift in window 10: 'price' is no longer a number.

- There is a text in its place, such as '10.00 EUR', in every record.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- While that lasts, how 'price' and 'segment' depend on each other cannot be
  compared with before.

What to do:
- Look at what writes 'price': a format, a unit or a decimal comma that is new.
""",
    "renamed level": """
Drift in window 10: a value of 'status' seems to have been renamed.

- 'review' (14% of the records before) no longer comes, and 'manual_review',
  never seen before, comes in 14%.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- While that lasts, how 'status' and 'risk' depend on each other cannot be
  compared with before.

What to do:
- If that was meant, rename the value wherever 'status' is used; if not, correct
  it at its source.
""",
    "broken join": """
Drift in window 10: 'segment' no longer tells anything about 'price', 'country'
and 'risk'.

- The values of 'segment' themselves come as often as before, so they may belong
  to other records now.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- How it changed: among records with 'price' above 66.98, 'segment' = 'business'
  went from 68% to 37%; among records with 'country' = 'US', 'segment' =
  'private' went from 29% to 63%; among records with 'risk' = 'medium',
  'segment' = 'business' went from 20% to 37%.

What to do:
- Check the join or lookup that brings 'segment' to the records: its key, its
  order.
""",
    "removed dependency": """
Drift in window 10: the dependency between 'risk' and 'status' was removed.

- Knowing 'risk' tells next to nothing about 'status' any more.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- How it changed: among records with 'risk' = 'high', 'status' = 'approved' went
  from 35% to 82%; among records with 'risk' = 'low', 'status' = 'approved' went
  from 92% to 81%.

What to do:
- Look for what changed at the source of 'risk' and 'status' up to record 21,999
  (2026-03-02 14:06:39 UTC).
""",
    "added dependency": """
Drift in window 10: a dependency between 'country' and 'status' was added.

- Knowing 'country' now tells something about 'status'.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- How it changed: among records with 'country' = 'US', 'status' = 'review' went
  from 12% to 54%.

What to do:
- Look for what changed at the source of 'country' and 'status' up to record
  21,999 (2026-03-02 14:06:39 UTC).
""",
    "other rule": """
Drift in window 10: 'status' now comes out differently for the same values of
'risk'.

- Which fields depend on each other is as before, as far as records show.
- First seen in window 10 (records 20,000 to 21,999, from 2026-03-02 13:33:20 to
  14:06:39 UTC).
- How it changed: among records with 'risk' = 'medium', 'status' = 'review' went
  from 20% to 60%.

What to do:
- Look for what changed at the source of 'status' up to record 21,999
  (2026-03-02 14:06:39 UTC).
""",
}


@pytest.fixture(scope="module")
def calm() -> bytes:
    """A monitor that has seen ten calm windows."""
    monitor = DriftMonitor(ROWS, time="at")
    monitor.update(orders(CALM))
    return monitor.snapshot()


def first_report(calm: bytes, kind: str) -> WindowReport:
    stream = orders(CALM + 1)
    (report,) = DriftMonitor.restore(calm).update(broken(kind, stream.iloc[CALM * ROWS :]))
    return report


@pytest.mark.parametrize("kind", GOLDEN)
def test_a_fault_is_told_word_for_word(calm: bytes, kind: str) -> None:
    report = first_report(calm, kind)
    told = report.explain()
    assert str(told) == GOLDEN[kind].strip()
    assert n_sentences(told) <= 6
    assert WindowReport.from_dict(report.to_dict()).explain() == told


def n_sentences(told: Explanation) -> int:
    """Count full stops that end something; those in names and numbers do not."""
    text = " ".join([told.headline, *told.sentences, *told.advice])
    return len(re.findall(r"\.(?= |$)", text))


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("dropped field", SchemaEventKind.MISSING_COLUMN),
        ("null flood", SchemaEventKind.MISSING_VALUES),
        ("unit change", SchemaEventKind.OTHER_SCALE),
        ("other type", SchemaEventKind.NEW_LEVEL),
        ("renamed level", SchemaEventKind.NEW_LEVEL),
    ],
)
def test_what_happens_to_a_field_is_a_difference_from_the_schema(
    calm: bytes, kind: str, event: SchemaEventKind
) -> None:
    report = first_report(calm, kind)
    assert [found.kind for found in report.events] == [event]
    assert "dependency between" not in report.explain().in_full()


def test_a_field_that_stops_in_the_second_window_is_told_as_that() -> None:
    monitor = DriftMonitor(ROWS, time="at")
    stream = orders(3)
    monitor.update(stream.iloc[: 2 * ROWS])
    (report,) = monitor.update(broken("dropped field", stream.iloc[2 * ROWS :]))
    assert report.explain().headline == "Drift in window 2: 'risk' stopped coming."


def test_shares_are_those_of_the_records() -> None:
    stream = orders(2)
    before, now = stream.iloc[:ROWS], broken("removed dependency", stream.iloc[ROWS:])
    monitor = DriftMonitor(ROWS, time="at")
    monitor.update(before)
    (report,) = monitor.update(now)
    moved = report.moved[0]
    (among,) = moved.among
    held = [frame[frame[among.field] == among.level] for frame in (before, now)]
    assert [moved.before_of, moved.now_of] == [len(frame) for frame in held]
    counts = [(frame[moved.value.field] == moved.value.level).sum() for frame in held]
    assert [moved.before, moved.now] == counts
    assert len(report.moved) <= MAX_MOVED


def reports_around(kind: str, n_broken: int, n_after: int) -> list[WindowReport]:
    """Return the reports on some broken windows after ten calm ones, and on some mended ones."""
    stream = orders(CALM + n_broken + n_after)
    first, last = CALM * ROWS, (CALM + n_broken) * ROWS
    monitor = DriftMonitor(ROWS, time="at")
    monitor.update(stream.iloc[:first])
    reports = monitor.update(broken(kind, stream.iloc[first:last]))
    return [*reports, *monitor.update(stream.iloc[last:])]


MENDED = """
Drift in window 13: 'price' and 'segment' are back to an earlier state.

- These records are like those that the stream began with.
- It began in window 10; this is window 13 (records 26,000 to 27,999, from
  2026-03-02 15:13:20 to 15:46:39 UTC).
"""


def test_a_fault_that_is_mended_is_told_as_that() -> None:
    first, *_, mended = reports_around("unit change", 3, 1)
    assert (first.decision.kind, first.facts[0].field) == (DriftKind.DATA, "price")
    told = mended.explain()
    assert str(told).startswith(MENDED.strip())
    assert told.advice[0].startswith("Nothing, if a fault was mended.")
    assert mended.decision.recurring
    assert not mended.facts


def test_a_fault_that_comes_back_is_not_told_as_mended() -> None:
    first, *_, mended = reports_around("removed dependency", 3, 1)
    again = replace(mended, decision=replace(mended.decision, regime=1)).explain()
    assert first.decision.kind is DriftKind.STRUCTURAL
    assert again.advice[0] == "Look at that alarm: if it told of a fault, the fault has come back."
    assert "mended" not in str(again)
