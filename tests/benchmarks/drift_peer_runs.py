"""Call the drift checks in common use, in their environments, on streams of the benchmark."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from tests.benchmarks.drift_runs import N_SOON, Task
from tests.benchmarks.drift_scenarios import N_BEFORE, Scenario, make_scenario, windows
from tests.benchmarks.environment import ALIBI_PINNED, DRIFT_PINNED, ensure_environment

ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "chi-square": DRIFT_PINNED,
    "adwin": DRIFT_PINNED,
    "evidently": DRIFT_PINNED,
    "classifier": DRIFT_PINNED,
    "alibi-tabular": ALIBI_PINNED,
    "alibi-mmd": ALIBI_PINNED,
}
PEER_NAMES = tuple(ENVIRONMENTS)
USUAL_PEERS = PEER_NAMES[:-1]  # the last takes 15 seconds a window: only if it is named
DESCRIPTIONS = {
    "chi-square": "Pearson's chi-square a column, 1 % a window by Bonferroni (scipy)",
    "adwin": "River's ADWIN a column, fed record by record, delta 0.01 by Bonferroni",
    "evidently": "Evidently's default: half of the columns drifted; it has no level to set",
    "evidently-any": "Evidently's default for a column, an alarm if any column drifted",
    "classifier": "boosted trees tell window from reference, rank test on held-out rows at 1 %",
    "alibi-tabular": "alibi-detect's TabularDrift, 1 % a window by Bonferroni",
    "alibi-mmd": "alibi-detect's MMDDrift on 1000 rows each, 200 permutations, 1 %",
}
ALPHA = 0.01  # nominal share of stationary windows called drift

_SCRIPT = Path(__file__).with_name("drift_peers.py")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PeerAnswer:
    """What a peer says: an answer for each window after its reference, or an error."""

    name: str
    alarms: Sequence[bool] = ()
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class PeerResult:
    """One verdict of a peer on one stream; ``note`` says why there is none.

    The windows before the change are the peer's reference, so only stationary streams tell of its
    false alarms.
    """

    network: str
    cell: str
    bursts: str
    seed: int
    peer: str
    n_quiet: int = 0
    n_false_alarms: int = 0
    seen_first: bool | None = None
    seen_soon: bool | None = None
    seconds: float = 0.0
    note: str = ""

    @property
    def stream(self) -> tuple[str, str, str, int]:
        return self.network, self.cell, self.bursts, self.seed


def peer_result_from(line: str) -> PeerResult:
    """Read a line of a file of results."""
    return PeerResult(**json.loads(line))


def installed(peers: Sequence[str], cache: Path) -> dict[str, Path]:
    """Return the Python of each peer; one whose environment cannot be made is left out."""
    pythons: dict[tuple[str, ...], Path] = {}
    for pinned in sorted({ENVIRONMENTS[peer] for peer in peers}):
        try:
            pythons[pinned] = ensure_environment(cache, pinned)
        except subprocess.CalledProcessError as error:
            _log.warning("%s cannot be installed: %s", ", ".join(pinned), error)
    return {peer: pythons[ENVIRONMENTS[peer]] for peer in peers if ENVIRONMENTS[peer] in pythons}


def run_peers(task: Task, pythons: Mapping[str, Path]) -> list[PeerResult]:
    """Run peers on one stream; nothing if the network has no such change."""
    scenario = make_scenario(task.network, task.cell, task.bursts, task.seed)
    if scenario is None:
        return []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "stream.npz"
        _save(scenario, path)
        return [score_answer(scenario, answer) for answer in _answers(path, pythons)]


def _save(scenario: Scenario, path: Path) -> None:
    """Write the windows that are scored: all of a stationary stream, else up to the third."""
    wanted = min(scenario.n_windows, scenario.first_full_window + N_SOON)
    codes = np.stack(list(islice(windows(scenario), wanted)))
    cards = np.array(scenario.stream.before.cards)
    np.savez(path, codes=codes, cards=cards, n_reference=np.array(N_BEFORE))


def _answers(path: Path, pythons: Mapping[str, Path]) -> Iterator[PeerAnswer]:
    # Nothing that runs here may report its use to anyone.
    environment = {**os.environ, "DO_NOT_TRACK": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for python in sorted(set(pythons.values())):
        peers = [peer for peer, home in pythons.items() if home == python]
        command = [str(python), "-I", str(_SCRIPT), str(path), *peers, "--alpha", str(ALPHA)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, text=True, env=environment
        )
        lines = (line for line in done.stdout.splitlines() if line.startswith("{"))
        yield from (PeerAnswer(**json.loads(line)) for line in lines)


def score_answer(scenario: Scenario, answer: PeerAnswer) -> PeerResult:
    """Compare the alarms of a peer with the known change."""
    made_of = (scenario.network, scenario.cell, scenario.bursts, scenario.seed, answer.name)
    if answer.error is not None:
        _log.warning("%s on %s: %s", answer.name, scenario.network, answer.error)
        return PeerResult(*made_of, note=answer.error)
    alarms = answer.alarms
    if scenario.change is None:
        return PeerResult(*made_of, len(alarms), sum(alarms), seconds=answer.seconds)
    n_first = scenario.first_full_window - N_BEFORE + 1
    seen = (any(alarms[:n_first]), any(alarms[: n_first + N_SOON - 1]))
    return PeerResult(*made_of, 0, 0, *seen, seconds=answer.seconds)
