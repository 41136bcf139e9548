import os
import signal
import socket
from pathlib import Path

import pytest
from driftbn_service.process import Notifier, Signals


@pytest.fixture
def manager(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(5)
        yield receiver


def test_messages_arrive_as_systemd_reads_them(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    notifier.ready("2 streams")
    notifier.alive()
    notifier.reloading(1.5)
    notifier.stopping()
    notifier.extend(60.0, "compiling")
    messages = [manager.recv(1000).decode() for _ in range(5)]
    assert messages == [
        "READY=1\nSTATUS=2 streams",
        "WATCHDOG=1",
        "RELOADING=1\nMONOTONIC_USEC=1500000",
        "STOPPING=1",
        "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=compiling",
    ]


def test_an_abstract_address_begins_with_a_zero_byte() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0driftbn-test-{os.getpid()}")
        receiver.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@driftbn-test-{os.getpid()}"}).alive()
        assert receiver.recv(100) == b"WATCHDOG=1"


def test_without_a_manager_nothing_happens() -> None:
    notifier = Notifier({})
    notifier.ready("alone")
    assert notifier.watchdog_seconds is None


def test_a_manager_that_has_gone_is_no_error(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).alive()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_ours_only_if_it_says_so(environ: dict, seconds: float | None) -> None:
    assert Notifier(environ).watchdog_seconds == seconds


def test_a_stop_is_counted_and_wakes_the_wait() -> None:
    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        signals.wait(60)  # returns at once
        assert signals.n_stops == 1
        signal.raise_signal(signal.SIGINT)
        assert signals.n_stops == 2


def test_a_reload_is_asked_for_once() -> None:
    with Signals() as signals:
        assert not signals.take_reload()
        signal.raise_signal(signal.SIGHUP)
        assert signals.take_reload()
        assert not signals.take_reload()
        assert signals.n_stops == 0


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
