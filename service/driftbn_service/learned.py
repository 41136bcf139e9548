"""What was learned from a file: structure, timings, and its form as JSON or as a network."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from driftbn.graphs.files import graph_to_dict
from driftbn.graphs.network import BayesianNetwork, ParameterMethod, fit_parameters
from driftbn.learning import LearnedStructure, StructureLearner
from driftbn.tables.encode import EncodedTable, encode
from driftbn.tables.infer import infer_and_encode
from driftbn.tables.schema import Schema
from driftbn_service.errors import InputError, blamed_on
from driftbn_service.graphs import LEARNED_FORMAT, LEARNED_VERSION, is_graph
from driftbn_service.options import LearnOptions
from driftbn_service.records.inputs import Input
from driftbn_service.records.tables import for_inference, one_table, unmixed
from driftbn_service.warmup import warm_up


@dataclass(frozen=True, eq=False)
class LearnedFile:
    """A structure with the table it was learned from.

    Parameters
    ----------
    name
        The input.
    table
        The codes, with their schema and its events.
    structure
        What was learned.
    reading_seconds, encoding_seconds
        Time from bytes to columns, and from columns to codes.
    """

    name: str
    table: EncodedTable
    structure: LearnedStructure
    reading_seconds: float
    encoding_seconds: float


def learn_input(
    source: Input,
    options: LearnOptions,
    previous: LearnedFile | None = None,
    *,
    warm: bool = True,
) -> LearnedFile:
    """Read a table and learn its structure.

    Parameters
    ----------
    source
        The input.
    options
        How to read and learn.
    previous
        An earlier file: its schema is used, so that codes mean the same in both.
    warm
        Whether to start the search from ``previous`` too, unless that was stopped early.

    Raises
    ------
    InputError
        If the table cannot be used.
    ConfigError
        If a setting is not allowed.
    """
    if is_graph(source):
        raise InputError(source.name, "holds a learned graph where a table is needed")
    warm_up()
    times = [time.perf_counter()]
    with blamed_on(source.name):
        data = one_table([batch.data for batch in source.batches(options.columns)])
        times.append(time.perf_counter())
        knowledge = options.knowledge(data.column_names)
        table = _encoded(data, previous)
        times.append(time.perf_counter())
        start = previous.structure if previous and warm and not previous.structure.overrun else None
        structure = StructureLearner(options.config, knowledge).learn(table, start)
    return LearnedFile(source.name, table, structure, times[1] - times[0], times[2] - times[1])


def _encoded(data: pa.Table, previous: LearnedFile | None) -> EncodedTable:
    if previous is None:
        return infer_and_encode(for_inference(data))
    (rows,) = unmixed(data, known=True)
    # Without the mark of records: a column that a whole file lacks is worth a word.
    return encode(rows.replace_schema_metadata(), previous.table.schema)


def fitted_network(
    learned: LearnedFile, method: ParameterMethod, equivalent_sample_size: float
) -> BayesianNetwork:
    """Fit the probabilities of the learned DAG; levels that no row has are no states.

    Raises
    ------
    InputError
        If a node has so many parents that its table does not fit.
    """
    codes = np.empty_like(learned.table.codes)
    states = []
    for i, variable in enumerate(learned.table.schema.variables):
        observed, codes[i] = np.unique(learned.table.codes[i], return_inverse=True)
        states.append([variable.labels[code] for code in observed.tolist()])
    with blamed_on(learned.name):
        return fit_parameters(
            learned.structure.dag,
            codes,
            learned.table.schema.names,
            states,
            method,
            equivalent_sample_size,
        )


def learned_document(learned: LearnedFile, options: LearnOptions) -> dict[str, Any]:
    """Return what was learned as values that JSON can hold; ``driftbn diff`` reads it back."""
    structure = learned.structure
    cost = structure.cost
    schema = learned.table.schema
    return {
        "format": LEARNED_FORMAT,
        "version": LEARNED_VERSION,
        "source": learned.name,
        "rows": learned.table.n_rows,
        "settings": _settings(options),
        "graph": graph_to_dict(structure.graph),
        "conflicts": [list(edge) for edge in structure.conflicts],
        "excluded": [
            {"name": column.name, "reason": column.reason.value, "detail": column.detail}
            for column in schema.excluded
        ],
        "overrun": structure.overrun.value if structure.overrun else None,
        "schema_sha256": _fingerprint(schema),
        "cost": {
            "tests": list(cost.tests),
            "weighted": cost.weighted,
            "undecided": list(cost.undecided),
            "orientation_tests": list(cost.orientation_tests),
            "orientation_weighted": cost.orientation_weighted,
        },
        "seconds": {
            "reading": learned.reading_seconds,
            "encoding": learned.encoding_seconds,
            "learning": cost.seconds,
        },
    }


def _settings(options: LearnOptions) -> dict[str, Any]:
    config = options.config
    return {
        "algorithm": config.algorithm.value,
        "alpha": config.alpha,
        "statistic": config.statistic.value,
        "collider_rule": config.collider_rule.value,
        "max_conditioning": config.max_conditioning,
    }


def _fingerprint(schema: Schema) -> str:
    text = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
