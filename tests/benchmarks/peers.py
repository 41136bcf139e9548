"""Run one peer on one sample and print one line of JSON; runs inside the peers' environment.

The request is an ``.npz`` file with ``codes`` (a row per variable) and ``names``. Each peer runs
its own PC with Pearson's chi-square, or MIIC, or a search by BIC, and its defaults otherwise.
Only the learning call is timed, in seconds of CPU; the data is in the peer's own container by then.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Edges = list[tuple[str, str]]
Learned = tuple[Edges, Edges]
Call = Callable[[], Any]

QUICK_SECONDS = (
    1.0  # a first run below this is repeated, so that noise of a busy machine shows less
)


@dataclass(frozen=True)
class Request:
    """A sample; constant variables are left out, because some peers refuse them."""

    names: list[str]
    codes: npt.NDArray[np.uint8]  # [variables, rows]
    alpha: float
    repeats: int

    def frame(self) -> pd.DataFrame:
        """Return the sample as categories observed in it, as a reader of a file would get them."""
        labels = np.array([f"s{code}" for code in range(256)])
        return pd.DataFrame(
            {
                name: pd.Categorical(labels[row])
                for name, row in zip(self.names, self.codes, strict=True)
            }
        )


@dataclass
class Answer:
    """What a peer learned, or why it did not."""

    seconds: float | None = None
    frame_seconds: float | None = None
    directed: Edges = field(default_factory=list)
    undirected: Edges = field(default_factory=list)
    timed_out: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Peer:
    """A library: ``prepare`` gives the call to time, ``read`` turns its result into edges."""

    module: str
    prepare: Callable[[Any, Request, pd.DataFrame], Call]
    read: Callable[[Any, Request], Learned]


def _prepare_pybnesian(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    test = module.ChiSquare(frame)
    return lambda: module.PC().estimate(test, alpha=request.alpha)


def _read_pybnesian(graph: Any, request: Request) -> Learned:
    return graph.arcs(), graph.edges()


def _prepare_pyagrum(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    learner = module.BNLearner(frame)
    learner.setNumberOfThreads(1)
    learner.usePC()
    learner.useChi2Test()
    learner.setPCAlpha(request.alpha)
    return lambda: learner.learnPDAG()


def _prepare_miic(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    learner = module.BNLearner(frame)
    learner.setNumberOfThreads(1)
    learner.useMIIC()
    return lambda: learner.learnPDAG()


def _prepare_tabu(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    learner = module.BNLearner(frame)
    learner.setNumberOfThreads(1)
    learner.useLocalSearchWithTabuList()
    learner.useScoreBIC()
    return lambda: _essential(module, request.names, learner.learnDAG())


def _essential(module: Any, names: list[str], dag: Any) -> Any:
    """Return the class of a DAG; the library has it of a network only, with any tables."""
    network = module.BayesNet()
    for name in names:
        network.add(module.LabelizedVariable(name, name, 2))
    for u, v in dag.arcs():
        network.addArc(u, v)
    return module.EssentialGraph(network).pdag()


def _read_pyagrum(graph: Any, request: Request) -> Learned:
    def named(pairs: Iterable[tuple[int, int]]) -> Edges:
        return [(request.names[u], request.names[v]) for u, v in pairs]

    return named(graph.arcs()), named(graph.edges())


def _prepare_pgmpy(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    learner = module.PC(
        variant="stable",
        ci_test="chi_square",
        significance_level=request.alpha,
        n_jobs=1,
        show_progress=False,
    )
    return lambda: learner.fit(frame).causal_graph_


def _read_pgmpy(graph: Any, request: Request) -> Learned:
    return list(graph.directed_edges), list(graph.undirected_edges)


def _prepare_boss(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    """Start Java, whose jars stand beside this environment's Python, and hand the rows over."""
    if not module.isJVMStarted():
        preferences = f"-Djava.util.prefs.userRoot={tempfile.gettempdir()}"
        jars = sorted(map(str, Path(sys.prefix, "jars").glob("*.jar")))
        module.startJVM("-XX:+UseSerialGC", preferences, classpath=jars)
    data, search = (
        module.JPackage("edu").cmu.tetrad.data,
        module.JPackage("edu").cmu.tetrad.search,
    )
    fields = module.java.util.ArrayList()
    for name, column in zip(request.names, request.codes, strict=True):
        fields.add(data.DiscreteVariable(name, int(column.max()) + 1))
    rows = data.VerticalIntDataBox(module.JArray.of(request.codes.astype(np.int32)))
    score = search.score.DiscreteBicScore(data.BoxDataSet(rows, fields))
    boss = search.Boss(score)
    boss.setNumThreads(1)
    permutations = search.PermutationSearch(boss)
    permutations.setSeed(1)
    return lambda: permutations.search()


def _read_tetrad(graph: Any, request: Request) -> Learned:
    directed, undirected = [], []
    for edge in graph.getEdges():
        pair = (str(edge.getNode1()), str(edge.getNode2()))
        if edge.isDirected():
            directed.append(pair if edge.pointsTowards(edge.getNode2()) else pair[::-1])
        else:
            undirected.append(pair)
    return directed, undirected


def _prepare_causal_learn(module: Any, request: Request, frame: pd.DataFrame) -> Call:
    rows = np.ascontiguousarray(request.codes.T.astype(np.int64))
    return lambda: module.pc(
        rows, request.alpha, "chisq", stable=True, show_progress=False, node_names=request.names
    )


def _read_causal_learn(result: Any, request: Request) -> Learned:
    """Read the end marks: -1 a tail and 1 an arrow head at the first index's end."""
    marks, names = result.G.graph, request.names
    directed = [(names[i], names[j]) for i, j in np.argwhere((marks == -1) & (marks.T == 1))]
    same = np.argwhere(np.triu((marks != 0) & (marks == marks.T)))
    return directed, [(names[i], names[j]) for i, j in same]


PEERS = {
    "pybnesian": Peer("pybnesian", _prepare_pybnesian, _read_pybnesian),
    "pyagrum": Peer("pyagrum", _prepare_pyagrum, _read_pyagrum),
    "pyagrum-miic": Peer("pyagrum", _prepare_miic, _read_pyagrum),
    "pyagrum-tabu": Peer("pyagrum", _prepare_tabu, _read_pyagrum),
    "pgmpy": Peer("pgmpy.causal_discovery", _prepare_pgmpy, _read_pgmpy),
    "tetrad-boss": Peer("jpype", _prepare_boss, _read_tetrad),
    "causal-learn": Peer(
        "causallearn.search.ConstraintBased.PC", _prepare_causal_learn, _read_causal_learn
    ),
}


def learn(peer: Peer, module: Any, request: Request) -> Answer:
    """Time the learning call, and from the frame; best of the repeats if quick; read the graph."""
    frame = request.frame()
    best = best_from_frame = float("inf")
    for _ in range(request.repeats):
        begin = time.process_time()
        call = peer.prepare(module, request, frame)
        prepared = time.process_time()
        result = call()
        end = time.process_time()
        best, best_from_frame = min(best, end - prepared), min(best_from_frame, end - begin)
        if best > QUICK_SECONDS:
            break
    directed, undirected = peer.read(result, request)
    return Answer(best, best_from_frame, directed, undirected)


def _learn_in_child(peer: Peer, module: Any, request: Request, sender: Connection) -> None:
    try:
        answer = learn(peer, module, request)
    except Exception:  # noqa: BLE001  a peer may fail in any way, and the table must say so
        answer = Answer(error=traceback.format_exc().strip().splitlines()[-1])
    sender.send(answer)


def learn_within(limit_seconds: float, peer: Peer, request: Request) -> Answer:
    """Learn in a child process and kill it at the limit: a C++ call cannot be interrupted."""
    module = importlib.import_module(peer.module)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_learn_in_child, args=(peer, module, request, sender))
    child.start()
    sender.close()
    try:
        answer: Answer = receiver.recv() if receiver.poll(limit_seconds) else Answer(timed_out=True)
    except EOFError:
        answer = Answer(error="the process died")
    child.kill()
    child.join()
    return answer


def read_request(path: Path, alpha: float, repeats: int) -> Request:
    """Read a sample without its constant variables."""
    with np.load(path) as stored:
        codes, names = stored["codes"], stored["names"]
    varies = codes.min(axis=1) != codes.max(axis=1)
    return Request([str(name) for name in names[varies]], codes[varies], alpha, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for all repeats")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    request = read_request(arguments.samples, arguments.alpha, arguments.repeats)
    answer = learn_within(arguments.limit, PEERS[arguments.peer], request)
    sys.stdout.write(json.dumps(asdict(answer)) + "\n")


if __name__ == "__main__":
    main()
