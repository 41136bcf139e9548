"""The monitor: batches in, a report for every completed window out."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from driftbn.codec import Codec
from driftbn.config import Knowledge, MonitorConfig, WindowMode, field_types
from driftbn.drift.decider import CountDecider
from driftbn.drift.facts import Fact, FactKind, FieldHistory, FieldKinds
from driftbn.drift.outcome import TOO_FEW_ROWS, DriftDecision
from driftbn.drift.reference import Regime
from driftbn.drift.shares import Moved, moved_values
from driftbn.drift.trust import POWERLESS, CalibrationReport, Shadow, falls_due, visible_statistic
from driftbn.errors import ConfigError, DataError, KnowledgeError, UnknownSettingError
from driftbn.explain.html import framed, monitor_to_html
from driftbn.explain.sentences import counted
from driftbn.explain.svg import Moment
from driftbn.graphs.graph import Dag, Pdag, StructureDiff, compare
from driftbn.learning import (
    ChiSquareTest,
    LearnedStructure,
    LearnedWindow,
    MakeTest,
    SearchCost,
    StructureLearner,
    extend_to_dag,
)
from driftbn.learning.search import apply_knowledge, given_first, knowledge_about
from driftbn.report import (
    BAND_WINDOWS,
    DataComparison,
    Excluded,
    HammingBand,
    MissingShare,
    Relearned,
    Sample,
    ShadowLook,
    Timings,
    Twin,
    WarmAudit,
    WindowReport,
    WindowRow,
)
from driftbn.snapshot import (
    CORE,
    CORE_PARTS,
    FIRST_READ,
    KIND,
    TAIL,
    VERSION,
    config_text,
    dag_values,
    learned_values,
    pack,
    read_config,
    read_dag,
    read_learned,
    unpack,
)
from driftbn.tables.encode import EncodedTable, SchemaEvent, SchemaEventKind, merged_events
from driftbn.tables.infer import Bins
from driftbn.tables.intake import Encoded, Intake
from driftbn.tables.schema import Schema, is_rare
from driftbn.windows.buffer import Window, WindowBuffer
from driftbn.windows.sample import SampledBuffer

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

_log = logging.getLogger("driftbn")

KEPT_WINDOWS: Final = 100
"""Newest windows that ``to_frame`` has; a stream has no end."""
STRONG: Final = 0.03  # nats: a change that every window should show
_EVENTS: Final = {
    FactKind.MISSING: SchemaEventKind.MISSING_VALUES,
    FactKind.OUTSIDE: SchemaEventKind.OTHER_SCALE,
    FactKind.UNUSUAL: SchemaEventKind.OTHER_SCALE,
}
"""Facts that are differences from the schema."""
_EVENT: Final = Codec()


class ArrowStream(Protocol):
    """A table of polars, Arrow, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Batch: TypeAlias = (
    "pd.DataFrame | ArrowStream | Mapping[str, Any] | Sequence[Mapping[str, Any]] | EncodedTable"
)
"""What a monitor takes in."""


class DriftMonitor:
    """Watches a stream of records for changes of the relations between its fields.

    Records fill a window; each window is learned, compared with the one before, and judged against
    a reference that grows with the stream. Records may come in batches of any size: the reports do
    not depend on how the stream is cut.

    Settings are given as ``config``, or by their names as in ``DriftMonitor(2000, alpha=0.001)``
    and ``DriftMonitor(window="1h", time="at", target="status")``: a number is the rows of a window,
    a text its length in event time; each has a default. ``time`` is short for ``time_column``.
    ``clock`` returns seconds, for deadlines and the reported times. ``independence_test`` makes the
    test that graphs are learned with, from packed table, learner's settings and design effects; by
    default chi-square or G, as ``config.learner`` says. It is not part of a snapshot, and the
    decision has two-sample tests of its own.

    Raises ConfigError if a setting is not allowed, or settings are given beside ``config``.

    >>> from driftbn import DriftMonitor, datasets
    >>> before = datasets.asia()
    >>> after = datasets.remove_edge(before, "smoke", "bronc").network
    >>> monitor = DriftMonitor(window=2000)
    >>> for network, seed in ((before, 1), (before, 2), (before, 3), (after, 4)):
    ...     for report in monitor.update(datasets.sample(network, 2000, seed)):
    ...         print(report.index, report.decision.level.value)
    0 learning
    1 stable
    2 stable
    3 drift
    >>> change = report.decision.edges[0]
    >>> change.source, change.target, change.change.value
    ('bronc', 'smoke', 'removed')
    """

    def __init__(
        self,
        config: MonitorConfig | int | str | None = None,
        *,
        clock: Callable[[], float] = perf_counter,
        independence_test: MakeTest = ChiSquareTest.of_table,
        **settings: Any,
    ) -> None:
        self.config = _config(config, settings)
        self._clock = clock
        self._make_test = independence_test
        _check_knowledge(self.config.knowledge)
        self._reset()

    def _reset(self) -> None:
        config = self.config
        self._intake = Intake(config)
        self._buffer: WindowBuffer | None = None
        self._learner = StructureLearner(
            config.learner, config.knowledge, self._clock, self._make_test
        )
        self._decider = CountDecider(config, self._learner)
        self._previous: LearnedStructure | None = None
        self._dag: Dag | None = None
        self._events: tuple[SchemaEvent, ...] = ()
        self._taken_until = -1
        self._distances: tuple[int, ...] = ()  # Hamming distances of the newest calm windows
        self._history: FieldHistory | None = None  # what single fields were like so far
        self._kinds: FieldKinds | None = None  # what their codes mean, once that is known
        self._unread: Mapping[str, Any] | None = None  # of a snapshot, until it is asked for
        self._last_report: WindowReport | None = None
        self._rows: deque[WindowRow] = deque(maxlen=KEPT_WINDOWS)

    def __repr__(self) -> str:
        """Say how windows are cut, what the reference is, and what was decided last."""
        self._read_core()
        windows = self.config.windows
        parts = [] if windows.size is None else [f"{windows.size:,} rows"]
        parts += [] if windows.seconds is None else [f"{windows.seconds:g} s"]
        regime, last = self._decider.regime, self._last_report
        n_windows = 0 if regime is None else len(regime.windows)
        level = "no window yet" if last is None else f"window {last.index}: {last.decision.level}"
        reference = counted(n_windows, "window")
        return f"<DriftMonitor window={' or '.join(parts)}, reference={reference}, {level}>"

    def _repr_html_(self) -> str:
        moments = [
            Moment(row.window, row.hamming, row.confirmed, row.level == "drift", row.episode)
            for row in self._rows
        ]
        return framed(monitor_to_html(repr(self)[1:-1], moments, self._last_report))

    @property
    def last_report(self) -> WindowReport | None:
        """The report on the newest window; ``None`` before the first and after ``restore``."""
        return self._last_report

    def to_frame(self) -> pd.DataFrame:
        """Return the newest windows, at most ``KEPT_WINDOWS``, as a table with one row for each.

        Windows from before a ``restore`` are not in it.
        """
        import pandas as pd  # noqa: PLC0415 - most of the time that importing the library takes

        frame = pd.DataFrame(self._rows, columns=list(WindowRow._fields)).set_index("window")
        for name in ("start", "end"):
            frame[name] = pd.to_datetime(frame[name], unit="s", utc=True)
        return frame

    @property
    def schema(self) -> Schema | None:
        """What the columns are; ``None`` until the first window is there."""
        return self._intake.schema

    @property
    def n_pending(self) -> int:
        """Records taken in that have been in no window yet."""
        held = 0 if self._buffer is None else self._buffer.n_pending
        return held + self._intake.n_pending

    @property
    def n_late(self) -> int:
        """Records that came after their time window was closed."""
        return 0 if self._buffer is None else self._buffer.n_late

    @property
    def n_rejected(self) -> int:
        """Records left out because they could not be read."""
        return self._intake.n_rejected

    def update(self, batch: Batch, records: ArrayLike | None = None) -> tuple[WindowReport, ...]:
        """Take in a batch and report on the windows that it completes, in order.

        ``batch``: DataFrame of pandas or polars, Arrow table or anything with
        ``__arrow_c_stream__``, list of dicts, or dict of columns, with any number of rows; one dict
        of values is one record; or an ``EncodedTable`` in the monitor's own schema, which is
        fastest. A window that cannot be judged is undecided, with the reason; never an error.
        ``records``: with ``max_rows_per_window``, the rising numbers of the rows in the stream, if
        rows that no window keeps were left out before (``windows.sample`` says which).

        Raises DataError if a record cannot be read; nothing of the batch is taken in. With
        ``on_error="reject_rows"`` such records are left out and counted instead. Raises
        KnowledgeError if ``config.knowledge`` names a field that the stream does not have.
        """
        return self._take(self._intake.take([batch] if _is_record(batch) else batch, records))

    def finish(self) -> tuple[WindowReport, ...]:
        """Report on the records left at the end of a file, as one or more last windows.

        The last window may be short. Records may still be added afterwards.
        """
        reports = self._take(self._intake.finish())
        if self._buffer is None:
            return reports
        return (*reports, *(self._report(window) for window in self._buffer.flush()))

    def accept(self) -> None:
        """Take the present as the new normal: the next window starts a new reference."""
        self._read_core()
        self._decider.accept()

    def reset(self) -> None:
        """Forget everything, as if no record had come."""
        self._reset()

    def calibration(self, wanted: float = 0.01) -> CalibrationReport:
        """Say how far the monitor can be trusted on this stream.

        ``wanted``: the change that should be seen, in nats above 0; a medium edge has 0.01 to 0.03.
        """
        self._read_core()
        names = () if self.schema is None else self.schema.names
        return self._decider.calibration(names, wanted)

    def snapshot(self) -> bytes:
        """Return all that the monitor knows; equal monitors give equal bytes."""
        return pack(KIND, VERSION, self._core_values() | self._tail_values())

    def core(self) -> bytes:
        """Return what only the end of a window, ``accept`` and ``reset`` change.

        With ``tail`` it says what ``snapshot`` says, and between windows need not be made again.
        """
        return pack(CORE, VERSION, self._core_values())

    def tail(self) -> bytes:
        """Return what each batch changes: the records that wait, and the schema."""
        return pack(TAIL, VERSION, self._tail_values())

    @classmethod
    def restore(
        cls,
        data: bytes,
        tail: bytes | None = None,
        *,
        clock: Callable[[], float] = perf_counter,
        independence_test: MakeTest = ChiSquareTest.of_table,
    ) -> DriftMonitor:
        """Return a monitor that continues exactly where the one stood that gave the snapshot.

        ``data``: a snapshot, or a core if there is a ``tail``.

        Raises FormatError if the bytes are no snapshot, of a version that is not read, or damaged.
        """
        if tail is None:
            core = rest = unpack(KIND, VERSION, data, FIRST_READ)
        else:
            core = unpack(CORE, VERSION, data, FIRST_READ)
            rest = unpack(TAIL, VERSION, tail, FIRST_READ)
        config = read_config(core["config"])
        monitor = cls(config, clock=clock, independence_test=independence_test)
        monitor._config_text = core["config"]
        monitor._take_tail(rest)
        monitor._unread = core
        return monitor

    @cached_property
    def _config_text(self) -> str:
        return config_text(self.config)

    def _tail_values(self) -> dict[str, Any]:
        return {
            "intake": self._intake.state(),
            "buffer": None if self._buffer is None else self._buffer.state(),
            "events": [_EVENT.encode(event) for event in self._events],
        }

    def _core_values(self) -> dict[str, Any]:
        if self._unread is not None:
            return {name: self._unread[name] for name in CORE_PARTS}
        parts = (
            self._config_text,
            self._decider.state(),
            None if self._previous is None else learned_values(self._previous),
            None if self._dag is None else dag_values(self._dag),
            self._taken_until,
            self._distances,
            None if self._history is None else self._history.state(),
        )
        return dict(zip(CORE_PARTS, parts, strict=True))

    def _take_tail(self, values: Mapping[str, Any]) -> None:
        self._intake, buffer = Intake.from_state(self.config, values["intake"]), values["buffer"]
        if buffer is not None:
            self._apply_knowledge()
            self._buffer = self._make_buffer(buffer["n_variables"])
            self._buffer.take_state(buffer)
        self._events = tuple(_EVENT.decode(SchemaEvent, event) for event in values["events"])

    def _read_core(self) -> None:
        """Read what a snapshot says of windows before; until one ends nobody asks for it."""
        values, self._unread = self._unread, None
        if values is None:
            return
        self._decider = CountDecider.from_state(values["decider"], self.config, self._learner)
        previous, dag, history = values["previous"], values["dag"], values["history"]
        self._previous = previous and read_learned(previous)
        self._dag = dag and read_dag(dag)
        self._taken_until = values["taken_until"]
        self._distances = tuple(values["distances"])
        self._history = history and FieldHistory.from_state(history)

    def _take(self, encoded: Encoded | None) -> tuple[WindowReport, ...]:
        if encoded is None:
            return ()
        if self._buffer is None:
            self._check_target()
            self._apply_knowledge()
            self._buffer = self._make_buffer(len(encoded.codes))
        n_before = self._buffer.n_records
        windows = self._buffer.append(*encoded[:4])
        reports = []
        start = 0
        for window in windows:
            stop = window.closed_by + 1 - n_before
            if encoded.records is not None:
                stop = int(np.searchsorted(encoded.records, window.closed_by, side="right"))
            self._events = merged_events(self._events, encoded.events_between(start, stop))
            start = max(start, stop)
            reports.append(self._report(window))
        rest = encoded.events_between(start, encoded.codes.shape[1])
        self._events = merged_events(self._events, rest)
        return tuple(reports)

    def _make_buffer(self, n_variables: int) -> WindowBuffer:
        most = self.config.max_rows_per_window
        if most is None:
            return WindowBuffer(self.config.windows, n_variables)
        return SampledBuffer(self.config.windows, n_variables, most)

    def _check_target(self) -> None:
        target, names = self.config.target, self._schema.names
        left_out = [item.name for item in self._schema.excluded]
        if target is not None and target not in (*names, *left_out):
            raise KnowledgeError("target", target, f"a field of the stream: {names[:8]}…")

    def _apply_knowledge(self) -> None:
        """Leave aside what is known of columns that are no variables, once that is known."""
        schema, config = self._schema, self.config
        left_out = [item.name for item in schema.excluded]
        known = {*schema.names, *left_out, config.time_column}
        for name in (name for name in config.given if name not in known):
            raise KnowledgeError("given", name, f"a field of the stream: {schema.names[:8]}…")
        knowledge = given_first(config.knowledge, config.given, schema.names)
        apply_knowledge(knowledge, schema.names, left_out)
        self._learner.knowledge = knowledge_about(knowledge, schema.names)

    def _report(self, window: Window) -> WindowReport:
        """Report on a window; where that fails, all is as if the window had not come."""
        self._read_core()
        if window.sampled is not None:
            self._events = _of_kept(self._events, window.n_rows / window.sampled.n_taken)
        try:
            report = self._judge(window)
        except Exception as error:  # noqa: BLE001 - whatever the values, the stream goes on
            _log.warning("window %d could not be judged", window.index, exc_info=error)
            report = self._undecided(window, f"{type(error).__name__}: {error}")
        self._events = ()
        self._last_report = report
        self._rows.append(WindowRow.of(report))
        if window.index == 1:
            self._warn_if_blind(report)
        return report

    def _warn_if_blind(self, report: WindowReport) -> None:
        """Say so if the first window that is judged can show no change of any pair of fields."""
        decision, n_nodes = report.decision, len(report.graph.nodes)
        blind = decision.n_undecided and self.calibration().visible_to(0.0) > POWERLESS
        if not (blind or decision.reason == TOO_FEW_ROWS) or n_nodes < 2:
            return
        n_tests = n_nodes * (n_nodes - 1) // 2 * len(self.config.scales)
        shift = float(visible_statistic(np.ones(1), self.config.level / n_tests)[0])
        n_wanted = -(-shift // (STRONG * 100)) * 100
        if n_wanted <= report.rows:  # what hides changes is not the size
            return
        _log.warning(
            "windows of %d records are too small to show any change between %d fields: use at least"
            " %d, which show strong changes of fields with few values",
            report.rows,
            n_nodes,
            n_wanted,
        )

    def _judge_table(self, index: int, batch: Batch) -> WindowReport:
        """Report on a whole table as one window; the first one says what the columns are."""
        encoded = self._intake.take(batch) or self._intake.finish()
        if encoded is None:
            raise DataError("a table to compare must have rows")
        if index == 0:
            self._check_target()
            self._apply_knowledge()
        n_rows, times = encoded.codes.shape[1], encoded.times
        self._events = encoded.events_between(0, n_rows)
        start = None if times is None else float(times.min())
        end = None if times is None else float(times.max())
        return self._report(Window(index, encoded.codes, 0, n_rows - 1, start, end, times=times))

    @property
    def _schema(self) -> Schema:
        assert self._intake.schema is not None  # as there are windows
        return self._intake.schema

    def _judge(self, window: Window) -> WindowReport:
        started = self._clock()
        evidence = self._learn(window, self._previous)
        learned = self._clock()
        usable = evidence.learned.overrun is None
        known = evidence.learned if usable or self._previous is None else self._previous
        dag = extend_to_dag(known.graph, self._dag)
        before = known if self._previous is None else self._previous
        decider, fresh = self._decider.branch(), self._is_fresh(window)
        history, facts = self._field_history(window, evidence) if fresh else (self._history, ())
        sampled = window.sampled
        decision = decider.decide(
            window.index, evidence, fresh=fresh, facts=facts, sampled=sampled is not None
        )
        decided = self._clock()
        bare = self._bare_report(window, known.graph, dag, decision)
        report = replace(
            bare,
            events=(*bare.events, *_events_of(decision.facts, bare)),
            diff=compare(self._dag or dag, dag),
            class_diff=compare(before.graph, known.graph),
            cost=evidence.learned.cost,
            timings=Timings(learned - started, decided - learned),
            conflicts=evidence.learned.conflicts,
            twins=_twin_names(evidence),
            overrun=evidence.learned.overrun,
            audit=self._audit(window, evidence),
            shadow=_shadow_look(self._decider.shadow, decider.shadow),
            usual=HammingBand.of(self._distances),
            relearned=_relearned(decider.regime),
            moved=self._moved(window, decision),
            sample=sampled and Sample(sampled.n_records, decider.visible),
        )
        # From here on nothing fails.
        if self._is_fresh(window) or decision.drift:
            self._taken_until = window.last_record
        self._previous, self._dag, self._decider = known, dag, decider
        self._history = history
        if decision.calm and usable:
            self._distances = (*self._distances, report.diff.hamming)[-BAND_WINDOWS:]
        return report

    def _moved(self, window: Window, decision: DriftDecision) -> tuple[Moved, ...]:
        """Return which values moved against the regime that the window was compared with."""
        known = (self._decider.regime, *self._decider.archive)
        regimes = [regime for regime in known if regime is not None]
        if decision.kind is None or not regimes:
            return ()
        # A window after an alarm is of the regime that it begins, and was compared with the old.
        compared = [one for one in regimes if one.number == decision.regime] or regimes
        regime = regimes[0] if decision.settling else compared[0]
        before = [part.cells for part in regime.pool.parts]
        return moved_values(decision, self._schema, regime.bins, before, window.codes)

    def _field_history(
        self, window: Window, evidence: LearnedWindow
    ) -> tuple[FieldHistory, tuple[Fact, ...]]:
        """Return what is known of single fields with this window, and its facts."""
        if self._kinds is None:
            self._kinds = FieldKinds.of(self._schema)
        n_new = {
            event.column: event.n_rows
            for event in self._events
            if event.kind is SchemaEventKind.NEW_LEVEL
        }
        history = self._history or FieldHistory.empty(self._kinds)
        return history.with_window(evidence, self._kinds, n_new, window)

    def _undecided(self, window: Window, reason: str) -> WindowReport:
        """Report that a window could not be judged; its graph is the one from before."""
        names = self._schema.names
        graph = Pdag(names) if self._previous is None else self._previous.graph
        decision = self._decider.undecided(reason)
        return self._bare_report(window, graph, self._dag or Dag(names), decision)

    def _bare_report(
        self, window: Window, graph: Pdag, dag: Dag, decision: DriftDecision
    ) -> WindowReport:
        """Return a report without what was learned of the window."""
        schema, target = self._schema, self.config.target
        blanket = dag.markov_blanket(target) if target is not None and target in dag.nodes else ()
        return WindowReport(
            index=window.index,
            rows=window.n_rows,
            first_record=window.first_record,
            last_record=window.last_record,
            graph=graph,
            dag=dag,
            diff=StructureDiff(),
            class_diff=StructureDiff(),
            decision=decision,
            cost=SearchCost(()),
            start=window.start,
            end=window.end,
            events=_without_rare(self._events, window, schema),
            excluded=tuple(Excluded(item.name, item.reason.value) for item in schema.excluded),
            missing=_missing_shares(window, schema),
            target=target,
            blanket=tuple(sorted(blanket)),
        )

    def _learn(self, window: Window, previous: LearnedStructure | None) -> LearnedWindow:
        return self._learner.learn_window(
            window.codes,
            self._schema.names,
            previous,
            bins=self._bins(window),
            dependent_rows=self.config.dependent_rows,
        )

    def _bins(self, window: Window) -> Bins | None:
        """Return the bins of the present regime, or new ones if this window is its first."""
        if self._decider.regime is not None:
            return self._decider.regime.bins
        if self.config.variables is not None:
            return None
        return Bins.of(self._schema, window.codes, self.config.schema.numeric_bins)

    def _is_fresh(self, window: Window) -> bool:
        """Whether a window shares no rows with one that the decider has taken in."""
        sliding = self.config.windows.mode is WindowMode.SLIDING
        return not sliding or window.first_record > self._taken_until

    def _audit(self, window: Window, evidence: LearnedWindow) -> WarmAudit | None:
        """Learn a share of the windows from nothing."""
        if self._previous is None or not falls_due(window.index, self.config.audit_share):
            return None
        cold = self._learn(window, None)
        difference = compare(cold.learned.graph, evidence.learned.graph)
        return WarmAudit(difference.hamming, cold.learned.cost)


def _of_kept(events: tuple[SchemaEvent, ...], share: float) -> tuple[SchemaEvent, ...]:
    """Return events of all rows that were read as those of the share of them that was kept."""
    return tuple(
        replace(event, n_rows=max(1, round(share * event.n_rows))) if event.n_rows else event
        for event in events
    )


def _without_rare(
    events: tuple[SchemaEvent, ...], window: Window, schema: Schema
) -> tuple[SchemaEvent, ...]:
    """Return the events of a window, without columns that were too rare and still are."""
    return tuple(
        event
        for event in events
        if event.column not in schema.rare or not is_rare(event.n_rows, window.n_rows)
    )


def _events_of(facts: Sequence[Fact], report: WindowReport) -> tuple[SchemaEvent, ...]:
    """Return the differences from the schema that facts show and no column as a whole."""
    told = {event.column for event in report.events}
    return tuple(
        SchemaEvent(_EVENTS[fact.kind], fact.field, n_rows=round(fact.share * report.rows))
        for fact in facts
        if fact.kind in _EVENTS and fact.field not in told
    )


def _missing_shares(window: Window, schema: Schema) -> tuple[MissingShare, ...]:
    """Return the fields that have missing values, each with their share of its rows."""
    codes = np.array([variable.missing_code for variable in schema.variables], np.uint8)
    shares = (window.codes == codes[:, None]).mean(axis=1).tolist()
    pairs = zip(schema.names, shares, strict=True)
    return tuple(MissingShare(name, share) for name, share in pairs if share)


def _twin_names(window: LearnedWindow) -> tuple[Twin, ...]:
    """Return the fields that are copies in this window, each with the one that it copies."""
    names = window.names
    return tuple(Twin(names[copy], names[first]) for copy, first in sorted(window.twins.items()))


def _relearned(regime: Regime | None) -> Relearned | None:
    found = None if regime is None else regime.relearned
    return None if found is None else Relearned(found.cost, found.overrun)


def _shadow_look(before: Shadow, now: Shadow) -> ShadowLook | None:
    """Return what was decided on the shadow window, if there was one."""
    if now.n_windows == before.n_windows:
        return None
    return ShadowLook(now.n_alarms > before.n_alarms)


def compare_data(
    reference: Batch,
    current: Batch,
    *,
    names: tuple[str, str] = ("the reference", "the current table"),
    **settings: Any,
) -> DataComparison:
    """Say whether and how the relations between the fields of two tables differ.

    The second table is judged as a monitor judges a window: by the same tests, with one level
    ``alpha`` for all of them together. ``settings``: those of a monitor, except for windows.

    Raises DataError if a table cannot be read or is empty, ConfigError if a setting is not allowed.

    >>> from driftbn import compare_data, datasets
    >>> asia = datasets.asia()
    >>> monday, tuesday = datasets.sample(asia, 2000, 1), datasets.sample(asia, 3000, 2)
    >>> compare_data(monday, tuesday).drift
    False
    >>> other = datasets.remove_edge(asia, "smoke", "bronc").network
    >>> found = compare_data(monday, datasets.sample(other, 2000, 3))
    >>> print(found.explain().headline)
    The tables differ: the dependency between 'bronc' and 'smoke' was removed.
    """
    for name in ("window", "max_rows_per_window"):
        if name in settings:
            raise ConfigError(name, settings[name], "left out: each table is one window")
    fixed = {"window": sys.maxsize, "reference_windows": 1, "shadow_share": 0.0}
    monitor = DriftMonitor(**{**settings, **fixed})
    before = monitor._judge_table(0, reference)
    return DataComparison(before, monitor._judge_table(1, current), names)


def _is_record(batch: object) -> bool:
    """Whether it is one record: a dict in which something is no column."""
    return isinstance(batch, Mapping) and any(
        isinstance(cell, str | bytes | Mapping) or not hasattr(cell, "__len__")
        for cell in batch.values()
    )


def _config(config: object, settings: dict[str, Any]) -> MonitorConfig:
    if isinstance(config, MonitorConfig):
        for name, value in settings.items():
            raise ConfigError(name, value, "left out where config is given")
        return config
    if config is not None and not isinstance(config, int | str):
        allowed = "settings, or the rows of a window; records go to update()"
        raise ConfigError("config", type(config).__name__, allowed)
    if "time" in settings:
        settings["time_column"] = settings.pop("time")
    if config is not None:
        settings["window"] = config
    known = tuple(field_types(MonitorConfig))
    for name in (name for name in settings if name not in known):
        raise UnknownSettingError(name, settings[name], known)
    return MonitorConfig(**settings)


def _check_knowledge(knowledge: Knowledge) -> None:
    """Refuse knowledge that contradicts itself, before any record is taken in."""
    edges = (*knowledge.required, *knowledge.forbidden, *knowledge.tiers)
    apply_knowledge(knowledge, tuple(sorted({name for group in edges for name in group})), [])
