import json
import logging
import os
import threading
from pathlib import Path

import pytest
from driftbn_service.records import Rejected, RejectReason
from driftbn_service.stream import Quarantine

from tests.small_disk import small_files


def rejected(record: bytes = b"{oops", place: str = "line 3") -> Rejected:
    return Rejected(place, RejectReason.NOT_JSON, "Expecting a name", record)


def objects(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "quarantine" / "orders.eu.ndjson"


def make(path: Path, max_bytes: int = 100_000) -> Quarantine:
    return Quarantine(path, max_bytes, lambda: 1_700_000_000.5)


def test_a_record_is_an_object_that_says_where_and_why(path):
    quarantine = make(path)
    quarantine.add(rejected())
    quarantine.flush()
    assert objects(path) == [
        {
            "time": "2023-11-14T22:13:20.500+00:00",
            "stream": "orders.eu",
            "place": "line 3",
            "reason": "not_json",
            "detail": "Expecting a name",
            "record": "{oops",
        }
    ]


def test_the_log_says_so_at_once_and_then_once_a_minute(path, caplog):
    now = [1_700_000_000.0]
    quarantine = Quarantine(path, 100_000, lambda: now[0])
    for seconds, place in ((0, "line 1"), (1, "line 2"), (59, "line 3"), (61, "line 4")):
        now[0] = 1_700_000_000.0 + seconds
        quarantine.add(rejected(b"secret", place))
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(": ")[1] for text in told] == [
        "1 more, the last one at line 1",
        "3 more, the last one at line 4",
    ]
    assert {record.reason for record in caplog.records} == {"not_json"}
    assert {record.quarantine for record in caplog.records} == {str(path)}
    assert "secret" not in caplog.text


def test_bytes_that_are_no_text_are_kept_exactly(path):
    quarantine = make(path)
    quarantine.add(rejected(b'{"a": "\xff\xc3"}'))
    quarantine.flush()
    (found,) = objects(path)
    assert found["record"] == '{"a": "\ufffd\ufffd"}'
    assert found["record_base64"] == "eyJhIjogIv/DIn0="


def test_the_files_never_hold_more_than_allowed_and_the_newest_records(path):
    quarantine = make(path, 4000)
    for number in range(300):
        quarantine.add(rejected(b"x" * (number % 90), place=f"line {number}"))
        quarantine.flush()
        assert sum(file.stat().st_size for file in path.parent.iterdir()) <= 4000
    older = path.with_name("orders.eu.ndjson.1")
    places = [found["place"] for found in objects(older) + objects(path)]
    assert places == [f"line {number}" for number in range(300 - len(places), 300)]
    assert len(places) > 8


def test_a_full_file_that_is_there_is_put_aside(path):
    path.parent.mkdir()
    path.write_bytes(b'{"old": true}\n' * 1000)
    quarantine = make(path, 4000)
    quarantine.add(rejected())
    quarantine.flush()
    assert len(objects(path)) == 1
    assert path.with_name(f"{path.name}.1").exists()


def test_a_line_that_was_cut_short_does_not_spoil_the_next(path):
    path.parent.mkdir()
    path.write_bytes(b'{"time": "2023')
    quarantine = make(path)
    quarantine.add(rejected())
    quarantine.flush()
    assert json.loads(path.read_bytes().splitlines()[1])["place"] == "line 3"


def test_a_directory_in_its_place_is_logged_once(path, caplog):
    path.mkdir(parents=True)
    quarantine = make(path)
    with caplog.at_level(logging.INFO, "driftbn.service"):
        for _ in range(3):
            quarantine.add(rejected(b"secret"))
            quarantine.flush()
    assert caplog.text.count("cannot be kept") == 1
    assert "secret" not in caplog.text
    path.rmdir()
    with caplog.at_level(logging.INFO, "driftbn.service"):
        quarantine.add(rejected())
        quarantine.flush()
    assert "kept again" in caplog.text
    assert len(objects(path)) == 1


def test_a_full_disk_is_logged_and_not_raised(path, caplog):
    quarantine = make(path, 10_000_000)
    with small_files(20_000):
        for _ in range(100):
            quarantine.add(rejected(b"x" * 1000))
        quarantine.flush()
    assert "cannot be kept" in caplog.text
    quarantine.add(rejected(place="later"))
    quarantine.flush()
    assert json.loads(path.read_bytes().splitlines()[-1])["place"] == "later"


def test_threads_do_not_mix_their_lines(path):
    quarantine = make(path, 10_000_000)

    def work(name: int) -> None:
        for number in range(200):
            quarantine.add(rejected(b"y" * 500, place=f"{name} {number}"))
            quarantine.flush()

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({found["place"] for found in objects(path)}) == 800
    assert os.listdir(path.parent) == [path.name]
