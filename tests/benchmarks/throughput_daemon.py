"""The whole way: ``driftbn run`` reads records from a pipe until they end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIRST_SHARE = 0.1  # of the records, by the end of which the daemon has started and compiled

_SETTINGS = """
[service]
state_dir = {state}
exit_when_drained = true

[endpoint]
enabled = false

[[streams]]
name = "alarm"
window = {window}

[streams.source]
kind = "stdin"
format = "ndjson"

[[outlets]]
kind = "file"
path = {events}
"""


def daemon_rate(chunks: list[bytes], window: int) -> float:
    """Return how many records a second the daemon takes from a pipe, to its end.

    The clock starts when the pipe has taken a tenth of the records. What of these is still in a
    queue then counts against the daemon, and so do its last checkpoint and its end.
    """
    n_first = max(1, int(len(chunks) * FIRST_SHARE))
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "settings.toml"
        paths = {
            name: json.dumps(str(Path(directory) / name)) for name in ("state", "events.ndjson")
        }
        text = _SETTINGS.format(state=paths["state"], events=paths["events.ndjson"], window=window)
        settings.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "driftbn_service", "run", "--config", str(settings)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as daemon:
            assert daemon.stdin is not None
            daemon.stdin.writelines(chunks[:n_first])
            started = time.perf_counter()
            daemon.stdin.writelines(chunks[n_first:])
            _, messages = daemon.communicate()
            seconds = time.perf_counter() - started
        if daemon.returncode:
            raise RuntimeError(f"the daemon failed: {messages.decode()}")
        if not Path(json.loads(paths["events.ndjson"])).exists():
            raise RuntimeError(f"the daemon has written no event: {messages.decode()}")
    return sum(data.count(b"\n") for data in chunks[n_first:]) / seconds
