from driftbn_service.daemon import warm_up_monitor


def test_every_part_of_a_decision_is_used() -> None:
    levels = warm_up_monitor()
    assert {"learning", "stable", "drift", "settling"} <= set(levels)
