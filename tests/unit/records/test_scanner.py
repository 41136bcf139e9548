import threading

import numpy as np
import pytest
from driftbn_service.records import Decoder, scanner
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.scanner import Scanner

from driftbn.config import MissingPolicy
from driftbn.tables.encode import EncodedTable, encode
from driftbn.tables.schema import Exclusion, ExclusionReason, Schema, Variable, VariableKind
from tests.decoding import chunk

CATEGORICAL, NUMERIC = VariableKind.CATEGORICAL, VariableKind.NUMERIC
COLOUR = Variable("colour", CATEGORICAL, ("blue", "red", "Zoë"))
CITY = Variable("city", CATEGORICAL, ("3", "bern", "true"), pooled=True)
SIZE = Variable("size", NUMERIC, edges=(-1.0, 0.1, 0.30000000000000004, 1e20))
WHOLE = Variable("whole", VariableKind.INTEGER, ("-1", "0", "2"))
ID = Exclusion("id", ExclusionReason.ID_LIKE, "")
SCHEMA = Schema([COLOUR, CITY, SIZE, WHOLE], [ID])
OTHER, MISSING = -2, -1


def scan(line: bytes, schema: Schema = SCHEMA, is_unicode: bool = True) -> dict[str, int] | None:
    """Return the codes of a line; ``None`` if it does not fit."""
    found = Scanner(schema).scan(line, is_unicode)
    (fits,) = found.fits
    return dict(zip(schema.names, found.codes[:, 0].tolist(), strict=True)) if fits else None


def code(variable: Variable, value: bytes, is_unicode: bool = True) -> int | None:
    """Return the code of a value, reserved ones from the end; ``None`` if it has none."""
    line = b'{"%s":%s}' % (variable.name.encode(), value)
    found = scan(line, SCHEMA, is_unicode)
    if found is None:
        return None
    place = found[variable.name]
    return place if place < len(variable.levels) else place - variable.cardinality


def lines(values: list[str], name: str = "colour") -> bytes:
    return "".join(f'{{"{name}": "{value}"}}\n' for value in values).encode()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        (COLOUR, b'"red"', 1),
        (COLOUR, b'"r\\u0065d"', 1),
        (COLOUR, '"Zoë"'.encode(), 2),
        (COLOUR, b'"Zo\\u00eb"', 2),
        (COLOUR, b"null", MISSING),
        (COLOUR, b'"__missing__"', MISSING),
        (COLOUR, b'"__other__"', OTHER),
        (COLOUR, b'"green"', None),
        (COLOUR, b'"Zo\xeb"', None),
        (COLOUR, b'"red', None),
        (COLOUR, b"red", None),
        (COLOUR, b"{}", None),
        (COLOUR, b"[]", None),
        (COLOUR, b"", None),
        (CITY, b'"bern"', 1),
        (CITY, b'"thun"', OTHER),
        (CITY, b'"3"', 0),
        (CITY, b"3", 0),
        (CITY, b"3.0", 0),
        (CITY, b'"3.0"', 0),
        (CITY, b"30e-1", 0),
        (CITY, b"true", 2),
        (CITY, b"false", OTHER),
        (CITY, b"17", OTHER),
        (CITY, b"017", None),
        (CITY, b'"a\x01"', None),
        (CITY, b'"\\q"', None),
        (CITY, b'"\\ud800"', None),
        (WHOLE, b"2", 2),
        (WHOLE, b"-1", 0),
        (WHOLE, b"-0", 1),
        (WHOLE, b"2.000", 2),
        (WHOLE, b'"0"', 1),
        (WHOLE, b"7", None),
        (SIZE, b"-1", 0),
        (SIZE, b"-1.0000000000000002", None),
        (SIZE, b"-0.999999999999999", 1),
        (SIZE, b"-1.000000000000001", 0),
        (SIZE, b"0.1", 1),
        (SIZE, b"1E-1", 1),
        (SIZE, b"0.10000000000000001", None),
        (SIZE, b"0.2", 2),
        (SIZE, b"0.30000000000000004", None),
        (SIZE, b"0.3000000000000001", 3),
        (SIZE, b"1e+20", 3),
        (SIZE, b"123456789012345678", 3),
        (SIZE, b"1e200", 4),
        (SIZE, b"0e999", None),
        (SIZE, b"1e400", None),
        (SIZE, b"1234567890123456789012", None),
        (SIZE, b"01", None),
        (SIZE, b"1.", None),
        (SIZE, b"-", None),
        (SIZE, b"1e", None),
        (SIZE, b"1x", None),
        (SIZE, b'"0.2"', 2),
        (SIZE, b'"wide"', None),
        (SIZE, b"null", MISSING),
    ],
)
def test_values_have_the_codes_of_the_library_or_none(variable, value, expected):
    assert code(variable, value, is_unicode=value.isascii() or value != b'"Zo\xeb"') == expected


@pytest.mark.parametrize(
    "value",
    [b"1", b"-0.5e-3", b'"a b"', b'"\\n\\""', b"null", b"true", b"false", '"Zoë"'.encode()],
)
def test_columns_that_are_no_variables_are_passed_over(value):
    assert scan(b'{"id":%s,"colour":"red"}' % value)["colour"] == 1


@pytest.mark.parametrize(
    "value",
    [b"01", b"nul", b"tru", b"fals", b'"\x01"', b'"\\x"', b'"', b"[]", b"{}", b"1e999", b""],
)
def test_but_not_if_their_values_may_be_wrong(value):
    assert scan(b'{"id":%s,"colour":"red"}' % value) is None


def test_text_that_is_no_unicode_fits_nowhere():
    for line in (b'{"id":"\xff"}', b'{"city":"\xff"}', b'{"colour":"\xff"}'):
        assert scan(line, is_unicode=False) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"colour":"red","colour":"red"}',
        b'{"colour":"red"}{"colour":"red"}',
        b'{"colour":"red"} x',
        b'{"colour":"red",}',
        b'{,"colour":"red"}',
        b'{"colour":"red" "size":1}',
        b'{"colour" "red"}',
        b'{"colour":"red"',
        b'{"shape":"round"}',
        b'{"colou":"red"}',
        b'{"c\\u006flour":"red"}',
        b"[]",
        b"{",
        b'"colour"',
    ],
)
def test_lines_that_are_not_quite_right_do_not_fit(line):
    assert scan(line) is None


def test_fields_may_come_in_any_order_and_be_absent():
    found = scan(b' { "size" : 5 ,\t"colour":"blue" } \r')
    assert found == {"city": 4, "colour": 0, "size": 3, "whole": 4}


def test_an_absent_field_does_not_fit_where_missing_values_are_rejected():
    strict = Schema([COLOUR, WHOLE], missing=MissingPolicy.REJECT)
    assert scan(b'{"colour":"red"}', strict) is None
    assert scan(b'{"colour":"red","whole":null}', strict) is None
    assert scan(b'{"colour":"red","whole":0}', strict) == {"colour": 1, "whole": 1}


def test_many_values_do_not_make_it_grow():
    found = Scanner(SCHEMA)
    n_tokens = len(found._tokens.starts)
    for part in range(50):
        data = "".join(f'{{"whole": {n}.0, "city": "{n}.0"}}\n' for n in range(part, part + 100))
        found.scan(data.encode(), True)
    assert len(found._tokens.starts) == n_tokens
    assert len(found._refused) <= scanner._MAX_REFUSED
    assert found._tokens.text.size < 100_000
    assert scan(b'{"whole": 2}')["whole"] == 2


WORDS = ["", "x", "seven b", "eight by", "nine byte", "a" * 14, "a" * 15, "a" * 14 + "b", "Zoë" * 9]
LAYOUTS = ['{"word":"%s"}', '{"word": "%s"}', '{ "word" :\t"%s" }', '{"word":' + " " * 80 + '"%s"}']


@pytest.mark.parametrize("layout", LAYOUTS)
def test_texts_of_any_length_are_known_wherever_they_stand(layout):
    found = Scanner(Schema([Variable("word", CATEGORICAL, tuple(WORDS))]))
    for end in ("\n" * 100, "\n", ""):
        data = "\n".join(layout % word for word in WORDS * 3) + end
        scanned = found.scan(data.encode(), True)
        assert scanned.fits.all()
        assert scanned.codes.tolist() == [list(range(len(WORDS))) * 3]


@pytest.mark.parametrize("value", ["eight b", "eight by!", "nine bytE", "a" * 13, "a" * 16, 'x\\"'])
def test_texts_that_begin_like_known_ones_do_not_fit(value):
    found = Scanner(Schema([Variable("word", CATEGORICAL, tuple(WORDS))]))
    words = ["x", value, *["x"] * 9]
    data = "".join(f'{{"word":"{word}"}}\n' for word in words)
    assert found.scan(data.encode(), True).fits.tolist() == [True, False] + [True] * 9


def test_records_may_be_laid_out_differently_from_one_to_the_next():
    layouts = [
        b'{"colour":"red","city":"bern","size":0.2,"id":7}',
        b'{"colour":"red", "city":"bern","size":0.2}',
        b'{"colour" :"red","size":0.2,"city":"bern"}',
        b'{"size":0.2,"colour":"red","city":"bern"}',
    ]
    found = Scanner(SCHEMA).scan(b"\n".join(layouts * 5), True)
    assert found.fits.all()
    assert set(map(tuple, found.codes.T.tolist())) == {(1, 1, 2, 4)}


@pytest.mark.parametrize(
    "line",
    [
        b'{"colour":"red","city" "bern"}',
        b'{"colour":"red";"city":"bern"}',
        b'{"colour":"red","citY":"bern"}',
        b'{"colour":"red","city":"bern"',
        b'{"colour":"red","city":"bern","city":"bern"}',
        b'["colour":"red","city":"bern"}',
    ],
)
def test_a_line_that_is_nearly_like_those_before_does_not_fit(line):
    good = b'{"colour":"red","city":"bern"}'
    found = Scanner(SCHEMA).scan(b"\n".join([good, good, line, good, good, good]), True)
    assert found.fits.tolist() == [True, True, False, True, True, True]


def test_a_text_may_have_many_more_lines_than_the_one_before():
    found = Scanner(SCHEMA)
    long = b'{"id":"%s","colour":"red"}\n' % (b"x" * 200)
    for n_long, n_short in ((9, 0), (0, 500), (9, 1), (1, 300)):
        data = long * n_long + b"\n" + b'{"colour":"red"}\n' * n_short
        scanned = found.scan(data, True)
        assert scanned.codes.shape[1] == len(scanned.fits) == n_long + n_short
        assert scanned.fits.all()
        assert scanned.codes.flags.c_contiguous


class TestDecoder:
    @pytest.fixture
    def decoder(self):
        decoder = Decoder(TableFormat.NDJSON, max_record_bytes=100)
        decoder.use_schema(Schema([COLOUR]))
        return decoder

    def kinds(self, decoder: Decoder, values: list[str]) -> list[type]:
        decoded = decoder.decode(chunk(lines(values)))
        assert decoded.n_rows == len(values)
        return [type(batch) for batch in decoded.batches]

    def test_lines_become_codes(self, decoder):
        (table,) = decoder.decode(chunk(lines(["red", "blue"]))).batches
        assert isinstance(table, EncodedTable)
        assert table.codes.tolist() == [[1, 0]]
        assert table.codes.flags.c_contiguous

    def test_items_of_an_array_do_too(self, decoder):
        data = b'[{"colour":"red"},\n {"colour":\n"blue"}]'
        (table,) = decoder.decode(chunk(data, TableFormat.JSON)).batches
        assert table.codes.tolist() == [[1, 0]]

    def test_something_new_stands_between_the_codes(self, decoder):
        data = lines(["red"] * 9 + ["green"] + ["blue"] * 8)
        first, new, last = decoder.decode(chunk(data)).batches
        assert (first.codes.shape[1], last.codes.shape[1]) == (9, 8)
        assert new.to_pylist() == [{"colour": "green"}]

    def test_bad_records_are_taken_out(self, decoder):
        rows = [b'{"colour":"red"}'] * 20
        rows[3], rows[15] = b"oops", b'{"colour":"' + b"x" * 100 + b'"}'
        decoded = decoder.decode(chunk(b"\n".join(rows)))
        (table,) = decoded.batches
        assert table.codes.tolist() == [[1] * 18]
        assert [found.place for found in decoded.rejected] == ["3@51", "15@243"]
        assert [found.reason.value for found in decoded.rejected] == ["not_json", "too_large"]

    def test_it_rests_longer_and_longer_while_most_lines_do_not_fit(self, decoder, monkeypatch):
        n_scans = 0
        scan = Scanner.scan

        def counted(*args: object) -> object:
            nonlocal n_scans
            n_scans += 1
            return scan(*args)

        monkeypatch.setattr(Scanner, "scan", counted)
        after = []
        for _ in range(20):
            assert EncodedTable not in self.kinds(decoder, [f"new {n}" for n in range(20)])
            after.append(n_scans)
        assert [after.index(n) for n in range(1, n_scans + 1)] == [0, 2, 5, 10, 19]

    def test_one_good_chunk_ends_the_doubling(self, decoder):
        odd = [f"new {number}" for number in range(20)]
        self.kinds(decoder, odd)
        assert self.kinds(decoder, ["red"] * 3) != [EncodedTable]
        assert self.kinds(decoder, ["red"] * 3) == [EncodedTable]

    def test_many_new_things_apart_are_left_to_others(self, decoder):
        values = (["red"] * 9 + ["green"]) * 20
        assert EncodedTable not in self.kinds(decoder, values)

    def test_another_schema_is_used_from_the_next_chunk_on(self, decoder):
        self.kinds(decoder, ["red"])
        decoder.use_schema(Schema([Variable("colour", CATEGORICAL, ("red",))]))
        (table,) = decoder.decode(chunk(lines(["red"]))).batches
        assert table.codes.tolist() == [[0]]
        decoder.use_schema(None)
        assert EncodedTable not in self.kinds(decoder, ["red"])

    def test_there_are_no_codes_where_times_are_needed(self):
        decoder = Decoder(TableFormat.NDJSON, max_record_bytes=100, time_column="t")
        decoder.use_schema(Schema([COLOUR]))
        decoded = decoder.decode(chunk(b'{"colour": "red", "t": 1}\n'))
        assert (decoded.n_rows, EncodedTable in map(type, decoded.batches)) == (1, False)

    @pytest.mark.slow
    def test_a_schema_may_be_given_while_another_thread_decodes(self, decoder):
        schemas = [Schema([COLOUR]), Schema([Variable("colour", CATEGORICAL, ("red",))]), None]
        done = threading.Event()

        def change() -> None:
            number = 0
            while not done.is_set():
                decoder.use_schema(schemas[number % 3])
                number += 1

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(300):
                for batch in decoder.decode(chunk(lines(["red", "red"]))).batches:
                    if isinstance(batch, EncodedTable):
                        expected = encode({"colour": ["red"] * 2}, batch.schema)
                        np.testing.assert_array_equal(batch.codes, expected.codes)
        finally:
            done.set()
            thread.join()
