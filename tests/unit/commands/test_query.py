"""Asking what was learned; needs the extra pyagrum or pgmpy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftbn.datasets import alarm, asia, remove_edge, sample
from driftbn.errors import GraphError, UnknownVariableError
from tests.commands import Run, failed
from tests.networks import BayesianNetwork, joint

pytestmark = pytest.mark.filterwarnings("ignore")  # of pgmpy, when it is imported


@pytest.fixture(params=["pyagrum", "pgmpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Leave but one of the two packages to be found."""
    name: str = request.param
    pytest.importorskip(name)
    monkeypatch.setattr(
        "driftbn.graphs.network.find_spec", lambda asked: name if asked == name else None
    )
    return name


def test_an_answer_is_that_of_the_joint_distribution(engine: str) -> None:
    network = asia()
    both = joint(network, ["smoke", "xray", "lung"])
    for i, smoke in enumerate(("yes", "no")):
        for j, xray in enumerate(("yes", "no")):
            answer = network.query("lung", given={"smoke": smoke, "xray": xray})
            expected = both[i, j] / both[i, j].sum()
            assert list(answer) == ["yes", "no"]
            np.testing.assert_allclose(list(answer.values()), expected, rtol=1e-9)


def test_nothing_given_is_the_marginal_distribution(engine: str) -> None:
    answer = alarm().query("BP")
    np.testing.assert_allclose(list(answer.values()), joint(alarm(), ["BP"]), rtol=1e-9)


def test_what_cannot_be_is_refused(engine: str) -> None:
    tables = [[[0.5, 0.5]], [[1, 0], [1, 0]]]
    network = BayesianNetwork("ab", [["x", "y"], ["0", "1"]], [[], ["a"]], tables)
    with pytest.raises(GraphError, match=r"'b': '1'.* has probability 0"):
        network.query("a", given={"b": "1"})
    with pytest.raises(GraphError, match="given as '2'; it must be one of '0', '1'"):
        network.query("a", given={"b": "2"})
    with pytest.raises(GraphError, match="'a' is asked for"):
        network.query("a", given={"a": "x"})
    with pytest.raises(UnknownVariableError, match="'c'"):
        network.query("c")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """Rows of Asia, and rows in which smoking does no harm."""
    after = remove_edge(asia(), "smoke", "lung").network
    paths = tmp_path / "before.csv", tmp_path / "now.csv"
    for seed, (network, path) in enumerate(zip((asia(), after), paths, strict=True)):
        sample(network, 5000, seed).to_csv(path, index=False)
    return paths


def share_ill(path: Path) -> float:
    rows = pd.read_csv(path)
    return float((rows[rows["smoke"] == "yes"]["lung"] == "yes").mean())


def test_a_learned_graph_answers(run: Run, engine: str, tables: tuple[Path, Path]) -> None:
    ran = run("learn", tables[0], "--query", "lung | smoke=yes")
    assert ran.code == 0
    lines = ran.out.splitlines()
    at = lines.index("lung | smoke=yes")
    assert [line.split()[1] for line in lines[at + 1 : at + 3]] == ["no", "yes"]
    assert float(lines[at + 2].split()[0]) == pytest.approx(share_ill(tables[0]), abs=5e-4)
    document = json.loads(run("learn", tables[0], "--format", "json", "--query", "lung").out)
    assert document["query"]["given"] == {}
    assert sum(document["query"]["probabilities"].values()) == pytest.approx(1)


def test_before_and_now_stand_side_by_side(
    run: Run, engine: str, tables: tuple[Path, Path]
) -> None:
    ran = run("diff", *tables, "--query", "lung | smoke=yes", "--json")
    asked = json.loads(ran.out)["query"]
    assert (asked["field"], asked["given"]) == ("lung", {"smoke": "yes"})
    assert asked["before"]["yes"] == pytest.approx(share_ill(tables[0]))
    ill = pd.read_csv(tables[1])["lung"] == "yes"  # smoking tells nothing any more
    assert asked["now"]["yes"] == pytest.approx(ill.mean())
    text = run("diff", *tables, "--query", "lung | smoke=yes", "--quiet").out
    assert f"  {asked['before']['yes']:.3f} -> {asked['now']['yes']:.3f}  yes\n" in text


def test_queries_that_make_no_sense_are_refused(run: Run, tables: tuple[Path, Path]) -> None:
    failed(run("learn", tables[0], "--query", "lung | pipe=yes"), 78, "query", "pipe=yes")
    failed(run("learn", tables[0], "--query", "lung", "--format", "dot"), 2, "--query")
    failed(run("learn", tables[0], "--query", "lungs"), 1, "lungs", "lung")
