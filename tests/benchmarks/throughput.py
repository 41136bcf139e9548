"""How fast records of each format become reports, next to a bare loop of ``orjson.loads``.

Run ``python -m tests.benchmarks.throughput``. The records are those of the Alarm network, with
labels as text: 37 fields, about 652 bytes each as JSON. ``orjson.loads`` on one record after the
other, with nothing done with the result, is the yardstick: whoever reads JSON as Python objects
is slower. Rates are the best of the repeats, in thousands of records a second:

decode
    Bytes to rows or codes, in one thread, once the schema is known.
one thread
    Bytes to reports: decoding, learning and deciding.
two threads
    The same with a reader that decodes and a worker that learns, as the daemon has.
daemon
    With ``--daemon``: the whole way through ``driftbn run`` on a pipe.

A way that learns is never faster than learning alone, which is timed too.
"""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks.throughput_daemon import daemon_rate
from tests.benchmarks.throughput_runs import (
    Rates,
    learning_rate,
    orjson_rate,
    rates_of,
)
from tests.benchmarks.throughput_streams import FORMATS, alarm_chunks, alarm_rows

N_RECORDS = 200_000
N_REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.throughput")
    parser.add_argument("--records", type=int, default=N_RECORDS, help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=N_REPEATS, help="(%(default)s)")
    parser.add_argument("--window", type=int, default=5000, help="records (%(default)s)")
    parser.add_argument("--daemon", action="store_true", help="also time the real daemon")
    arguments = parser.parse_args()
    rows = alarm_rows(arguments.records)
    chunks = {kind: alarm_chunks(rows, kind) for kind in FORMATS}
    yardstick = orjson_rate(chunks[FORMATS[0]], arguments.repeats)
    learning = learning_rate(rows, arguments.window, arguments.repeats)
    write = sys.stdout.write
    write(f"bare loop of orjson.loads: {yardstick / 1e3:.0f}k records a second\n")
    write(f"learning and deciding alone, from codes: {learning / 1e3:.0f}k\n\n")
    write(f"{'':10}{'decode':>18}{'one thread':>18}{'two threads':>18}\n")
    for kind in FORMATS:
        found = rates_of(chunks[kind], kind, arguments.window, arguments.repeats)
        write(_row(kind.value, found, yardstick))
    if arguments.daemon:
        rate = daemon_rate(chunks[FORMATS[0]], arguments.window)
        write(f"\ndaemon, NDJSON from a pipe: {_cell(rate, yardstick)}\n")


def _row(name: str, rates: Rates, yardstick: float) -> str:
    return f"{name:10}" + "".join(f"{_cell(rate, yardstick):>18}" for rate in rates) + "\n"


def _cell(rate: float, yardstick: float) -> str:
    return f"{rate / 1e3:.0f}k {rate / yardstick:6.2f}x"


if __name__ == "__main__":
    main()
