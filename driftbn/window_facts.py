"""What a report tells of a window beside its graph and the decision."""

from __future__ import annotations

import numpy as np

from driftbn.drift.reference import WindowEvidence
from driftbn.drift.trust import Shadow
from driftbn.graphs.graph import Dag
from driftbn.records import SchemaEvent
from driftbn.report import Excluded, MissingShare, ShadowLook, Twin
from driftbn.schema import Schema, is_rare
from driftbn.window import Window


def missing_shares(window: Window, schema: Schema) -> tuple[MissingShare, ...]:
    """Return the fields that have missing values, each with their share of its rows."""
    codes = np.array([variable.missing_code for variable in schema.variables], np.uint8)
    shares = (window.codes == codes[:, None]).mean(axis=1).tolist()
    pairs = zip(schema.names, shares, strict=True)
    return tuple(MissingShare(name, share) for name, share in pairs if share)


def excluded_columns(schema: Schema) -> tuple[Excluded, ...]:
    """Return the columns that are no variables, each with the reason."""
    return tuple(Excluded(item.name, item.reason.value) for item in schema.excluded)


def told_events(
    events: tuple[SchemaEvent, ...], window: Window, schema: Schema
) -> tuple[SchemaEvent, ...]:
    """Return the events of a window, without columns that were too rare and still are."""
    return tuple(
        event
        for event in events
        if event.column not in schema.rare or not is_rare(event.n_rows, window.n_rows)
    )


def twin_names(evidence: WindowEvidence) -> tuple[Twin, ...]:
    """Return the fields that are copies in this window, each with the one that it copies."""
    names = evidence.names
    return tuple(Twin(names[copy], names[first]) for copy, first in sorted(evidence.twins.items()))


def blanket_of(target: str | None, dag: Dag) -> tuple[str, ...]:
    """Return the Markov blanket of the target; empty if there is no such field."""
    if target is None or target not in dag.nodes:
        return ()
    return tuple(sorted(dag.markov_blanket(target)))


def shadow_look(before: Shadow, now: Shadow) -> ShadowLook | None:
    """Return what the decider saw on rows dealt out anew, if it has looked."""
    if now.n_windows == before.n_windows:
        return None
    return ShadowLook(now.n_alarms > before.n_alarms)
