from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from driftbn_service.cli import ExitCode, main
from driftbn_service.commands import learn

import driftbn
from driftbn import Dag, Pdag
from driftbn.datasets import asia, sample
from tests.commands import Run, Terminal, failed, feed, written
from tests.networks import graph_to_dict, read_bif, write_bif

N_ROWS = 800
ROOT = Path(__file__).parents[3]


def as_json(graph: Dag | Pdag) -> str:
    return json.dumps(graph_to_dict(graph))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return sample(asia(), N_ROWS, seed=1).astype(str)


@pytest.fixture
def table(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "asia.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def later(tmp_path: Path) -> Path:
    path = tmp_path / "later.csv"
    rows = sample(asia(), N_ROWS, seed=2).astype(str)
    rows["smoke"] = rows["smoke"].to_numpy()[::-1]
    rows.to_csv(path, index=False)
    return path


# What learn prints


def test_learn_prints_edges_left_out_columns_cost_and_time(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame = frame.assign(id=range(N_ROWS), same="x")
    ran = run("learn", written(tmp_path / "t.csv", frame))
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"{tmp_path / 't.csv'}: {N_ROWS} rows, 8 variables, ")
    assert "bronc" in ran.out
    assert f"left out: id (id_like: {N_ROWS} distinct values in {N_ROWS} rows)" in lines
    assert "left out: same (constant: always x)" in lines
    assert lines[-2].startswith("cost: ")
    assert "weighted" in lines[-2]
    assert lines[-1].startswith("time: reading ")


def test_quiet_prints_edges_only_and_the_same_each_time(run: Run, table: Path) -> None:
    first, second = run("learn", table, "--quiet"), run("learn", table, "--quiet")
    assert first.out == second.out
    assert first.out
    assert first.edges == first.out.splitlines()


@pytest.mark.parametrize(
    "name",
    ["t.csv.gz", "t.ndjson", "t.jsonl", "t.json", "t.parquet", "t.feather", "t.arrow"],
)
def test_every_file_format_gives_the_same_graph(
    run: Run, table: Path, frame: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    path = written(tmp_path / name, frame)
    assert run("learn", path, "--quiet").out == run("learn", table, "--quiet").out


@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input_is_read(
    run: Run, table: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    data = table.read_bytes()
    feed(monkeypatch, gzip.compress(data) if compressed else data)
    ran = run("learn", "-", "--input-format", "csv")
    assert ran.out.startswith("standard input: ")
    assert ran.edges == run("learn", table).edges


def test_json_output_can_be_read_back(run: Run, table: Path) -> None:
    data = json.loads(run("learn", table, "--format", "json", "--target", "dysp").out)
    assert (data["format"], data["version"], data["rows"]) == ("driftbn-learned", 1, N_ROWS)
    assert len(data["graph"]["nodes"]) == 8
    assert data["cost"]["weighted"] > 0
    assert set(data["seconds"]) == {"reading", "encoding", "learning"}
    assert data["overrun"] is None
    assert len(data["schema_sha256"]) == 64
    assert "bronc" in data["markov_blanket"]


@pytest.mark.parametrize("extra", [[], ["--bdeu", "10"]])
def test_networks_have_only_states_that_occur(run: Run, table: Path, extra: list[str]) -> None:
    network = read_bif(run("learn", table, "--format", "bif", *extra).out)
    assert set(network.states) == {("no", "yes")}


@pytest.mark.parametrize("form", ["dot", "bif", "png"])
def test_files_are_written_the_same_each_time(run: Run, table: Path, form: str) -> None:
    paths = [table.with_name(f"{i}.{form}") for i in range(2)]
    for path in paths:
        ran = run("learn", table, "--format", form, "--output", path)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert paths[0].read_bytes() == paths[1].read_bytes() != b""


def test_options_reach_the_learner(run: Run, table: Path) -> None:
    options = ["--algorithm", "pc-original", "--alpha", "0.05", "--statistic", "g"]
    options += ["--collider-rule", "majority", "--max-conditioning", "1"]
    data = json.loads(run("learn", table, "--format", "json", *options).out)
    settings = {"algorithm": "pc-original", "alpha": 0.05, "statistic": "g"}
    settings |= {"collider_rule": "majority", "max_conditioning": 1}
    assert settings.items() <= data["settings"].items()
    assert len(data["cost"]["tests"]) >= 2
    assert sum(data["cost"]["tests"][2:]) == 0


def test_knowledge_is_obeyed(run: Run, table: Path) -> None:
    required = run("learn", table, "--quiet", "--required", "asia:xray")
    assert "asia -> xray" in required.edges
    words = ["--forbidden", "smoke:bronc", "--forbidden", "bronc:smoke", "--tier", "lung"]
    ran = run("learn", table, "--quiet", *words, "--tier", "either,xray")
    assert not any("smoke" in edge and "bronc" in edge for edge in ran.edges)
    assert "lung -> either" in ran.edges


def test_an_edge_with_two_readings_is_refused(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    names = dict(zip(frame.columns, ["a", "a:b", "b:c", "c", "d", "e", "f", "g"], strict=True))
    path = written(tmp_path / "t.csv", frame.rename(columns=names))
    ran = run("learn", path, "--required", "a:b:c")
    assert ran.code == ExitCode.CONFIG
    assert "clear" in ran.err


def test_the_markov_blanket_of_the_target_is_told(run: Run, table: Path) -> None:
    assert "Markov blanket of smoke: " in run("learn", table, "--target", "smoke", "--quiet").out


def test_a_search_that_is_stopped_says_so(run: Run, table: Path) -> None:
    text = run("learn", table, "--max-tests", "1")
    assert text.out.splitlines()[-1].startswith("warning: the tests were used up")
    late = run("learn", table, "--deadline", "1e-9", "--format", "json")
    assert json.loads(late.out)["overrun"] == "deadline"
    assert "the deadline was reached" in late.err


def test_any_column_name_is_printed_in_one_line(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    odd = ['"q"', "two\nlines", "a -> b", "\x1b[2J", "comma, here", " x", "漢字", "back\\slash"]
    frame = frame.set_axis(odd, axis=1)
    path = written(tmp_path / "t.csv", frame)
    ran = run("learn", path, "--quiet")
    assert ran.code == 0
    assert ran.edges == ran.out.splitlines()
    assert "\x1b" not in ran.out
    data = json.loads(run("learn", path, "--format", "json").out)
    assert data["graph"]["nodes"] == sorted(odd)
    assert set(read_bif(run("learn", path, "--format", "bif").out).nodes) == set(odd)
    assert '"two\\nlines"' in run("learn", path, "--format", "dot").out
    assert run("learn", path, "--columns", '"comma, here","two\nlines"').code == 0
    png = path.with_name("odd.png")
    assert run("learn", path, "--format", "png", "--output", png).code == 0


# What goes wrong


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"", ["empty"]),
        ("t.csv", b" \n", ["empty"]),
        ("t.csv", b"a,b\n1,2,3\n", ["line 2", "3 fields, where the header has 2"]),
        ("t.csv", b"a,a\n1,2\n2,1\n", ["'a' twice"]),
        ("t.csv", b"\xe9,b\n1,2\n", ["header", "utf-8"]),
        ("t.csv.gz", b"no gzip", []),
        ("t.ndjson", b'{"a":1}\n{"a":\n', ["line 2", "at character"]),
        ("t.ndjson", b'{"a":1}\n[2]\n', ["line 2", "list"]),
        ("t.json", b"[1, 2]", ["byte 1", "a number where an object should be"]),
        ("t.json", b"[{", ["byte 1", "at character 1"]),
        ("t.json", b"\xff\xfe[", ["UTF-8"]),
        ("t.parquet", b"no parquet", []),
        ("t.arrow", b"no arrow", []),
        ("t.xyz", b"a,b\n1,2\n", ["--input-format", "'.xyz'"]),
        ("t", b"a,b\n1,2\n", ["--input-format"]),
    ],
)
def test_a_bad_file_is_named_in_one_line(
    run: Run, tmp_path: Path, name: str, content: bytes, words: list[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for command in ("learn", "replay", "calibrate"):
        ran = run(command, path)
        failed(ran, ExitCode.FAILED, str(path), *words)
        assert ran.out == ""
        assert "Traceback" not in ran.err


def test_a_file_that_cannot_be_read_or_written_is_named(
    run: Run, table: Path, tmp_path: Path
) -> None:
    failed(run("learn", tmp_path / "none.csv"), 1, "none.csv", "No such file")
    failed(run("learn", tmp_path), 1, str(tmp_path), "directory")
    target = tmp_path / "none" / "g.dot"
    failed(run("learn", table, "--format", "dot", "--output", target), 1, str(target))


def test_a_graph_is_no_table(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(as_json(Dag("ab")))
    failed(run("learn", path), 1, "learned graph")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--alpha", "2"], "alpha"),
        (["--alpha", "nan"], "alpha"),
        (["--max-conditioning", "11"], "max_conditioning"),
        (["--max-tests", "0"], "max_tests"),
        (["--deadline", "-1"], "deadline_seconds"),
        (["--required", "smoke"], "required"),
        (["--required", "smoke:none"], "none"),
        (["--required", "smoke:lung", "--required", "lung:smoke"], "cycle"),
        (["--required", "smoke:lung", "--forbidden", "smoke:lung"], "required"),
        (["--tier", "smoke", "--tier", "smoke"], "tiers"),
        (["--tier", ""], "tier"),
        (["--columns", 'a"b,"'], "columns"),
        (["--columns", '"a"b'], "columns"),
        (["--format", "bif", "--bdeu", "-1"], "equivalent_sample_size"),
    ],
)
def test_bad_settings_exit_with_78(run: Run, table: Path, words: list[str], expected: str) -> None:
    failed(run("learn", table, *words), ExitCode.CONFIG, expected)


@pytest.mark.parametrize(
    "words",
    [
        ["--bdeu", "1"],
        ["--format", "dot", "--target", "smoke"],
        ["--format", "gif"],
        ["--algorithm", "magic"],
        ["--alpha", "x"],
        ["--nonsense"],
    ],
)
def test_bad_usage_exits_with_2(run: Run, table: Path, words: list[str]) -> None:
    ran = run("learn", table, *words)
    assert ran.code == ExitCode.USAGE
    assert "error:" in ran.err


def test_an_unknown_or_excluded_target_is_told(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = written(tmp_path / "t.csv", frame.assign(same="x"))
    failed(run("learn", path, "--target", "none"), 1, "none")
    failed(run("learn", path, "--target", "same"), 1, "constant")
    failed(run("learn", path, "--columns", "none"), 1, "no column 'none'")


def test_a_table_of_constants_gives_an_empty_graph(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n1,2\n")
    for form in ("text", "json", "dot", "bif", "png"):
        out = path.with_suffix(f".{form}")
        ran = run("learn", path, "--format", form, "--output", out)
        assert (ran.code, ran.err) == (0, ""), form
    assert "0 variables, 0 edges" in path.with_suffix(".text").read_text()


def test_no_command_is_bad_usage_and_help_tells_exit_codes(run: Run) -> None:
    assert run().code == ExitCode.USAGE
    for words in (["--help"], ["learn", "--help"], ["diff", "--help"]):
        ran = run(*words)
        assert ran.code == 0
        assert "78   a setting" in ran.out


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BrokenPipeError(), ExitCode.BROKEN_PIPE, ""),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "driftbn: interrupted\n"),
        (pa.ArrowInvalid("a\nb"), ExitCode.FAILED, "driftbn: error: a b\n"),
    ],
)
def test_interruptions_are_no_tracebacks(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(path: str, kind: object) -> None:
        raise error

    monkeypatch.setattr(learn, "Input", fail)
    assert main(["learn", "t.csv"]) == code
    assert capsys.readouterr().err == said


# What diff prints

BEFORE = Pdag("abcd", [("a", "b"), ("c", "b")], [("c", "d")])
NOW = Pdag("abde", [("b", "a"), ("d", "a")])


@pytest.fixture
def graphs(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "before.json", tmp_path / "now.json"
    for path, graph in zip(paths, (BEFORE, NOW), strict=True):
        path.write_text(as_json(graph))
    return paths


def test_diff_of_graphs_names_every_change(run: Run, graphs: tuple[Path, Path]) -> None:
    ran = run("diff", *graphs)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == [
        "node added e",
        "node removed c",
        "added d -> a",
        "removed c -> b",
        "removed c - d",
        "reversed b -> a",
        "Hamming distance 4: 1 added, 2 removed, 1 reversed, 0 directed, 0 undirected",
        "as classes 4, as DAGs 4, skeleton 3, contradictions 4",
    ]
    assert run("diff", *graphs, "--quiet").out.count("\n") == 6


def test_diff_as_json_has_the_same_content(run: Run, graphs: tuple[Path, Path]) -> None:
    data = json.loads(run("diff", *graphs, "--json").out)
    assert data["hamming"] == {
        "total": 4,
        "cpdag": 4,
        "dag": 4,
        "skeleton": 3,
        "contradictions": 4,
    }
    assert {"source": "c", "target": "d", "directed": False} in data["removed"]
    assert (data["nodes_added"], data["nodes_removed"]) == (["e"], ["c"])


def test_networks_are_compared_as_dags_with_each_other_and_as_classes_with_graphs(
    run: Run, tmp_path: Path
) -> None:
    network = asia()
    network_path, graph_path = tmp_path / "asia.bif", tmp_path / "asia.json"
    network_path.write_text(write_bif(network))
    graph_path.write_text(as_json(network.cpdag()))
    for current in (network_path, graph_path):
        assert run("diff", network_path, current, "--exit-code").code == 0


def test_what_learn_writes_diff_reads(run: Run, table: Path, tmp_path: Path) -> None:
    paths = []
    for form in ("json", "bif"):
        paths.append(tmp_path / f"g.{form}")
        run("learn", table, "--format", form, "--output", paths[-1])
    for path in paths:
        assert run("diff", path, paths[0], "--exit-code").code == 0
        assert run("diff", path, table, "--exit-code").code == 0


def test_diff_of_tables_learns_both_and_draws(run: Run, table: Path, later: Path) -> None:
    png = table.with_name("d.png")
    ran = run("diff", table, later, "--png", png, "--exit-code")
    assert ran.code == ExitCode.DIFFERENT
    assert any("smoke" in line for line in ran.out.splitlines() if line.startswith("removed"))
    drawn = png.read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert run("diff", table, later, "--png", png).out == ran.out
    assert png.read_bytes() == drawn
    assert run("diff", table, table, "--cold", "--exit-code").code == 0


def test_a_diff_of_tables_states_no_difference_that_is_chance(run: Run, tmp_path: Path) -> None:
    paths = [
        written(tmp_path / f"{seed}.csv", sample(asia(), N_ROWS, seed).astype(str))
        for seed in (1, 2)
    ]
    ran = run("diff", *paths, "--exit-code")
    assert ran.code == 0
    assert "No sign of a change" in ran.out
    assert "p-value" in ran.out
    assert run("diff", *paths, "--quiet").out == ""
    data = json.loads(run("diff", *paths, "--json").out)
    assert data["format"] == "driftbn.comparison"
    assert data["decision"]["p_value"] > data["decision"]["alpha"]


def test_a_diff_of_tables_is_written_as_a_page(
    run: Run, table: Path, later: Path, graphs: tuple[Path, Path]
) -> None:
    page = table.with_name("d.html")
    assert run("diff", table, later, "--html", page, "--level", "0.001").code == 0
    assert "The tables differ" in page.read_text()
    failed(run("diff", *graphs, "--html", page), ExitCode.USAGE, "two tables")


def test_the_second_table_is_encoded_like_the_first(
    run: Run, table: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame = frame.drop(columns="xray").assign(new="n")
    frame.loc[:9, "smoke"] = "some\nnew"
    ran = run("diff", table, written(tmp_path / "b.csv", frame))
    assert ran.code == 0
    said = [line.split("b.csv: ")[1] for line in ran.err.splitlines()]
    assert 'column smoke has values that the first table has not ("some\\nnew")' in said
    assert "column new is not in the first table, or hardly, and was left out" in said
    assert "column xray is only in the first table" in said
    assert run("diff", table, tmp_path / "b.csv", "--quiet").err == ""


def test_a_stopped_search_is_told_in_a_diff(run: Run, table: Path, later: Path) -> None:
    ran = run("diff", table, later, "--max-tests", "1", "--quiet")
    assert ran.err.count("stopped early") == 2


def test_one_side_of_a_diff_may_come_from_standard_input(
    run: Run, table: Path, graphs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, graphs[0].read_bytes())
    assert run("diff", "-", graphs[0], "--exit-code").code == 0
    feed(monkeypatch, table.read_bytes())
    assert run("diff", table, "-", "--input-format", "csv", "--exit-code").code == 0
    failed(run("diff", "-", "-"), ExitCode.USAGE, "only one")
    for option in ("--png", "--html"):
        failed(run("diff", table, table, option, "-"), ExitCode.USAGE, f"{option} needs a file")
    same = ("--html", "d.html", "--png", "d.html")
    failed(run("diff", table, table, *same), ExitCode.USAGE, "two outputs cannot both go to d.html")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("g.json", '{"format":"driftbn-learned","version":9}', ["version"]),
        ("g.json", '{"format":"driftbn-learned","version":1}', ["object"]),
        ("g.json", '{"format":"driftbn-graph","version":1', ["not JSON"]),
        ("g.json", '{"format":"driftbn-nothing"}', ["format"]),
        ("g.bif", "nonsense", []),
    ],
)
def test_a_bad_graph_is_named_in_one_line(
    run: Run, graphs: tuple[Path, Path], name: str, content: str, words: list[str]
) -> None:
    path = graphs[0].with_name(name)
    path.write_text(content)
    failed(run("diff", graphs[0], path), 1, str(path), *words)


# The rest


def test_version_names_driftbn_and_what_it_stands_on(run: Run) -> None:
    assert run("version").out.startswith(f"driftbn {driftbn.__version__}\npython ")
    assert json.loads(run("version", "--json").out)["driftbn"] == driftbn.__version__


def test_a_picture_does_not_go_to_a_terminal(
    run: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run("learn", table, "--format", "png").code == ExitCode.USAGE
    assert terminal.written == ""
    assert run("learn", table).code == 0
    assert "\x1b[1m" in terminal.written


@pytest.mark.slow
def test_the_module_runs_as_a_program_and_a_closed_pipe_is_quiet(table: Path) -> None:
    learn.warm_up()  # else the program says that it compiles
    command = [sys.executable, "-m", "driftbn_service", "learn", str(table), "--quiet"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, env=environment, check=False, timeout=300
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (ExitCode.BROKEN_PIPE, b"")
