"""Measure the monitor on streams with known changes: false alarms, detection, naming, cost.

Run ``python -m tests.benchmarks.drift``; with ``--peers`` also drift checks in common use, on the
same streams, which the first time are installed into environments of their own. The tables go to
standard output, progress to standard error. With ``--json`` every stream is kept as it is done, and
a run that is started again goes on from there.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path

from tests.benchmarks.drift_peer_runs import (
    PEER_NAMES,
    USUAL_PEERS,
    PeerResult,
    installed,
    peer_result_from,
    run_peers,
)
from tests.benchmarks.drift_runs import Result, ResultFile, Settings, Task, result_from, run_task
from tests.benchmarks.drift_scenarios import BURSTS, CELLS, NETWORKS
from tests.benchmarks.drift_table import peer_tables, tables
from tests.benchmarks.environment import DEFAULT_CACHE, THREAD_VARIABLES, pin_to_one_core

_log = logging.getLogger(__name__)


def all_tasks(arguments: argparse.Namespace, n_streams: int) -> list[Task]:
    """Return the streams asked for, all cells and networks of a seed before the next seed."""
    settings = Settings(arguments.alpha, arguments.windows_between_false_alarms, arguments.warm)
    asked = product(range(n_streams), arguments.networks, arguments.cells, arguments.bursts)
    return [Task(network, cell, bursts, seed, settings) for seed, network, cell, bursts in asked]


def run_own(tasks: Sequence[Task], jobs: int, path: Path | None) -> list[Result]:
    """Run what is not yet in the file, several streams at a time; return all, in order."""
    file = None if path is None else ResultFile(path, result_from)
    done = {} if file is None else {result.task: result for result in file.read()}
    waiting = [task for task in tasks if task not in done]
    for n_done, result in enumerate(_run_each(waiting, jobs), start=1):
        done[result.task] = result
        if file is not None:
            file.append(result)
        task = result.task
        _log.info(
            "%d of %d: %s, %s, %s", n_done, len(waiting), task.network, task.cell, task.bursts
        )
    return [done[task] for task in tasks]


def _run_each(tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    # Spawned, so that the limits on threads hold when the numerical libraries are loaded.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for future in as_completed([pool.submit(run_task, task) for task in tasks]):
            yield future.result()


def run_all_peers(
    tasks: Sequence[Task], pythons: dict[str, Path], path: Path | None
) -> list[PeerResult]:
    """Run the peers, one stream after the other, where the file has no result yet."""
    file = None if path is None else ResultFile(path, peer_result_from)
    # What failed is tried again.
    results = [] if file is None else [result for result in file.read() if not result.note]
    done = {(*result.stream, result.peer) for result in results}
    for n_done, task in enumerate(tasks, start=1):
        stream = (task.network, task.cell, task.bursts, task.seed)
        left = {peer: python for peer, python in pythons.items() if (*stream, peer) not in done}
        for result in run_peers(task, left) if left else ():
            results.append(result)
            if file is not None:
                file.append(result)
        _log.info("peers, %d of %d: %s, %s, %s", n_done, len(tasks), *stream[:3])
    asked = {(task.network, task.cell, task.bursts, task.seed) for task in tasks}
    return [result for result in results if result.stream in asked]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.drift")
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS)
    add("--cells", nargs="+", default=CELLS, choices=CELLS, metavar="CELL", help=", ".join(CELLS))
    add("--bursts", nargs="+", default=("none",), choices=BURSTS)
    add("--streams", type=int, default=30, help="of each network, cell and kind of bursts")
    add("--alpha", type=float, help="share of stationary windows that may be called drift")
    add("--windows-between-false-alarms", type=float, help="the same, the other way round")
    add("--warm", choices=("none", "tallies", "tallies+separators"))
    add("--jobs", type=int, default=1, help="streams at a time; 1 for the cost table")
    add("--json", type=Path, help="where every stream's result is kept; read at the start")
    add("--markdown", type=Path, help="write the tables there as Markdown, too")
    about = f"any of {', '.join(PEER_NAMES)}; without names, all but the last, which is slow"
    add("--peers", nargs="*", choices=PEER_NAMES, metavar="PEER", help=about)
    add("--peer-streams", type=int, default=5, help="of the streams, for the peers")
    add("--cache", type=Path, default=DEFAULT_CACHE, help="where the peers are installed")
    add("--core", type=int, help="the core of a single job; default: the last one allowed")
    return parser


def _limit_threads(arguments: argparse.Namespace) -> None:
    if arguments.jobs == 1:
        _log.info("on core %d", pin_to_one_core(arguments.core))
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


def main() -> None:
    """Parse the command line, run, print the tables."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    wanted = arguments.peers
    peers = USUAL_PEERS if wanted == [] else tuple(wanted or ())
    pythons = installed(peers, arguments.cache)
    _limit_threads(arguments)
    results = run_own(all_tasks(arguments, arguments.streams), arguments.jobs, arguments.json)
    printed = tables(results)
    if peers:
        path = None if arguments.json is None else arguments.json.with_suffix(".peers.jsonl")
        tasks = all_tasks(arguments, min(arguments.streams, arguments.peer_streams))
        found = run_all_peers(tasks, pythons, path)
        printed += peer_tables(results, found, [peer for peer in peers if peer not in pythons])
    sys.stdout.write("".join(table.render(markdown=False) for table in printed))
    if arguments.markdown is not None:
        text = "".join(table.render(markdown=True) for table in printed)
        arguments.markdown.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
