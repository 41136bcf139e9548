from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from driftbn_service.cli import ExitCode
from driftbn_service.commands import Progress, replay

from driftbn.datasets import asia, remove_edge
from tests.commands import Run, Terminal, failed, written
from tests.drift_streams import Abrupt, DriftStream, Recurring

WINDOW = 1000
N_BEFORE, N_AFTER, N_LEFT = 6, 3, 123
N_WINDOWS = N_BEFORE + N_AFTER
SIZE = ("--window", WINDOW)


def rows_of(stream: DriftStream, n_rows: int) -> pd.DataFrame:
    codes = next(stream.batches(n_rows))
    network = stream.before
    columns = zip(network.nodes, network.states, codes, strict=True)
    return pd.DataFrame({name: np.array(states)[code] for name, states, code in columns})


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Asia, of which an edge is removed after six windows."""
    after = remove_edge(asia(), "smoke", "bronc").network
    stream = DriftStream(asia(), after, Abrupt(N_BEFORE * WINDOW), seed=1)
    return rows_of(stream, N_WINDOWS * WINDOW + N_LEFT)


@pytest.fixture(scope="module")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stream") / "asia.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stream") / "calm.csv"
    rows_of(DriftStream(asia(), seed=2), 8 * WINDOW).to_csv(path, index=False)
    return path


# What replay prints


def test_replay_finds_the_drift_and_names_the_edge(run: Run, table: Path) -> None:
    ran = run("replay", table, *SIZE)
    assert (ran.code, ran.err) == (0, "")
    head = ran.out.splitlines()[0].split()
    assert head == ["window", "records", "level", "p-value", "raw", "confirmed"]
    expected = ["learning", *["stable"] * (N_BEFORE - 1), "drift", "settling", "stable"]
    assert ran.levels == expected
    words = ran.out.split("Episode 0, windows 6 to 8")[1]
    assert words.count("Drift in window 6") == 1
    alarm, after = words.split("Window 7, after a drift")
    assert "'bronc' and 'smoke' was removed" in alarm
    assert "'bronc' and 'smoke' was removed" in after
    assert "What to do:" in words


def test_records_of_an_unfinished_window_are_told(run: Run, table: Path) -> None:
    told = f"{N_LEFT} records are left in an unfinished window"
    assert run("replay", table, *SIZE).out.splitlines()[-1] == told
    ran = run("replay", table, *SIZE, "--json")
    assert ran.err == f"driftbn: {told}\n"
    assert told not in run("replay", table, *SIZE, "--quiet").out


def test_json_has_one_object_a_window(run: Run, table: Path) -> None:
    ran = run("replay", table, *SIZE, "--json")
    assert [window["index"] for window in ran.windows] == list(range(N_WINDOWS))
    assert {window["format"] for window in ran.windows} == {"driftbn.report"}
    decisions = [window["decision"] for window in ran.windows]
    assert [d["drift"] for d in decisions].index(True) == N_BEFORE
    edge = decisions[N_BEFORE]["edges"][0]
    assert {edge["source"], edge["target"], edge["change"]} == {"smoke", "bronc", "removed"}


def test_exit_code_tells_a_drift_only_if_asked(run: Run, table: Path, calm: Path) -> None:
    assert run("replay", table, *SIZE, "--quiet").code == 0
    assert run("replay", table, *SIZE, "--exit-code").code == ExitCode.DIFFERENT
    ran = run("replay", calm, *SIZE, "--exit-code", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_several_files_are_one_stream(
    run: Run, table: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    first = written(tmp_path / "1.feather", frame[:2500])
    second = written(tmp_path / "2.ndjson", frame[2500:])
    ran = run("replay", first, second, *SIZE, "--json")
    assert ran.out == run("replay", table, *SIZE, "--json").out


@pytest.mark.slow
def test_settings_reach_the_monitor(run: Run, table: Path) -> None:
    words = ["--windows-between-false-alarms", "500", "--target", "dysp", "--audit-share", "0.5"]
    ran = run("replay", table, *SIZE, "--json", *words)
    last = ran.windows[-1]
    assert last["decision"]["alpha"] == 0.002
    assert last["target"] == "dysp"
    assert "bronc" in last["blanket"]
    assert sum(window["audit"] is not None for window in ran.windows) == N_WINDOWS // 2
    assert "windows learned once more from nothing" in ran.err
    assert (
        run("replay", table, *SIZE, "--json", "--alpha", "0.02").windows[0]["decision"]["alpha"]
        == 0.02
    )
    assert "drift" not in run("replay", table, *SIZE, "--min-effect", "5").levels
    assert run("replay", table, *SIZE, "--columns", "smoke,bronc").levels[N_BEFORE] == "drift"


def test_what_comes_back_is_quiet_if_asked(run: Run, frame: pd.DataFrame, tmp_path: Path) -> None:
    """A state that has lasted for less is left in silence in any case."""
    parts = [slice(N_WINDOWS * WINDOW), slice(N_BEFORE * WINDOW, N_WINDOWS * WINDOW)]
    path = tmp_path / "back.csv"
    pd.concat([frame[part] for part in (*parts, slice(2 * WINDOW))]).to_csv(path, index=False)
    assert "drift" in run("replay", path, *SIZE).levels[-2:]
    assert run("replay", path, *SIZE, "--quiet-returns").levels[-2:] == ["stable"] * 2


def test_windows_can_be_of_event_time(run: Run, frame: pd.DataFrame, tmp_path: Path) -> None:
    times = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(frame)), unit="s")
    path = written(tmp_path / "t.parquet", frame.assign(at=times))
    words = ["--time-column", "at", "--seconds", WINDOW, "--columns", ",".join(frame.columns)]
    ran = run("replay", path, "--json", *words)
    assert ran.code == 0, ran.err
    # Windows end at multiples of the seconds since 1970, not at the first record.
    assert all(window["end"] // WINDOW == window["start"] // WINDOW for window in ran.windows)
    assert {window["decision"]["level"] for window in ran.windows} >= {"stable", "drift"}
    assert "at" not in ran.windows[0]["dag"]["nodes"]


def test_records_that_cannot_be_read_stop_or_are_left_out(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"a": i % 2, "b": i // 2 % 2}) for i in range(300)]
    lines[250] = "{"
    path = tmp_path / "t.ndjson"
    path.write_text("\n".join(lines))
    words = ["--window", 100, "--batch", 30]
    ran = run("replay", path, *words)
    assert ran.code == ExitCode.FAILED
    for word in (str(path), "line 251", "at character 1"):
        assert word in ran.err
    path.write_text("\n".join([*lines, lines[0]]))
    ran = run("replay", path, *words, "--on-error", "reject_rows")
    assert (ran.code, len(ran.levels)) == (0, 3)
    assert "1 record could not be read" in ran.out


# What calibrate prints


def test_calibrate_tells_what_a_monitor_sees(run: Run, calm: Path) -> None:
    ran = run("calibrate", calm, *SIZE)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"{calm}: 8 windows"
    facts = dict(line.split("  ", 1) for line in lines[1:10])
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["records of a window"] == f"{WINDOW}"
    assert facts["windows of the reference"] == "8"
    assert facts["drifts found"] == "0"
    assert facts["false alarms measured"].endswith("of 4 windows permuted")
    assert facts["visible in nine of ten pairs"].endswith(" nats")
    pairs = lines[lines.index("pairs of fields that show least") + 1 :]
    effects = pairs[pairs.index("design effects, largest first") + 1 :]
    assert all(line.endswith(" nats") for line in pairs[: replay.MAX_LISTED])
    assert {line.split()[0] for line in effects[:8]} == set(asia().nodes)
    assert lines[-1].startswith("To see a change of 0.01 nats in nine of ten pairs, use windows of")


def test_calibrate_as_json_has_the_same_numbers(run: Run, calm: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert run("calibrate", calm, *SIZE, "--json", "--wanted", "0.5", "--output", path).out == ""
    data = json.loads(path.read_text())
    assert (data["format"], data["version"]) == ("driftbn-calibration", 1)
    assert (data["windows"], data["window_rows"], data["reference_windows"]) == (8, WINDOW, 8)
    assert data["false_alarms"]["windows"] == 4
    assert data["false_alarms"]["interval"][0] <= data["false_alarms"]["rate"]
    assert set(data["design_effects"]) == set(asia().nodes)
    nats = [pair["nats"] for pair in data["visible"]["pairs"]]
    assert nats == sorted(nats, reverse=True)
    assert data["visible"]["half_of_pairs"] <= data["visible"]["nine_of_ten_pairs"] <= nats[0]
    assert 0 < data["recommended_rows"] < WINDOW
    assert data["advice"] == []


def seen(regimes: Sequence[int], hours: float) -> list[replay.Seen]:
    ends = np.arange(len(regimes) + 1) * hours * 3600
    return [
        replay.Seen(regime, False, False, (), *map(float, ends[i : i + 2]))
        for i, regime in enumerate(regimes)
    ]


@pytest.mark.parametrize(
    ("regimes", "hours", "period"),
    [
        (([0] * 8 + [1] * 16) * 6, 1, "hour of the day"),
        ([0, 0, 1, 1, 1, 0, 0] * 4, 24, "day of the week"),
        (([0] * 6 + [1] * 6) * 3, 24 * 30.44, "month"),
        ([0] * 6 + [1] * 6, 24 * 30.44, None),  # each month once
        ([0] * 30 + [1] * 30, 24, None),
        ([0] * 30, 24, None),
        ([0, 1] * 20, 24 * 400, None),
    ],
)
def test_the_period_that_brings_regimes_back_is_found(
    regimes: list[int], hours: float, period: str | None
) -> None:
    assert replay.period_of(seen(regimes, hours)) == period


def test_no_period_is_found_without_event_times() -> None:
    windows = [one._replace(start=None, end=None) for one in seen([0, 0, 1] * 20, 8)]
    assert replay.period_of(windows) is None


def test_calibrate_proposes_settings(run: Run, tmp_path: Path) -> None:
    """A clock, and records in which an edge goes and comes."""
    network = asia()
    changed = remove_edge(network, "smoke", "bronc").network
    stream = DriftStream(network, changed, Recurring(4 * WINDOW, 4 * WINDOW), seed=3)
    rows = rows_of(stream, 24 * WINDOW)
    rows["hour"] = [f"h{i // 7 % 24}" for i in range(len(rows))]
    path = written(tmp_path / "t.parquet", rows)
    lines = run("calibrate", path, *SIZE, "--wanted", "0.5").out.splitlines()
    proposed = lines[lines.index("proposed settings") + 1 :]
    assert proposed == ['  given = ["hour"]', "  quiet_returns = true"]
    ran = run("replay", path, *SIZE, "--given", "hour", "--quiet-returns", "--alarm-on", "data")
    assert ran.levels.count("notice") >= 1
    assert "drift" not in ran.levels


def test_calibrate_says_what_it_could_not_measure(run: Run, calm: Path) -> None:
    assert (
        "not yet: it takes more than four windows" in run("calibrate", calm, "--window", 4000).out
    )
    ran = run("calibrate", calm, "--window", 9000)
    failed(ran, ExitCode.FAILED, "no window is complete: 8000 records, 9000 make one")
    assert ran.out == ""


def test_dependent_rows_come_first_in_the_list_of_fields(run: Run, tmp_path: Path) -> None:
    network = asia()
    rows = rows_of(DriftStream(network, seed=3), 5 * WINDOW)
    rows["xray"] = np.repeat(rows["xray"].to_numpy()[::50], 50)  # runs of 50 equal values
    path = written(tmp_path / "t.parquet", rows)
    lines = run("calibrate", path, *SIZE).out.splitlines()
    effects = lines[lines.index("design effects, largest first") + 1 :][: len(network.nodes)]
    assert effects[0].split()[0] == "xray"
    numbers = [float(line.split()[1]) for line in effects]
    assert numbers[0] > 20 > numbers[1]
    assert numbers == sorted(numbers, reverse=True)


# What goes wrong


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--window", "0"], "size = 0 is not allowed: it must be"),
        (["--alpha", "2"], "alpha = 2.0 is not allowed: it must be a number between 0 and 1"),
        (["--alpha", "0.1", "--windows-between-false-alarms", "9"], "None where alpha is given"),
        (["--windows-between-false-alarms", "1"], "more than 1"),
        (["--seconds", "60"], "time_column = None"),
        (["--seconds", "-1", "--time-column", "t"], "seconds = -1.0"),
        (["--batch", "0"], "batch = 0"),
        (["--columns", '"a"b'], "columns"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "calibrate"])
def test_bad_settings_exit_with_78(
    run: Run, table: Path, command: str, words: list[str], expected: str
) -> None:
    failed(run(command, table, *words), ExitCode.CONFIG, expected)


@pytest.mark.parametrize(
    "words",
    [["--window", "x"], ["--html", "-"], ["--on-error", "x"], ["--nonsense"]],
)
def test_bad_usage_exits_with_2(run: Run, table: Path, words: list[str]) -> None:
    ran = run("replay", table, *words)
    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "error:" in ran.err


def test_an_unknown_or_excluded_target_is_told(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = written(tmp_path / "t.parquet", frame.assign(number=range(len(frame))))
    failed(
        run("replay", path, *SIZE, "--target", "none"),
        ExitCode.CONFIG,
        "target = 'none'",
        "a field",
    )
    failed(run("replay", path, *SIZE, "--target", "number"), 1, "left out (id_like")


# The bar


def test_the_bar_is_for_terminals_only_and_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, quiet in ((Terminal(False), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress(1, quiet=quiet) as progress:
            progress.show(0.5, "t.csv")
        assert stream.written == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Progress(2) as progress:
        progress.show(1.0, "t.csv")
        assert "50%" in terminal.written
        emptied = "\x1b[1A\x1b[2K"  # up to the bar's line, and that line cleared
        assert emptied not in terminal.written
        with progress.aside():
            assert terminal.written.endswith(emptied)
        progress.show(None, "standard input")
    assert "t.csv" in terminal.written
    assert "standard input" in terminal.written


@pytest.mark.parametrize("command", ["replay", "learn", "calibrate"])
def test_codes_that_point_nowhere_are_an_error_and_not_the_end(
    run: Run, tmp_path: Path, command: str
) -> None:
    codes = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 10**6] * 100, pa.int32()), pa.array(["a", "b"]), safe=False
    )
    path = tmp_path / "spoilt.arrow"
    with pa.ipc.new_stream(path, pa.schema([("x", codes.type), ("y", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"x": codes, "y": pa.array(range(300))}))
    ran = run(command, path)
    assert ran.code == ExitCode.FAILED
    assert f"{path}: " in ran.err
