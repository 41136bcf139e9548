import threading
import time

from driftbn_service.stream import WorkQueue


def test_items_come_out_in_the_order_they_went_in() -> None:
    queue: WorkQueue[int] = WorkQueue(10)
    for number in range(5):
        assert queue.put(number, 2, timeout=0)
    assert [queue.get(0) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert queue.cost == 0


def test_an_item_without_room_waits_until_there_is() -> None:
    queue: WorkQueue[str] = WorkQueue(10)
    queue.put("first", 10)
    done = threading.Event()

    def put() -> None:
        assert queue.put("second", 1)
        done.set()

    thread = threading.Thread(target=put)
    thread.start()
    assert not done.is_set()
    assert queue.get() == "first"
    assert done.wait(60)
    thread.join()
    assert queue.get(0) == "second"


def test_who_waits_for_room_is_woken_when_half_of_it_is_there() -> None:
    queue: WorkQueue[int] = WorkQueue(10)
    for number in range(10):
        queue.put(number, 1)
    done = threading.Event()
    thread = threading.Thread(target=lambda: queue.put(10, 1) and done.set())
    thread.start()
    while not queue._emptied._waiters:  # type: ignore[attr-defined]
        time.sleep(0.001)
    assert [queue.get() for _ in range(4)] == [0, 1, 2, 3]
    assert not done.wait(0.1)
    assert queue.get() == 4
    assert done.wait(60)
    thread.join()
    assert [queue.get(0) for _ in range(7)] == [5, 6, 7, 8, 9, 10, None]


def test_an_item_larger_than_the_queue_is_let_in_alone() -> None:
    queue: WorkQueue[str] = WorkQueue(10)
    assert queue.put("large", 100, timeout=0)
    assert not queue.put("small", 1, timeout=0)
    assert queue.get(0) == "large"


def test_free_items_still_wait_behind_a_full_queue_only_if_they_cost() -> None:
    queue: WorkQueue[str] = WorkQueue(10)
    queue.put("full", 10)
    assert queue.put("free", 0, timeout=0)


def test_a_cleared_queue_is_empty_and_has_room() -> None:
    queue: WorkQueue[str] = WorkQueue(10)
    queue.put("a", 10)
    queue.clear()
    assert queue.get(0) is None
    assert queue.put("b", 10, timeout=0)
