import pytest
from driftbn_service.cli import main
from driftbn_service.daemon import warm_up_monitor, watched_warm_up


def test_every_part_of_a_decision_is_used() -> None:
    levels = warm_up_monitor()
    assert {"learning", "stable", "drift", "settling"} <= set(levels)


def test_the_command_says_when_kernels_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up"]) == 0
    assert capsys.readouterr().err.endswith("kernels are ready\n")


def test_who_gives_up_does_not_wait_for_the_compiler() -> None:
    told: list[str] = []
    watched_warm_up(told.append, lambda: True)
    assert told == []
