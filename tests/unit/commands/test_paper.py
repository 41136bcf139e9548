from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from tests.commands import Run, failed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper") / "study"


@pytest.fixture
def study(place: Path, run: Run) -> Path:
    """A folder with the small study, made once."""
    if not (place / "report.md").exists():
        ran = run("paper", place, "--quick")
        assert (ran.code, ran.out) == (0, "")
    return place


def runs_of(folder: Path) -> pd.DataFrame:
    return pd.read_json(folder / "runs.ndjson", lines=True).iloc[1:]


def findings_in(folder: Path) -> dict[str, tuple[str, str]]:
    lines = (folder / "report.md").read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    return {row[0]: (row[1], row[2]) for row in cells if len(row) == 3}


def numbers(words: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", words)]


def test_every_learner_has_every_sample(study: Path) -> None:
    runs = runs_of(study)
    samples = runs.groupby(["network", "rows", "fold", "alpha"])
    assert (samples.size() == 5).all()
    assert set(runs["network"]) == {
        *("asia", "alarm", "100_130", "100_200", "100_300", "100_400", "200_250")
    }


def test_the_report_says_what_its_runs_say(study: Path) -> None:
    runs, found = runs_of(study), findings_in(study)
    ssbn = runs[(runs["learner"] == "SSBN") & (runs["alpha"] == 0.01)]
    priced = ssbn[(ssbn["network"] == "200_250") & (ssbn["rows"] == 5000)]

    verdict, words = found["SSBN's mean Hamming distance on 200_250 is 5.20 of 250"]
    all_sizes = ssbn[ssbn["network"] == "200_250"]["hamming"].mean()
    assert numbers(words)[0] == pytest.approx(all_sizes, abs=0.05)
    assert numbers(words)[1] == pytest.approx(priced["hamming"].mean(), abs=0.05)
    assert f"{priced['unseen'].mean():.1f} true edges" in words
    assert (priced["unseen"] > 5.2).all()
    assert verdict == "cannot reproduce"

    verdict, words = found["With 5000 rows of 200_250 SSBN asks 47,569, 71.5 % fewer than PC"]
    once, separating, proof = numbers(words)[0], numbers(words)[1], numbers(words)[3]
    assert once == 200 * 199
    assert proof == pytest.approx(priced["proof"].mean(), abs=0.5)
    fewest = [3 * sizes[1] + 4 * sizes[2] + 5 * sizes[3] for sizes in priced["separators"]]
    assert separating == pytest.approx(sum(fewest) / len(fewest), abs=0.5)
    assert f"thus asks {once + priced['proof'].mean() + sum(fewest) / 2:,.0f}" in words
    assert verdict == "cannot reproduce"

    verdict, words = found["SSBN asks 40.1 % fewer weighted tests than FSBN"]
    wide = runs[runs["alpha"] == 0.01].assign(asked=lambda t: t["tests"].map(sum))
    asked = wide.pivot_table("asked", ["network", "rows", "fold"], "learner")
    saved = 1 - asked["SSBN"] / asked["FSBN"]
    assert f"in {100 * (saved == 0).mean():.0f} % of the samples" in words
    assert f"more than {100 * saved.abs().max():.1f} %" in words
    assert verdict == "does not reproduce"


def test_a_study_that_was_stopped_goes_on_where_it_was(
    study: Path, run: Run, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    shutil.copytree(study, again)
    lines = (study / "runs.ndjson").read_text("utf-8").splitlines(keepends=True)
    kept = lines[: 1 + 5 * ((len(lines) - 1) // 5 - 2)]
    rest = lines[len(kept) : len(kept) + 3]  # a sample that was being written
    (again / "runs.ndjson").write_text("".join([*kept, *rest])[:-20], "utf-8")
    assert run("paper", again, "--quick").code == 0
    now = (again / "runs.ndjson").read_text("utf-8").splitlines(keepends=True)
    assert now[: len(kept)] == kept
    pd.testing.assert_frame_equal(
        runs_of(again).drop(columns="seconds"), runs_of(study).drop(columns="seconds")
    )
    assert findings_in(again) == findings_in(study)


def test_what_is_finished_is_not_measured_again(study: Path, run: Run, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(study, again)
    (again / "report.html").unlink()
    run("paper", again, "--quick")
    for file in ("runs.ndjson", "report.html", "report.md", "time.svg"):
        assert (again / file).read_bytes() == (study / file).read_bytes()


def test_runs_of_another_version_are_not_mixed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "runs.ndjson").write_text('{"format": "driftbn-paper", "driftbn": "0.0.1"}\n')
    failed(run("paper", tmp_path, "--quick"), 1, "runs.ndjson", "give another folder")


def test_report_and_figures_need_nothing_else(study: Path) -> None:
    html = (study / "report.html").read_text("utf-8")
    assert html.count("<svg") == 8
    assert "http" not in html
    assert "<script" not in html
    for figure in study.glob("*.svg"):
        text = figure.read_text("utf-8")
        ElementTree.fromstring(text)
        assert "var(" not in text
