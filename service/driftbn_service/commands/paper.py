"""``driftbn paper``: the experiment of Minn and Fu repeated, and what of it reproduces."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

import driftbn
from driftbn.datasets.study import (
    ALPHA,
    DENSITIES,
    LEARNERS,
    NETWORKS,
    Run,
    Sample,
    Study,
    all_asked,
    distance,
    findings,
    measure,
    n_arcs,
    samples,
    searched,
)
from driftbn.explain.html import page, section, shown, table
from driftbn.explain.svg import STYLE, Drawing, in_light
from driftbn_service.commands import Progress, note, save
from driftbn_service.errors import InputError, blamed_on

RUNS = "runs.ndjson"
DEFAULT_FOLDER = "driftbn-paper"
_HEADER: Final = f'{{"format": "driftbn-paper", "driftbn": "{driftbn.__version__}"}}\n'


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "paper",
        description=(
            "Repeat the experiment of Minn and Fu (Fast & Efficient Learning of Bayesian Networks"
            " from Data): PC, FSBN and SSBN on samples of the paper's networks. Writes report.html,"
            " report.md and figures to a folder, and keeps finished runs there, so that it can be"
            " stopped and goes on where it was."
        ),
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        help="where it writes (%(default)s)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="two samples of two sizes: a tenth of it all"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    with blamed_on(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = samples(quick=arguments.quick)
        study = Study([run for run in _all_runs(folder / RUNS, wanted) if run.sample in {*wanted}])
    parts = report_parts(study)
    outputs = [("report.html", _as_html(parts)), ("report.md", _as_markdown(parts))]
    outputs += [(part.file, _as_file(part.figure)) for part in parts if part.figure]
    save([(str(folder / name), text.encode()) for name, text in outputs])
    note(f"{folder / 'report.html'} has {len(study.runs)} runs")
    return 0


# Runs: those that a file has, and those that are still to be made and are added to it.


def _all_runs(path: Path, wanted: Sequence[Sample]) -> list[Run]:
    runs = _read(path)
    done = {run.sample for run in runs}
    todo = [sample for sample in wanted if sample not in done]
    if todo:
        measure(Sample("asia", 100, 0), time.process_time)  # compiles, or loads what was compiled
    with path.open("a", encoding="utf-8") as file, Progress(len(wanted)) as progress:
        for number, sample in enumerate(todo):
            words = f"{sample.network}, {sample.rows} rows"
            progress.show(len(wanted) - len(todo) + number, words)
            measured = measure(sample, time.process_time)
            file.write("".join(json.dumps(asdict(run)) + "\n" for run in measured))
            file.flush()
            runs += measured
    return runs


def _read(path: Path) -> list[Run]:
    """Return the runs of the samples that are complete, and cut off what a kill has left."""
    if not path.exists() or path.stat().st_size == 0:
        path.write_text(_HEADER, "utf-8")
    lines = path.read_text("utf-8").splitlines(keepends=True)
    if lines[0] != _HEADER:
        raise InputError(str(path), f"does not begin with {_HEADER.strip()}; give another folder")
    whole = [line for line in lines[1:] if line.endswith("\n")]
    whole = whole[: len(whole) - len(whole) % len(LEARNERS)]
    with path.open("r+b") as file:
        file.truncate(len("".join([_HEADER, *whole]).encode()))
    return [_run_of(json.loads(line)) for line in whole]


def _run_of(data: dict[str, Any]) -> Run:
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Run(**data | lists)


# The report: sentences, and a figure and a table for each measure.


class Part(NamedTuple):
    heading: str
    text: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    file: str = ""
    figure: Drawing | None = None


class Measure(NamedTuple):
    """What a figure shows, and how the table beside it says that."""

    file: str
    heading: str
    text: str
    value: Callable[[Run], float]
    said: Callable[[float], str]
    true: Callable[[Run], float] | None = None
    more: Callable[[Run], float] | None = None  # in brackets beside it in the table


_MEASURES: Final = (
    Measure(
        "hamming",
        "Hamming distance",
        "Edges of the learned class that are missing, added, or directed otherwise than in the"
        " class of the true network; in brackets those missing.",
        distance,
        "{:.1f}".format,
        more=lambda run: run.missing,
    ),
    Measure(
        "bdeu",
        "BDeu score by row",
        "In nats, with a prior worth one row.",
        lambda run: run.bdeu / run.rows,
        "{:.3f}".format,
        true=lambda run: run.true_bdeu / run.rows,
    ),
    Measure(
        "tests",
        "Weighted tests of the search",
        "Each test counts 2 + the size of its set; in brackets with those that direct edges.",
        searched,
        "{:,.0f}".format,
        more=all_asked,
    ),
    Measure(
        "time",
        "CPU time",
        "In milliseconds, from codes to a graph with directions, on one thread.",
        lambda run: 1000 * run.seconds,
        "{:.1f}".format,
    ),
)


def report_parts(study: Study) -> list[Part]:
    folds = 1 + max(run.fold for run in study.runs)
    text = (
        f"PC (order-independent and original), FSBN and SSBN at level {ALPHA:g}, chi-square, sets"
        f" of up to 3, without repair by score; {folds} samples of each size, means of them. A warm"
        " start has seen an independent sample of the same size. Weighted tests, Hamming distance"
        " and BDeu as in section V of the paper; driftbn " + driftbn.__version__ + "."
    )
    parts = [Part("What reproduces", text, ("The paper says", "Here", "As seen"), findings(study))]
    for title, networks, most in (
        ("", NETWORKS, None),
        (" by density", DENSITIES, study.most_rows(DENSITIES)),
    ):
        parts += [_figure_part(study, shows, title, networks, most) for shows in _MEASURES]
    return parts


def _figure_part(
    study: Study, shows: Measure, title: str, networks: Sequence[str], most: int | None
) -> Part:
    panels, rows = [], []
    for network in networks:
        sizes = study.sizes(network, most)
        lines = {
            name: [study.mean(shows.value, network, name, size) for size in sizes]
            for name in LEARNERS
        }
        if shows.true is not None:
            lines["true"] = [study.mean(shows.true, network, "SSBN", size) for size in sizes]
        panels.append(Panel(f"{network}, {n_arcs(network)} edges", sizes, lines))
        for place in (0, -1):
            said = [shows.said(values[place]) for values in lines.values()]
            if shows.more is not None:
                more = (study.mean(shows.more, network, name, sizes[place]) for name in LEARNERS)
                said = [f"{a} ({shows.said(b)})" for a, b in zip(said, more, strict=True)]
            rows.append((network, f"{sizes[place]:,}", *said))
    heading = shows.heading + title
    names = ("network", "rows", *LEARNERS, *(["true"] if shows.true else []))
    file = f"{shows.file}{title.replace(' by ', '-')}.svg"
    return Part(heading, shows.text, names, rows, file, chart_of(heading, panels))


def _as_html(parts: Sequence[Part]) -> str:
    body = ["<h1>The experiment of Minn and Fu, repeated</h1>"]
    for part in parts:
        figure = f'<div class="panel wide">{part.figure.inline()}</div>' if part.figure else ""
        body.append(
            section(
                part.heading,
                [f"<p>{shown(part.text)}</p>", figure, table(part.names, part.rows)],
            )
        )
    return page("driftbn: the paper's experiment", body)


def _as_markdown(parts: Sequence[Part]) -> str:
    blocks = []
    for part in parts:
        lines = [part.names, ["---"] * len(part.names), *part.rows]
        blocks += [f"## {part.heading}", part.text]
        blocks += [f"![{part.heading}]({part.file})"] if part.figure else []
        blocks += ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(blocks) + "\n"


# Charts: a panel for each network, rows to the right, a line for each learner.

_PANEL_WIDTH, _PANEL_HEIGHT, _COLUMNS = 470.0, 250.0, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 78.0, 16.0, 34.0, 30.0
_LEGEND, _N_TICKS, _DODGE = 34.0, 4, 7.0
_COLOURS: Final = {
    "PC-stable": "kept",
    "PC": "ink",
    "FSBN": "reversed",
    "SSBN": "added",
    "SSBN warm": "changed",
    "true": "removed",
}


class Panel(NamedTuple):
    title: str
    sizes: Sequence[int]
    lines: dict[str, list[float]]


def chart_of(title: str, panels: Sequence[Panel]) -> Drawing:
    """Draw panels beside and below each other; points of one size stand beside each other."""
    body = [_legend(panels[0].lines)]
    for number, panel in enumerate(panels):
        row, column = divmod(number, _COLUMNS)
        x, y = column * _PANEL_WIDTH, _LEGEND + row * _PANEL_HEIGHT
        body.append(f'<g transform="translate({x:.0f} {y:.0f})">{_panel(panel)}</g>')
    height = _LEGEND + -(-len(panels) // _COLUMNS) * _PANEL_HEIGHT
    return Drawing("timeline", title, _COLUMNS * _PANEL_WIDTH, height, "".join(body))


def _legend(names: Iterable[str]) -> str:
    return "".join(
        f'{_dot(name, 20 + 130 * i, 14)}<text x="{30 + 130 * i}" y="19">{escape(name)}</text>'
        for i, name in enumerate(names)
    )


def _panel(panel: Panel) -> str:
    values = [value for line in panel.lines.values() for value in line]
    ticks = _ticks(min(values), max(values))
    low, high = ticks[0], ticks[-1]
    right, base = _PANEL_WIDTH - _RIGHT, _PANEL_HEIGHT - _BOTTOM

    def height_of(value: float) -> float:
        return base - (value - low) / (high - low) * (base - _TOP)

    step = (right - _LEFT) / len(panel.sizes)
    parts = [
        f'<text class="strip" x="{_LEFT:.0f}" y="{_TOP - 14:.0f}">{escape(panel.title)}</text>'
    ]
    for tick in ticks:
        y = height_of(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="scale" x="{_LEFT - 6}" y="{y:.1f}">{tick:,.6g}</text>')
    for i, size in enumerate(panel.sizes):
        x = _LEFT + (i + 0.5) * step
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 20:.0f}">{size:,}</text>')
    for number, (name, line) in enumerate(panel.lines.items()):
        aside = _DODGE * (number - (len(panel.lines) - 1) / 2)
        places = [(_LEFT + (i + 0.5) * step + aside, height_of(v)) for i, v in enumerate(line)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        colour = f"var(--{_COLOURS[name]})"
        parts.append(f'<path d="M{path}" style="fill:none;stroke:{colour};stroke-width:1.3"/>')
        parts += [_dot(name, x, y) for x, y in places]
    return "".join(parts)


def _dot(name: str, x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" style="fill:var(--{_COLOURS[name]})"/>'


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers around the values; from 0 unless some are negative.

    >>> _ticks(12.0, 47.0), _ticks(-2.31, -2.28)
    ([0.0, 20.0, 40.0, 60.0], [-2.31, -2.3, -2.29, -2.28])
    """
    if low >= 0 or low == high:
        low, high = min(low, 0.0), max(high, 0.0) or 1.0
    rough = (high - low) / _N_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 9) for i in range(first, last + 1)]


def _as_file(figure: Drawing) -> str:
    """Return a figure as a file of its own, in light colours and with its style."""
    width, height = f"{figure.width:.0f}", f"{figure.height:.0f}"
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" width="{width}"'
        f' height="{height}"><style>{STYLE}</style><rect width="100%" height="100%"'
        f' style="fill:var(--paper)"/>{figure.body}</svg>\n'
    )
    return in_light(text)
