import threading

import numpy as np
import pytest
from driftbn_service.records import Decoder, scanner, warm_up
from driftbn_service.records.scan_kernel import count_names, cut_items, find_lines, scan
from driftbn_service.records.scanner import Scanner

from driftbn import Schema
from tests.decoding import TableFormat, chunk
from tests.encoded import EncodedTable, Exclusion, ExclusionReason, Variable, VariableKind, encode

CATEGORICAL, NUMERIC = VariableKind.CATEGORICAL, VariableKind.NUMERIC
COLOUR = Variable("colour", CATEGORICAL, ("blue", "red", "Zoë"))
CITY = Variable("city", CATEGORICAL, ("3", "bern", "true"), pooled=True)
SIZE = Variable("size", NUMERIC, edges=(-1.0, 0.1, 0.30000000000000004, 1e20))
WHOLE = Variable("whole", VariableKind.INTEGER, ("-1", "0", "2"))
ID = Exclusion("id", ExclusionReason.ID_LIKE, "")
SCHEMA = Schema([COLOUR, CITY, SIZE, WHOLE], [ID])


def lines(values: list[str], name: str = "colour") -> bytes:
    return "".join(f'{{"{name}": "{value}"}}\n' for value in values).encode()


def test_many_values_do_not_make_it_grow():
    found = Scanner(SCHEMA)
    n_tokens = len(found._tokens.starts)
    for part in range(50):
        data = "".join(f'{{"whole": {n}.0, "city": "{n}.0"}}\n' for n in range(part, part + 100))
        found.scan(data.encode(), True)
    assert len(found._tokens.starts) == n_tokens
    assert len(found._refused) <= scanner._MAX_REFUSED
    assert found._tokens.text.size < 100_000
    assert found.scan(b'{"whole": 2}', True).codes[3].tolist() == [2]


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
        decoder = Decoder(max_record_bytes=100)
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
        decoder = Decoder(max_record_bytes=100, time_column="t")
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


def test_nothing_is_compiled_after_warming_up():
    warm_up()
    kernels_used = [find_lines, cut_items, count_names, scan]
    before = [len(kernel.signatures) for kernel in kernels_used]
    assert all(before)
    used = Decoder(max_record_bytes=100)
    used.use_schema(Schema([Variable("a", VariableKind.CATEGORICAL, ("x",))]))
    used.decode(chunk(b'{"a":"x"}\n{"a":1}\noops\n'))
    used.decode(chunk(b'[{"a":"x"}]', TableFormat.JSON))
    used.decode(chunk(b"a\n1\n", TableFormat.CSV))
    assert [len(kernel.signatures) for kernel in kernels_used] == before
