"""Where raw batches of a stream become codes, whatever they are made of and however cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from driftbn.config import DEFAULT_SIZE, ErrorPolicy, MonitorConfig
from driftbn.encoding.inference import infer_schema
from driftbn.encoding.tables import Table
from driftbn.errors import DataError, FormatError
from driftbn.intake.bad_rows import bad_rows, located, shifted
from driftbn.intake.batches import is_empty
from driftbn.intake.encoded import Encoded, Source, blank
from driftbn.intake.rows import Rows, read_rows
from driftbn.pending import PendingRows
from driftbn.records import EncodedTable, encode
from driftbn.schema import MissingPolicy, Schema

_VERSION: Final = 1


class Intake:
    """Takes the batches of a stream and returns them as codes.

    Until the schema is known, rows are held. It is inferred from the first ``row_limit`` rows that
    can be read, for time windows from 5000 at most: from exactly these, so that neither the schema
    nor the codes depend on how the stream is cut into batches. Constant and duplicate columns are
    kept as variables, because they may not stay so.

    Parameters
    ----------
    config
        The settings of the monitor.

    Examples
    --------
    >>> intake = Intake(MonitorConfig(window=3))
    >>> intake.take([{"x": "a"}, {"x": "b"}]), intake.n_pending
    (None, 2)
    >>> intake.take({"x": ["b", "a", "new"]}).codes.tolist()
    [[0, 1, 1, 0, 2]]
    >>> intake.schema["x"].labels
    ('a', 'b', '__other__', '__missing__')
    """

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        self._lenient = config.on_error is ErrorPolicy.REJECT_ROWS
        limit = config.windows.row_limit
        self._n_wanted = limit if config.windows.seconds is None else min(limit, DEFAULT_SIZE)
        self._reset()

    def _reset(self) -> None:
        self._schema = self.config.variables
        self._pending = PendingRows(self.config.schema.missing, values_win=self._lenient)
        self._times: list[float] = []  # of the rows held
        self._n_rejected = 0

    @property
    def schema(self) -> Schema | None:
        """What the codes mean; ``None`` until it is known."""
        return self._schema

    @property
    def n_rejected(self) -> int:
        """The number of rows left out because they could not be read."""
        return self._n_rejected

    @property
    def n_pending(self) -> int:
        """The number of rows held until the schema is known."""
        return self._pending.n_rows

    def take(self, batch: object) -> Encoded | None:
        """Take in a batch and return its rows as codes, after those that were held.

        Parameters
        ----------
        batch
            A pandas DataFrame, an Arrow table or record batch, a list of dicts or a dict of
            columns, with any number of rows, also none; or an ``EncodedTable`` in the schema of
            this intake, once there is one and if there is no column with event times.

        Returns
        -------
        Encoded or None
            ``None`` if no rows are left, or if they are held because the schema is not known yet.

        Raises
        ------
        DataError
            If a row cannot be read and rows are not to be left out, or if the batch as a whole is
            no table. Nothing of it is taken in.
        """
        if isinstance(batch, EncodedTable):
            return self._take_codes(batch)
        if is_empty(batch):
            return None
        if self._schema is not None and self.config.time_column is None:
            try:  # the way of nearly all batches, which goes straight to the codes
                table = encode(batch, self._schema)
                if not table.events:
                    return Encoded(table.codes, None, ())
            except DataError:
                pass
        n_given, rows = read_rows(batch, self.config)
        if self._schema is None:
            return self._hold(n_given, rows)
        encoded = self._encode(rows, self._schema)
        n_rows = 0 if encoded is None else encoded.codes.shape[1]
        self._n_rejected += n_given - n_rows
        return encoded

    def _take_codes(self, table: EncodedTable) -> Encoded | None:
        """Take in codes that were made elsewhere, without copying them."""
        schema = self._schema
        if self.config.time_column is not None:
            name = self.config.time_column
            raise DataError("codes have no event times; give the table itself", column=name)
        if schema is None:
            raise DataError("codes cannot be taken before the schema is known; give the table")
        if table.schema is not schema and table.schema != schema:
            raise DataError("codes have another schema than the monitor; encode with its own")
        if table.events:
            raise DataError("codes with events cannot be taken; give the table itself")
        table.check()
        return Encoded(table.codes, None, ()) if table.n_rows else None

    def finish(self) -> Encoded | None:
        """End the stream: infer the schema from the rows held, if any, and return their codes."""
        return self._infer(Rows(0, {}), 0) if self.n_pending else None

    def _hold(self, n_given: int, rows: Rows) -> Encoded | None:
        place = self._pending.place()
        start, encoded = 0, None
        try:
            while start < rows.n_rows and self.n_pending < self._n_wanted:
                stop = min(rows.n_rows, start + self._n_next(rows))
                self._hold_part(rows.part(start, stop), start)
                start = stop
            n_taken = self.n_pending - place.n_rows
            if self.n_pending == self._n_wanted:
                encoded = self._infer(rows.part(start, rows.n_rows), start)
                n_taken = encoded.codes.shape[1] - place.n_rows
        except BaseException:
            self._pending.roll_back(place)
            del self._times[place.n_rows :]
            raise
        self._n_rejected += n_given - n_taken
        return encoded

    def _n_next(self, rows: Rows) -> int:
        """Return how many rows may be held at once."""
        rejects = self.config.schema.missing is MissingPolicy.REJECT
        if rejects and rows.of_records and not self.n_pending:
            return 1  # the first record says which columns there are
        return self._n_wanted - self.n_pending

    def _hold_part(self, rows: Rows, offset: int) -> None:
        table = Table(rows.n_rows, rows.columns)
        try:
            self._pending.add(table)
        except DataError as error:
            if not self._lenient:
                raise shifted(error, offset) from None
            rows = rows.picked(self._pending.readable(table))
            self._pending.add(Table(rows.n_rows, rows.columns))
        if rows.times is not None:
            self._times.extend(rows.times.tolist())

    def _infer(self, rest: Rows, offset: int) -> Encoded:
        """Infer the schema from the rows held and return them and the rest as codes."""
        config = replace(self.config.schema, keep_constant=True, keep_duplicates=True)
        schema, codes = infer_schema(self._pending.table(), config)
        times = np.array(self._times) if self.config.time_column is not None else None
        encoded = Encoded(codes, times, ())
        try:
            after = self._encode(rest, schema) if rest.n_rows else None
        except DataError as error:
            raise shifted(error, offset) from None
        if after is not None:
            if times is not None and after.times is not None:
                times = np.append(times, after.times)
            source = after.source
            if source is not None:
                source = source._replace(n_before=codes.shape[1])
            both = np.hstack([codes, after.codes])
            encoded = Encoded(both, times, after.events, source)
        n_rejected = self._n_rejected
        self._reset()
        self._schema, self._n_rejected = schema, n_rejected
        return encoded

    def _encode(self, rows: Rows, schema: Schema) -> Encoded | None:
        if not rows.n_rows:
            return None
        columns = rows.columns or blank(rows.n_rows, schema)
        if not columns:
            return Encoded(np.zeros((0, rows.n_rows), np.uint8), rows.times, ())
        try:
            table = encode(columns, schema)
        except DataError as error:
            bad = bad_rows(rows, schema) if self._lenient else np.zeros(0, np.bool_)
            if not bad.any():
                raise located(error, rows, schema) from None
            return self._encode(rows.picked(np.flatnonzero(~bad)), schema)
        events = rows.events(table.events)
        source = Source(rows, schema) if events else None
        return Encoded(table.codes, rows.times, events, source)

    def state(self) -> dict[str, Any]:
        """Return all that a later ``from_state`` needs, as plain values and arrays."""
        return {
            "version": _VERSION,
            "schema": None if self._schema is None else self._schema.to_dict(),
            "n_rejected": self._n_rejected,
            "pending": self._pending.to_json(),
            "times": np.array(self._times, np.float64),
        }

    @classmethod
    def from_state(cls, config: MonitorConfig, state: Mapping[str, Any]) -> Intake:
        """Return an intake that goes on where the one that gave ``state`` stood.

        Parameters
        ----------
        config
            The settings of that intake.
        state
            What its ``state`` returned.

        Raises
        ------
        FormatError
            If it is something else, of another version, or does not fit the settings.
        """
        if state.get("version") != _VERSION:
            found = state.get("version")
            raise FormatError(f"intake state version is {found!r}: it must be {_VERSION}")
        n_rejected, times, schema = (state.get(k) for k in ("n_rejected", "times", "schema"))
        if type(n_rejected) is not int or n_rejected < 0:
            raise FormatError(f"intake state 'n_rejected' is {n_rejected!r}: it must be 0 or more")
        intake = cls(config)
        intake._n_rejected = n_rejected
        intake._schema = None if schema is None else Schema.from_dict(schema)
        intake._pending = PendingRows.from_json(
            config.schema.missing, state.get("pending"), values_win=intake._lenient
        )
        n_rows = intake.n_pending
        n_times = 0 if config.time_column is None else n_rows
        if not isinstance(times, np.ndarray) or (times.dtype, times.shape) != (float, (n_times,)):
            raise FormatError(f"intake state 'times' must be float64 of shape ({n_times},)")
        intake._times = times.tolist()
        if config.variables is not None and intake._schema != config.variables:
            raise FormatError("intake state has another schema than the settings")
        if intake._schema is not None and n_rows:
            raise FormatError("intake state holds rows, although its schema is known")
        if n_rows >= intake._n_wanted:
            raise FormatError(f"intake state holds {n_rows} rows, which do not fit the settings")
        return intake
