from __future__ import annotations

import json
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from driftbn_service.cli import ExitCode, main
from driftbn_service.commands import report as report_command
from driftbn_service.events import Publication
from driftbn_service.state import Store

from driftbn import Dag, DriftDecision, DriftLevel, EdgeChange, NodeChange
from driftbn.config import DriftKind, MonitorConfig
from driftbn.datasets import asia, labelled, remove_edge
from driftbn.explain.svg import LIGHT, Drawing
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport
from tests.commands import Ran, Run
from tests.drift_streams import Abrupt, DriftStream
from tests.reports import EpisodeEvent, edge_change, published, window_report

WINDOW, N_BEFORE, N_WINDOWS = 1000, 5, 12
ALARM = N_BEFORE
PAIR = "between '(smoke' and 'bronc|bronc' and 'smoke)'"
HOSTILE = "<img src=x onerror=\"alert('1')\">$x^2$\n漢\x00"


@pytest.fixture(name="run")
def run_report(run: Run) -> Run:
    def call(history: Path, *words: object, stream: str = "orders") -> Ran:
        return run("report", "--stream", stream, "--history", history, *words)

    return call


@pytest.fixture(scope="module")
def reports() -> tuple[WindowReport, ...]:
    """Twelve windows of Asia, of which an edge is removed after five."""
    after = remove_edge(asia(), "smoke", "bronc").network
    stream = DriftStream(asia(), after, Abrupt(N_BEFORE * WINDOW), seed=1)
    rows = labelled(asia(), next(stream.batches(N_WINDOWS * WINDOW)))
    found = DriftMonitor(MonitorConfig(window=WINDOW, target="dysp")).update(rows)
    assert [report.index for report in found if report.decision.drift] == [ALARM]
    return found


def make_history(path: Path, *publications: Sequence[Publication]) -> Path:
    with Store(path, clock=lambda: 1e9) as store:
        for some in publications:
            store.publish(some)
    return path


@pytest.fixture(scope="module")
def history(reports: tuple[WindowReport, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history as a daemon leaves it that was stopped."""
    return make_history(
        tmp_path_factory.mktemp("state") / "state.sqlite",
        published(reports),
        published(reports, "clicks", "eu"),
        published(reports[:3], "clicks", "us"),
        published(reports[:3], "quiet", "only"),
    )


def made_report(index: int, dag: Dag, *edges: EdgeChange, episode: int | None = 0) -> WindowReport:
    """A window that names edges, or is stable without any."""
    level = DriftLevel.DRIFT if edges else DriftLevel.STABLE
    decision = DriftDecision(
        level,
        0.01,
        0.0001 if edges else 0.4,
        kind=DriftKind.STRUCTURAL if edges else None,
        edges=edges,
        node_changes=tuple(NodeChange(edge.target, (), 1e-5, 0.2) for edge in edges),
        episode=episode,
        episode_event=None if episode is None else EpisodeEvent.UPDATED,
        since=None if episode is None else 1,
        scale=1 if edges else None,
    )
    return window_report(decision, dag, Dag(dag.nodes, dag.edges[1:]), index=index)


# --- Words ---


def test_newest_episode_is_told_in_words_with_advice_and_all_episodes(
    run: Run, history: Path
) -> None:
    ran = run(history)
    assert ran.code == ExitCode.OK
    lines = ran.out.splitlines()
    assert lines[0] == "orders, episode 0: ended"
    assert re.fullmatch(f"Drift in orders: the dependency {PAIR} was removed.", lines[1])
    flat = " ".join(ran.out.split())
    assert f"Episode 0 began in window {ALARM}, record {ALARM * WINDOW:,}" in flat
    assert "How it changed: among records with" in flat
    assert "the p-value is" not in flat
    assert "What to do:" in ran.out
    full = " ".join(run(history, "--details").out.split())
    assert "Strength before: very strong" in full or "Strength before: strong" in full
    assert "the p-value is" in full
    assert re.search(r"^ +0  5 to \d+ +ended  Window", ran.out, re.MULTILINE)
    assert max(map(len, lines[:-3])) <= 80


def test_newest_window_is_told_where_there_is_no_episode(run: Run, history: Path) -> None:
    ran = run(history, stream="quiet")
    assert ran.code == ExitCode.OK
    assert ran.out.splitlines()[0] == "quiet for 'only', window 2: calm"
    assert "episode  windows" not in ran.out


def test_episode_that_goes_on_says_so(
    run: Run, reports: tuple[WindowReport, ...], tmp_path: Path
) -> None:
    path = make_history(tmp_path / "state.sqlite", published(reports[: ALARM + 2]))
    told = run(path).out
    assert told.splitlines()[0] == "orders, episode 0: changed"
    assert "and goes on" in " ".join(told.split())
    assert f"{ALARM} to now" in told


def test_window_is_told_on_demand(run: Run, history: Path) -> None:
    ran = run(history, "--window", ALARM)
    assert f"Drift in window {ALARM}" in ran.out
    assert ran.out.splitlines()[0] == f"orders, window {ALARM}: changed"


def test_json_has_words_changes_time_line_and_episodes(run: Run, history: Path) -> None:
    told = json.loads(run(history, "--json", "--episode", 0).out)
    assert (told["stream"], told["subject"]) == ("orders", "episode")
    (edge,) = told["window"]["decision"]["edges"]
    assert {edge["source"], edge["target"]} == {"smoke", "bronc"}
    assert edge["before"]["low"] < edge["before"]["nats"] < edge["before"]["high"]
    assert told["timeline"]["window"] == list(range(N_WINDOWS))
    assert told["timeline"]["drift"].index(True) == ALARM
    assert [episode["episode"] for episode in told["episodes"]] == [0]
    assert told["episode"]["edges"][0]["window"] == told["window"]["index"]


def test_time_line_reaches_back_to_what_is_told(run: Run, history: Path) -> None:
    def windows(*words: object) -> list[int]:
        found: list[int] = json.loads(run(history, "--json", *words).out)["timeline"]["window"]
        return found

    assert windows("--window", 11, "--last", 4) == [8, 9, 10, 11]
    assert windows("--window", 2, "--last", 4) == [0, 1, 2, 3]
    assert windows("--window", 0, "--last", 1) == [0]


def test_changes_of_all_windows_of_an_episode_are_told(run: Run, tmp_path: Path) -> None:
    dag = Dag("abcdef", [("a", "b"), ("c", "d"), ("e", "f")])
    made = [
        made_report(0, dag, episode=None),
        made_report(1, dag, edge_change("a", "b")),
        made_report(2, dag),
        made_report(3, dag, edge_change("c", "d"), edge_change("e", "f")),
    ]
    path = make_history(tmp_path / "state.sqlite", published(made))
    told = json.loads(run(path, "--json").out)
    edges = [edge["source"] + edge["target"] for edge in told["window"]["decision"]["edges"]]
    assert edges == ["ab", "cd", "ef"]
    assert "between 'a' and 'b' was added; 2 more dependencies changed" in told["headline"]
    sentences = " ".join(told["details"])
    for pair in ("'a' and 'b'", "'c' and 'd'", "'e' and 'f'"):
        assert f"A dependency between {pair} was added" in sentences


# --- What is asked for and is not there ---


@pytest.mark.parametrize(
    ("stream", "words", "said"),
    [
        ("nobody", (), "no window of a stream 'nobody'; there are: 'clicks', 'orders', 'quiet'"),
        ("clicks", (), "several keys, give one with --key: 'eu', 'us'"),
        ("clicks", ("--key", "xx"), "has no key 'xx'; there are: 'eu', 'us'"),
        ("orders", ("--window", 99), "no window 99 of orders; there are 0 to 11"),
        ("orders", ("--episode", 7), "no episode 7 of orders; the newest are 0"),
        ("quiet", ("--episode", 0), "no episode 0 of quiet for 'only'; there is none yet"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(
    run: Run, history: Path, stream: str, words: tuple[object, ...], said: str
) -> None:
    ran = run(history, *words, stream=stream)
    assert ran.code == ExitCode.FAILED
    assert said in ran.err
    assert ran.out == ""


def test_key_chooses_the_monitor(run: Run, history: Path) -> None:
    assert "clicks for 'eu', episode 0" in run(history, "--key", "eu", stream="clicks").out
    assert "clicks for 'us', window 2" in run(history, "--key", "us", stream="clicks").out


def test_absent_history_is_not_made(run: Run, tmp_path: Path) -> None:
    ran = run(tmp_path / "none" / "state.sqlite")
    assert ran.code == ExitCode.FAILED
    assert "there is no such file" in ran.err
    assert list(tmp_path.iterdir()) == []


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path, _: path.write_text("time,level\n1,stable\n" * 100), "no state of driftbn"),
        (lambda path, _: path.touch(), "no state of driftbn"),
        (lambda path, _: changed(path, "CREATE TABLE x (y)"), "no state of driftbn"),
        (
            lambda path, history: changed(
                shutil.copy(history, path), "PRAGMA journal_mode = delete", "PRAGMA user_version=99"
            ),
            "version 99",
        ),
    ],
    ids=["text", "empty", "other database", "later version"],
)
def test_file_that_is_no_history_is_refused_and_left_as_it_is(
    run: Run, history: Path, tmp_path: Path, make: Callable[[Path, Path], None], said: str
) -> None:
    path = tmp_path / "state.sqlite"
    make(path, history)
    before = path.read_bytes()
    ran = run(path, "--html", tmp_path / "report.html")
    assert ran.code == ExitCode.FAILED
    assert said in ran.err
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_episode_whose_windows_are_gone_says_so(
    run: Run, reports: tuple[WindowReport, ...], tmp_path: Path
) -> None:
    path = make_history(tmp_path / "state.sqlite", published(reports))
    tables = ("documents", "edges", "windows")
    changed(path, *(f"DELETE FROM {one} WHERE window_index < {N_WINDOWS - 1}" for one in tables))
    ran = run(path, "--episode", 0)
    assert ran.code == ExitCode.FAILED
    assert "windows of episode 0 of orders are not kept any more" in ran.err


def test_settings_name_the_history(
    reports: tuple[WindowReport, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir()
    make_history(tmp_path / "state" / "state.sqlite", published(reports))
    config = tmp_path / "driftbn.toml"
    config.write_text(
        '[service]\nstate_dir = "state"\n[[streams]]\nname = "orders"\nwindow = 1000\n'
        '[streams.source]\nkind = "stdin"\n'
    )
    assert main(["report", "--stream", "orders", "--config", str(config)]) == ExitCode.OK
    assert "Drift in orders" in capfd.readouterr().out
    absent = str(tmp_path / "absent.toml")
    assert main(["report", "--stream", "orders", "--config", absent]) == ExitCode.CONFIG


# --- Page and picture ---


def test_page_needs_nothing_else_and_shows_words_picture_time_line_and_tables(
    run: Run, history: Path, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    ran = run(history, "--html", path)
    assert (ran.code, ran.out) == (ExitCode.OK, "")
    page = path.read_text()
    assert not re.search(r"https?:|<script|<link|@import|url\(", page)
    assert re.search(f"<h1>Drift in orders: the dependency {PAIR} was removed", unescape(page))
    svgs = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg class.*?</svg>", page)]
    graph, timeline = svgs
    assert "− removed" in "".join(graph.itertext())  # noqa: RUF001 - the sign of the picture
    kinds = [element.get("class") for element in timeline.iter()]
    assert kinds.count("alarm") == 1
    assert kinds.count("chosen") == 1
    assert kinds.count("bar confirmed") == 2
    assert "episode 0" in "".join(timeline.itertext())
    assert not any(element.tag == "a" for element in timeline.iter())
    row = re.search(r"<h2>Changed dependencies</h2>.*?</table>", page, re.DOTALL)
    assert row is not None
    assert re.search(r'data-name="Before">[a-z ]+: 0\.\d+ nats \(0\.\d+ to 0\.\d+\)', row[0])
    assert re.search(r'data-name="p-value">(less than )?0\.\d+', row[0])
    assert "prefers-color-scheme:dark" in page


@pytest.mark.slow
def test_all_outputs_come_of_one_call_and_are_the_same_each_time(
    run: Run, history: Path, tmp_path: Path
) -> None:
    contents = []
    for name in ("one", "two"):
        paths = [tmp_path / f"{name}.{kind}" for kind in ("html", "png")]
        words = [word for path in paths for word in (f"--{path.suffix[1:]}", path)]
        assert run(history, *words).code == ExitCode.OK
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert len(list(tmp_path.iterdir())) == 4
    png = contents[0][1]
    assert png.startswith(b"\x89PNG")
    assert b"tEXt" not in png
    assert b"tIME" not in png


def test_picture_shows_the_words_and_colours_of_what_changed(
    run: Run, history: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[Drawing] = []
    monkeypatch.setattr(
        report_command, "png_renderer", lambda _: lambda it: drawn.append(it) or b""
    )
    for window in (2, ALARM):
        run(history, "--window", window, "--png", tmp_path / "r.png")
    calm, drift = (drawing.body for drawing in drawn)
    assert 'class="line removed confirmed"' not in calm
    assert 'class="line removed confirmed"' in drift
    assert f".line.removed path{{stroke:{LIGHT['removed']}" in drift
    assert "was removed" in drift
    assert 'class="timeline"' in drift


def test_hostile_names_are_shown_as_they_are_and_do_nothing(run: Run, tmp_path: Path) -> None:
    dag = Dag([HOSTILE, "b", "c" * 400], [("b", HOSTILE), (HOSTILE, "c" * 400)])
    made = [made_report(1, dag, edge_change("b", HOSTILE), edge_change(HOSTILE, "c" * 400))]
    path = make_history(tmp_path / "state.sqlite", published(made, key=HOSTILE))
    outputs = [tmp_path / name for name in ("r.html", "r.png")]
    words = [word for output in outputs for word in (f"--{output.suffix[1:]}", output)]
    assert run(path, *words).code == ExitCode.OK
    assert "<img" not in outputs[0].read_text()
    assert "&lt;img src=x" in outputs[0].read_text()
    told = run(path).out
    assert "\x00" not in told
    assert "\\n漢\\x00" in told


def test_picture_without_its_renderer_names_the_extra(
    run: Run, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    ran = run(history, "--html", tmp_path / "r.html", "--png", tmp_path / "r.png")
    assert ran.code == ExitCode.FAILED
    assert "driftbn[png]" in ran.err
    assert list(tmp_path.iterdir()) == []
    assert run(history, "--html", tmp_path / "r.html").code == ExitCode.OK


# --- Writing ---


@pytest.mark.slow
def test_nothing_is_written_if_one_output_cannot_be(
    run: Run, history: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text("before")
    ran = run(history, "--html", page, "--png", tmp_path / "none" / "report.png")
    assert ran.code == ExitCode.FAILED
    assert "report.png" in ran.err
    assert page.read_text() == "before"
    assert list(tmp_path.iterdir()) == [page]
    ran = run(history, "--html", page, "--png", tmp_path)
    assert ran.code == ExitCode.FAILED
    assert "is a directory" in ran.err
    assert page.read_text() == "before"


def test_output_goes_to_standard_output_on_demand(
    history: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ["report", "--stream", "orders", "--history", str(history), "--png", "-"]
    assert main(words) == ExitCode.OK
    assert capfdbinary.readouterr().out.startswith(b"\x89PNG")


# --- The history is only looked at ---


def test_history_at_rest_is_left_as_it_is(run: Run, history: Path) -> None:
    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(history.parent.iterdir())}

    before = state()
    assert run(history).code == ExitCode.OK
    assert state() == before


WRITER = """
import pickle, sys
from pathlib import Path
from driftbn_service.state import Store
publications = pickle.loads(Path(sys.argv[2]).read_bytes())
with Store(Path(sys.argv[1])) as store:
    for line in sys.stdin:
        number = int(line)
        store.publish(publications[:number])
        print(number, flush=True)
"""


@pytest.mark.slow
def test_report_is_made_while_another_process_writes_and_after_it_was_killed(
    run: Run, reports: tuple[WindowReport, ...], tmp_path: Path
) -> None:
    path, data = tmp_path / "state.sqlite", tmp_path / "publications"
    data.write_bytes(pickle.dumps(published(reports)))
    command = [sys.executable, "-c", WRITER, str(path), str(data)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None

        def publish(number: int) -> None:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(f"{number}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == f"{number}\n"

        try:
            publish(4)
            assert (tmp_path / "state.sqlite-wal").exists()
            assert "orders, window 3: calm" in run(path).out
            publish(N_WINDOWS)
            assert "orders, episode 0: ended" in run(path).out
        finally:
            writer.kill()
    assert (tmp_path / "state.sqlite-wal").exists()
    assert "orders, episode 0: ended" in run(path).out
    with Store(path) as store:  # the daemon that comes back finds all of it
        assert len(store.windows("orders", "")) == N_WINDOWS
