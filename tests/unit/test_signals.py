import signal

from driftbn_service.process import Signals


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
