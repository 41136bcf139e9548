from __future__ import annotations

from driftbn.records import MAX_NAMED_LEVELS, SchemaEvent, SchemaEventKind
from driftbn.schema_events import merged_events

NEW = SchemaEventKind.NEW_LEVEL


def test_events_of_the_same_column_and_kind_are_put_together() -> None:
    one = SchemaEvent(NEW, "x", ("b",), 1, 2)
    other = SchemaEvent(NEW, "x", ("a", "b"), 2, 5)
    gone = SchemaEvent(SchemaEventKind.MISSING_COLUMN, "x", n_rows=4)
    assert merged_events((one,), (other, gone)) == (gone, SchemaEvent(NEW, "x", ("a", "b"), 2, 7))
    assert merged_events((), (one,)) == (one,)
    assert merged_events((one,), ()) == (one,)


def test_of_many_new_levels_it_is_only_said_that_there_are_more() -> None:
    first = SchemaEvent(NEW, "x", tuple(f"a{i}" for i in range(6)), 6, 6)
    second = SchemaEvent(NEW, "x", tuple(f"b{i}" for i in range(6)), 6, 6)
    (event,) = merged_events((first,), (second,))
    assert event.levels == (*first.levels, "b0", "b1")
    assert (event.n_levels, event.n_rows) == (MAX_NAMED_LEVELS + 1, 12)
    assert merged_events((event,), (second,))[0].n_levels == MAX_NAMED_LEVELS + 1


def test_events_of_ever_new_columns_are_bounded_however_they_come() -> None:
    events = [SchemaEvent(NEW, f"x{i:05}", n_rows=1) for i in range(3000)]
    one_by_one: tuple[SchemaEvent, ...] = ()
    for event in reversed(events):
        one_by_one = merged_events(one_by_one, (event,))
    assert one_by_one == merged_events((), tuple(events)) == tuple(events[:1000])
