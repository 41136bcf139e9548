"""Run drift checks in common use on one stream; runs inside the peers' environment.

The request is an ``.npz`` file with ``codes`` ``[windows, variables, rows]``, ``cards`` (states a
variable) and ``n_reference``: the first windows, pooled, are the reference, each later one is
tested. One line of JSON is printed for each check. Where a check has a level it is set to a nominal
``alpha`` a window, divided by the number of columns if it is a check by columns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]
Alarms = dict[str, list[bool]]

MMD_ROWS = 1000  # of reference and window each: its cost and memory are quadratic
MMD_PERMUTATIONS = 200  # the smallest p-value has to be below alpha
DRIFT_SHARE = 0.5  # of the columns: what Evidently's preset calls a drift of the data set
SEED = 0


@dataclass(frozen=True)
class Request:
    """A stream cut into windows; columns that are constant in the reference are left out."""

    codes: Codes  # [windows, variables, rows]
    cards: npt.NDArray[np.int64]  # [variables]
    n_reference: int
    alpha: float

    @cached_property
    def reference(self) -> Codes:
        return np.concatenate(list(self.codes[: self.n_reference]), axis=1)

    @property
    def tested(self) -> list[Codes]:
        """The windows to be tested, each ``[variables, rows]``."""
        return list(self.codes[self.n_reference :])

    @property
    def alpha_per_column(self) -> float:
        """The level divided by the number of columns (Bonferroni)."""
        return self.alpha / len(self.cards)


@dataclass
class Answer:
    """In which of the tested windows a check raised an alarm, or why it did not run."""

    name: str
    alarms: list[bool] = field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None


def chi_square(request: Request) -> Alarms:
    """Compare each column's counts with those of the reference by Pearson's chi-square."""
    stats: Any = importlib.import_module("scipy.stats")

    def p_value(before: Codes, now: Codes, card: int) -> float:
        counts = np.array([np.bincount(part, minlength=card) for part in (before, now)])
        seen = counts[:, counts.sum(axis=0) > 0]
        return float(stats.chi2_contingency(seen, correction=False).pvalue)

    def smallest(window: Codes) -> float:
        return min(map(p_value, request.reference, window, request.cards))

    alarms = [smallest(window) <= request.alpha_per_column for window in request.tested]
    return {"chi-square": alarms}


def adwin(request: Request) -> Alarms:
    """Feed each column, scaled to 0 to 1, record by record to an ADWIN of its own."""
    drift: Any = importlib.import_module("river.drift")
    fired = np.zeros(len(request.codes), dtype=bool)
    for column, card in enumerate(request.cards):
        detector = drift.ADWIN(delta=request.alpha_per_column)
        for index, window in enumerate(request.codes[:, column]):
            for value in (window / max(1, card - 1)).tolist():
                detector.update(value)
                if detector.drift_detected:
                    fired[index] = True
    return {"adwin": fired[request.n_reference :].tolist()}


def evidently(request: Request) -> Alarms:
    """Count drifted columns by its defaults, as its preset does: half of them, or any."""
    library: Any = importlib.import_module("evidently")
    metrics: Any = importlib.import_module("evidently.metrics")
    names = [f"c{i}" for i in range(len(request.cards))]
    definition = library.DataDefinition(categorical_columns=names)
    reference = library.Dataset.from_pandas(_frame(names, request.reference), definition)
    counts = []
    for window in request.tested:
        current = library.Dataset.from_pandas(_frame(names, window), definition)
        report = library.Report([metrics.DriftedColumnsCount()]).run(current, reference)
        counts.append(report.dict()["metrics"][0]["value"]["count"])
    return {
        "evidently": [count >= DRIFT_SHARE * len(names) for count in counts],
        "evidently-any": [count >= 1 for count in counts],
    }


def _frame(names: list[str], codes: Codes) -> Any:
    pandas: Any = importlib.import_module("pandas")
    labels = np.array([f"s{code}" for code in range(256)], dtype=object)
    return pandas.DataFrame(dict(zip(names, labels[codes], strict=True)))


def classifier(request: Request) -> Alarms:
    """Train boosted trees to tell window from reference, half the rows; rank test on the rest."""
    ensemble: Any = importlib.import_module("sklearn.ensemble")
    stats: Any = importlib.import_module("scipy.stats")
    rng = np.random.default_rng(SEED)

    def p_value(window: Codes) -> float:
        rows = np.concatenate([request.reference, window], axis=1).T
        is_new = np.arange(len(rows)) >= request.reference.shape[1]
        train = rng.random(len(rows)) < 0.5
        model = ensemble.HistGradientBoostingClassifier(
            categorical_features=np.ones(rows.shape[1], dtype=bool),
            class_weight="balanced",
            random_state=SEED,
        )
        model.fit(rows[train], is_new[train])
        scores, new = model.predict_proba(rows[~train])[:, 1], is_new[~train]
        return float(stats.mannwhitneyu(scores[new], scores[~new], alternative="greater").pvalue)

    return {"classifier": [p_value(window) <= request.alpha for window in request.tested]}


def alibi_tabular(request: Request) -> Alarms:
    """Run alibi-detect's test by columns, all of them categories, Bonferroni-corrected."""
    library: Any = importlib.import_module("alibi_detect.cd")
    states = {i: list(range(card)) for i, card in enumerate(request.cards.tolist())}
    detector = library.TabularDrift(
        request.reference.T, p_val=request.alpha, categories_per_feature=states
    )
    return {"alibi-tabular": [_is_drift(detector, window.T) for window in request.tested]}


def alibi_mmd(request: Request) -> Alarms:
    """Run alibi-detect's maximum mean discrepancy on a sample of rows, states as indicators."""
    library: Any = importlib.import_module("alibi_detect.cd")
    rng = np.random.default_rng(SEED)

    def drawn(codes: Codes) -> npt.NDArray[np.float32]:
        rows = codes[:, rng.choice(codes.shape[1], MMD_ROWS, replace=False)]
        pairs = zip(rows, request.cards, strict=True)
        return np.concatenate([np.eye(card, dtype=np.float32)[row] for row, card in pairs], axis=1)

    detector = library.MMDDrift(
        drawn(request.reference),
        backend="tensorflow",
        p_val=request.alpha,
        n_permutations=MMD_PERMUTATIONS,
    )
    return {"alibi-mmd": [_is_drift(detector, drawn(window)) for window in request.tested]}


def _is_drift(detector: Any, rows: Any) -> bool:
    return bool(detector.predict(rows)["data"]["is_drift"])


PEERS: dict[str, Callable[[Request], Alarms]] = {
    "chi-square": chi_square,
    "adwin": adwin,
    "evidently": evidently,
    "classifier": classifier,
    "alibi-tabular": alibi_tabular,
    "alibi-mmd": alibi_mmd,
}


def answers(name: str, request: Request) -> list[Answer]:
    """Run one check; a failure becomes an answer, because the table must say so."""
    begin = time.perf_counter()
    try:
        found = PEERS[name](request)
    except Exception:  # noqa: BLE001  a peer may fail in any way
        return [Answer(name, error=traceback.format_exc().strip().splitlines()[-1])]
    seconds = time.perf_counter() - begin
    return [Answer(verdict, alarms, seconds) for verdict, alarms in found.items()]


def read_request(path: Path, alpha: float) -> Request:
    """Read a stream without the columns that are constant in the reference."""
    with np.load(path) as stored:
        codes, cards = stored["codes"], stored["cards"].astype(np.int64)
        n_reference = int(stored["n_reference"])
    known = codes[:n_reference]
    varies = known.min(axis=(0, 2)) != known.max(axis=(0, 2))
    return Request(codes[:, varies], cards[varies], n_reference, alpha)


def main() -> None:
    """Answer one request on standard output, a line a verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", type=Path)
    parser.add_argument("peers", nargs="+", choices=PEERS)
    parser.add_argument("--alpha", type=float, default=0.01)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    request = read_request(arguments.stream, arguments.alpha)
    for name in arguments.peers:
        for answer in answers(name, request):
            sys.stdout.write(json.dumps(asdict(answer)) + "\n")


if __name__ == "__main__":
    main()
