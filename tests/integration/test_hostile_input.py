"""Nothing that is sent ends a daemon, stops a stream or costs a good record.

This is the short form. The long one gives 10,000 mutated bodies of each format to daemons and to
monitors, and every table of the type matrix to every stream:

    HOSTILE_BODIES=10000 pytest -q tests/integration/test_hostile_input.py
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from driftbn_service.state import Store

from tests.decoding import TableFormat
from tests.hostile import (
    GOOD_KEY,
    KEY,
    SECONDS,
    TIME,
    campaign,
    good_body,
    mutated,
)
from tests.hostile_types import Place, cases
from tests.services.daemon import ROOT, DaemonService
from tests.services.process import HOST, wait_for

N_BODIES = int(os.environ.get("HOSTILE_BODIES", "300"))
"""Mutated bodies of each format that are sent over HTTP."""
N_IN_PROCESS = max(N_BODIES, 3000)
"""Those that are given to decoder and monitor alone."""
LONG = N_BODIES >= 10_000
WINDOW = 50
KINDS = tuple(TableFormat)
CONTENT_TYPES = {
    TableFormat.NDJSON: "application/x-ndjson",
    TableFormat.JSON: "application/json",
    TableFormat.CSV: "text/csv",
    TableFormat.ARROW: "application/vnd.apache.arrow.stream",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
}
STREAMS = {
    "plain": "",
    "keyed": f'key = "{KEY}"\n',
    "timed": f'time_column = "{TIME}"\n',
    "both": f'key = "{KEY}"\ntime_column = "{TIME}"\n',
}
ALONE = "-alone"
"""After the name of a stream: one with the same settings that gets only the good records."""
REFUSED = "refused"
"""A stream that gets good records, and those bodies that are refused."""
ROUND = 2 * WINDOW
"""Good records that are sent to each stream at a time."""
SETTINGS = """
[checkpoint]
publish_seconds = 0.02
interval_seconds = 0.1

"""


def stream_settings(name: str, options: str, source: str = 'kind = "http"\n') -> str:
    """Return the settings of a stream; one with event times has windows of time."""
    window = f"window = {WINDOW}\n"
    if TIME in options:
        # One record from the far future makes all that come after it late, and still they count.
        window = f'[streams.window]\nseconds = {SECONDS}\nlate = "current"\nsize = {WINDOW}\n'
    return f'[[streams]]\nname = "{name}"\n{options}{window}[streams.source]\n{source}\n'


def windows(history: Path, stream: str, key: str = GOOD_KEY) -> list[dict[str, Any]]:
    """Return the reports of a monitor in their order."""
    with Store(history) as store:
        rows = sorted(row.window_index for row in store.windows(stream, key, limit=100_000))
        details = (store.window(stream, key, index) for index in rows)
        return [detail.report for detail in details if detail is not None]


class HostileClient:
    """Sends bodies over one connection and counts what is accepted.

    No answer may be an error of the daemon.
    """

    def __init__(self, directory: Path) -> None:
        streams = {name: options for name, options in STREAMS.items()}
        streams |= {f"{name}{ALONE}": options for name, options in STREAMS.items()}
        streams[REFUSED] = STREAMS["plain"]
        settings = SETTINGS + "".join(map(stream_settings, streams, streams.values()))
        self.daemon = DaemonService(directory, settings)
        self.streams = tuple(streams)
        self.accepted: Counter[str] = Counter()  # by this process of the daemon
        self.n_good = 0
        self._last: deque[object] = deque(maxlen=3)
        self._connection = http.client.HTTPConnection(HOST, self.daemon.port, timeout=60)

    def start(self) -> None:
        """Start the daemon, for the first time or again."""
        self.close()
        self.daemon.start()
        self.accepted.clear()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def post(
        self, stream: str, kind: TableFormat, data: bytes, what: object, encoding: str = ""
    ) -> int:
        """Send a body and return the status; it must be taken or refused."""
        self._last.append(f"{what} to {stream}")
        headers = {"Content-Type": CONTENT_TYPES[kind], "Content-Encoding": encoding}
        path = f"/api/v1/streams/{stream}/records"
        try:
            self._connection.request("POST", path, compressed(data, encoding), headers)
            answer = self._connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            pytest.fail(f"{error!r} at {self._told()}")
        if answer.status == 202:
            self.accepted[stream] += json.loads(said)["accepted"]
        elif not 400 <= answer.status < 429:
            pytest.fail(f"{answer.status} {said!r} at {self._told()}")
        return answer.status

    def post_hostile(
        self, stream: str, kind: TableFormat, data: bytes, what: object, encoding: str = ""
    ) -> None:
        """Send a body that may be refused: then it leaves no trace in another stream either."""
        status = self.post(stream, kind, data, what, encoding)
        if status != 202:
            again = self.post(REFUSED, kind, data, what, encoding)
            assert again == status, f"{status}, then {again} at {self._told()}"

    def post_good(self) -> None:
        """Send the next good records to every stream."""
        stop = self.n_good + ROUND
        kind = KINDS[self.n_good // ROUND % len(KINDS)]
        body = good_body(kind, self.n_good, stop)
        for stream in self.streams:
            assert self.post(stream, kind, body, "good records") == 202, self._told()
        self.n_good = stop

    def counted(self, stream: str) -> dict[str, int]:
        """Return the records of a stream by what became of them, in this process."""
        pattern = rf'driftbn_records_total{{stream="{stream}",source="http",outcome="(\w+)"}} (\S+)'
        found = re.findall(pattern, self.get("/metrics"))
        return {outcome: int(float(value)) for outcome, value in found}

    def get(self, path: str) -> str:
        """Return an answer, which must be 200."""
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        said = answer.read().decode()
        assert answer.status == 200, f"{answer.status} {said} at {self._told()}"
        return said

    def settle(self) -> None:
        """Wait until all that was accepted is taken or set aside by streams that run."""
        for stream in self.streams:
            wait_for(partial(self._is_done, stream), f"all records of {stream}", 120)
        assert self.get("/-/healthy")
        metrics = self.get("/metrics")
        for stream in self.streams:
            assert f'driftbn_stream_state{{stream="{stream}",state="running"}} 1.0' in metrics

    def _is_done(self, stream: str) -> bool:
        assert self.get("/-/ready")
        counted = self.counted(stream)
        assert not counted["failed"], f"{stream} has failed at {self._told()}"
        return sum(counted.values()) >= self.accepted[stream]

    def _told(self) -> str:
        return f"{'; before it '.join(map(str, reversed(self._last)))}\n{self.daemon.log_tail(30)}"


def compressed(data: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data, 1)
    return pa.compress(data, "zstd", asbytes=True) if encoding == "zstd" else data


def check_good_records_are_taken(client: HostileClient) -> None:
    """Send good records to streams that have nothing to do: all of them are taken, once."""
    client.settle()
    before = {stream: client.counted(stream) for stream in client.streams}
    client.post_good()
    client.settle()
    for stream in client.streams:
        after = client.counted(stream)
        assert after["taken"] - before[stream]["taken"] == ROUND, stream
        assert sum(after.values()) - sum(before[stream].values()) == ROUND, stream


def check_a_daemon_survived(client: HostileClient) -> None:
    """Good records are taken now, after a stop and after a kill, and all of them are in windows."""
    check_good_records_are_taken(client)
    assert client.daemon.end() == 0, client.daemon.log_tail()
    client.start()
    check_good_records_are_taken(client)
    client.daemon.signal(signal.SIGKILL)
    client.daemon.wait()
    client.start()
    client.post_good()
    client.settle()
    assert client.daemon.end() == 0, client.daemon.log_tail()
    history = client.daemon.history
    for stream in ("keyed", "both"):
        alone = windows(history, f"{stream}{ALONE}")
        assert windows(history, stream) == alone
        assert sum(report["rows"] for report in alone) > client.n_good - ROUND
    assert windows(history, REFUSED, "") == windows(history, f"plain{ALONE}", "")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[HostileClient]:
    client = HostileClient(tmp_path)
    client.start()
    yield client
    client.close()


def looking_at(place: Place) -> tuple[str, ...]:
    """Return the streams that look at a place."""
    seen = {Place.KEY: ("keyed", "both"), Place.TIME: ("timed", "both")}
    return seen.get(place, tuple(STREAMS))


def test_no_type_at_any_place_costs_more_than_its_records(client: HostileClient) -> None:
    n_sent = 0
    client.post_good()
    for number, case in enumerate(cases()):
        key = f"of {case.type_name}"
        bodies = [(TableFormat.ARROW, case.arrow(key)), (TableFormat.PARQUET, case.parquet(key))]
        streams = looking_at(case.place)
        sent = [(stream, *body) for body in bodies for stream in streams if body[1] is not None]
        if not LONG:  # every second one; those of ``contract/test_arrow_types.py`` are all
            sent = [sent[number // 2 % len(sent)]] if number % 2 == 0 else []
        for stream, kind, body in sent:
            client.post_hostile(stream, kind, body, case)
            n_sent += 1
        if number % 500 == 499:
            client.post_good()
    assert n_sent > 1000
    check_a_daemon_survived(client)


def test_no_mutated_body_costs_more_than_itself(client: HostileClient) -> None:
    bodies = (mutated(kind, number) for number in range(N_BODIES) for kind in KINDS)
    for turn, body in enumerate(bodies):
        stream = tuple(STREAMS)[turn % len(STREAMS)]
        encoding = ("", "", "gzip", "zstd")[turn // len(STREAMS) % 4]
        client.post_hostile(stream, body.kind, body.data, body, encoding)
        if turn % 300 == 0:
            client.post_good()
    check_a_daemon_survived(client)


@pytest.mark.parametrize("kind", KINDS)
def test_no_mutated_body_breaks_decoder_or_monitor(kind: TableFormat) -> None:
    found = campaign(kind, N_IN_PROCESS)
    assert not found, "\n\n".join(map(str, found))


# --- Files and standard input, where there is nobody to refuse a body ---


def run(daemon: DaemonService, data: bytes = b"") -> None:
    """Have a daemon read all that there is."""
    done = subprocess.run(
        [sys.executable, "-m", "driftbn_service", "run", "--config", str(daemon.config)],
        input=data, capture_output=True, timeout=300, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def write_files(directory: Path, kind: TableFormat, numbers: Iterable[int]) -> None:
    """Write hostile files with good ones after each, and the good ones once more elsewhere."""
    for number in numbers:
        name = f"{number:04}-{{}}.{kind.value}"
        good = good_body(kind, 10 * number, 10 * (number + 1))
        for folder in (kind.value, f"{kind.value}{ALONE}"):
            (directory / folder).mkdir(exist_ok=True)
            (directory / folder / name.format("good")).write_bytes(good)
        hostile = directory / kind.value / name.format("bad")
        hostile.write_bytes(mutated(kind, number, seed=1).data)


def test_no_file_costs_a_good_record_of_another(tmp_path: Path) -> None:
    settings = SETTINGS
    for name in (f"{kind.value}{suffix}" for kind in KINDS for suffix in ("", ALONE)):
        source = f'kind = "files"\npath = "{tmp_path}/{name}/*"\n'
        settings += stream_settings(name, STREAMS["keyed"], source)
    daemon = DaemonService(tmp_path, settings, exit_when_drained=True)
    n_files = max(40, N_BODIES // 10)
    for numbers in (range(n_files), range(n_files, 2 * n_files)):  # the second start goes on
        for kind in KINDS:
            write_files(tmp_path, kind, numbers)
        run(daemon)
        for kind in KINDS:
            alone = windows(daemon.history, f"{kind.value}{ALONE}")
            assert len(alone) == 10 * numbers.stop // WINDOW
            assert windows(daemon.history, kind.value) == alone, kind


def ndjson_pieces(number: int) -> bytes:
    return mutated(TableFormat.NDJSON, number, seed=2).data + b"\n"


def csv_pieces(number: int) -> bytes:
    """Return hostile rows in which quotes close: one that does not would rightly go on."""
    _, _, rows = mutated(TableFormat.CSV, number, seed=2).data.partition(b"\n")
    return (rows if rows.count(b'"') % 2 == 0 else rows.replace(b'"', b"")) + b"\n"


@pytest.mark.parametrize(
    ("kind", "pieces"), [(TableFormat.NDJSON, ndjson_pieces), (TableFormat.CSV, csv_pieces)]
)
def test_no_line_of_a_pipe_costs_another(
    kind: TableFormat, pieces: Callable[[int], bytes], tmp_path: Path
) -> None:
    n_pieces = max(100, N_BODIES // 10)
    header, good = b"", [good_body(kind, 10 * n, 10 * (n + 1)) for n in range(n_pieces)]
    if kind is TableFormat.CSV:
        header = good[0][: good[0].index(b"\n") + 1]
        good = [body.removeprefix(header) for body in good]
    found = []
    for name, hostile in (("hostile", pieces), ("alone", lambda _: b"")):
        (tmp_path / name).mkdir()
        source = f'kind = "stdin"\nformat = "{kind.value}"\n'
        settings = SETTINGS + stream_settings("pipe", STREAMS["keyed"], source)
        daemon = DaemonService(tmp_path / name, settings, exit_when_drained=True)
        run(daemon, header + b"".join(hostile(n) + body for n, body in enumerate(good)))
        found.append(windows(daemon.history, "pipe"))
    assert len(found[1]) == 10 * n_pieces // WINDOW
    assert found[0] == found[1]
