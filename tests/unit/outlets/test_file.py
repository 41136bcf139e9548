"""Events appended to a file."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from driftbn_service.events import Event
from driftbn_service.outlets import file as file_module
from driftbn_service.outlets.file import FileOutlet
from driftbn_service.settings import FileOutletSettings

from tests.outlet_parts import OutletError, make_event
from tests.small_disk import small_files

EVENTS = [make_event(i) for i in range(3)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.ndjson"


@pytest.fixture
def outlet(path: Path) -> Iterator[FileOutlet]:
    found = make_outlet(path)
    yield found
    found.close()


def make_outlet(path: Path) -> FileOutlet:
    found = FileOutlet(FileOutletSettings(path=path))
    found.open()
    return found


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_bytes().splitlines()]


def wanted(*events: Event) -> list[str]:
    return [event.id for event in events]


def test_same_event_is_written_once(outlet: FileOutlet, path: Path) -> None:
    outlet.send([EVENTS[0], EVENTS[0]])
    outlet.send(EVENTS)
    assert ids(path) == wanted(*EVENTS)


def test_what_another_process_adds_meanwhile_is_not_added_again(
    outlet: FileOutlet, path: Path
) -> None:
    outlet.send(EVENTS[:1])
    other = make_outlet(path)
    other.send(EVENTS[1:])
    other.close()
    outlet.send(EVENTS)
    assert ids(path) == wanted(*EVENTS)


def test_whole_last_line_without_its_end_is_kept(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(EVENTS[0].to_json())
    outlet = make_outlet(path)
    outlet.send(EVENTS)
    outlet.close()
    assert ids(path) == wanted(*EVENTS)
    assert "torn" not in caplog.text


def test_other_lines_of_the_file_are_left_alone(path: Path) -> None:
    before = b"# notes\n[1, 2]\n\n" + b"[" * 100_000 + b"\n"
    path.write_bytes(before)
    outlet = make_outlet(path)
    outlet.send(EVENTS[:1])
    outlet.close()
    assert path.read_bytes() == before + EVENTS[0].to_json() + b"\n"


def test_file_that_was_moved_away_is_begun_anew(outlet: FileOutlet, path: Path) -> None:
    outlet.send(EVENTS[:1])
    path.rename(path.with_suffix(".1"))
    outlet.send(EVENTS[1:2])
    path.rename(path.with_suffix(".2"))
    path.write_bytes(b"")  # as rotations do that make the new file themselves
    outlet.send(EVENTS)
    assert ids(path.with_suffix(".1")) == wanted(EVENTS[0])
    assert ids(path.with_suffix(".2")) == wanted(EVENTS[1])
    assert ids(path) == wanted(EVENTS[2])


def test_file_that_was_emptied_in_place_goes_on(outlet: FileOutlet, path: Path) -> None:
    outlet.send(EVENTS[:2])
    os.truncate(path, 0)
    other = make_outlet(path)
    other.send(EVENTS[2:])
    other.close()
    later = make_event(9)
    outlet.send([*EVENTS, later])
    assert ids(path) == wanted(EVENTS[2], later)


def test_only_the_end_of_a_long_file_is_searched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "LOOK_BACK_BYTES", 3000)
    many = [make_event(i) for i in range(20)]
    path.write_bytes(b"".join(event.to_json() + b"\n" for event in many))
    outlet = make_outlet(path)
    outlet.send([many[-1], many[0]])
    outlet.close()
    assert ids(path) == wanted(*many, many[0])


def test_file_that_may_not_grow_is_as_it_was_and_goes_on_later(
    outlet: FileOutlet, path: Path
) -> None:
    outlet.send(EVENTS[:1])
    before = path.read_bytes()
    limit = len(before) + len(EVENTS[1].to_json()) + 20
    with small_files(limit), pytest.raises(OutletError, match="File too large"):
        outlet.send(EVENTS)
    assert path.read_bytes() == before
    outlet.send(EVENTS)
    assert ids(path) == wanted(*EVENTS)


@pytest.mark.parametrize(
    ("place", "problem"), [("", "Is a directory"), ("absent/events", "No such file")]
)
def test_path_that_cannot_be_written_is_named(tmp_path: Path, place: str, problem: str) -> None:
    outlet = FileOutlet(FileOutletSettings(path=tmp_path / place))
    with pytest.raises(OutletError, match=problem) as caught:
        outlet.open()
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("n_left", [1, 2, 50, -2])
def test_torn_last_line_is_cut_off(
    path: Path, caplog: pytest.LogCaptureFixture, n_left: int
) -> None:
    line = EVENTS[1].to_json() + b"\n"
    path.write_bytes(EVENTS[0].to_json() + b"\n" + line[:n_left])
    with caplog.at_level(logging.WARNING):
        outlet = make_outlet(path)
    assert "torn by a crash" in caplog.text
    outlet.send(EVENTS)
    outlet.close()
    assert ids(path) == wanted(*EVENTS)
