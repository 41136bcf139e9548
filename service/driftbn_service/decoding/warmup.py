"""Compiling or loading the kernels of decoding before the first record comes."""

from __future__ import annotations

from driftbn.schema import Schema
from driftbn.variables import Variable, VariableKind
from driftbn_service.decoding.csv_cells import typed_rows
from driftbn_service.decoding.csv_rows import decode_csv
from driftbn_service.decoding.json_lines import array_as_lines, decode_lines, read_lines
from driftbn_service.decoding.limits import Limits
from driftbn_service.decoding.scanner import Scanner


def warm_up() -> None:
    """Decode a tiny text of each kind; the first time after installation takes half a minute."""
    place = "{} {}".format
    data, _ = array_as_lines(b'[{"x":1},{"x":"a"}]', place)
    limits = Limits(len(data))
    decode_lines(read_lines(data, True), place, limits)
    list(decode_csv(b"x,y\n1,a\n", place, limits, typed_rows))
    variables = [Variable("x", VariableKind.NUMERIC, edges=(0.5,))]
    Scanner(Schema(variables)).scan(b'{"x":1}\n', True)
