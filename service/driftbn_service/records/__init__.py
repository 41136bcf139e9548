"""Bytes to rows: the one place where records are read, for sources, HTTP and every command.

What a cell is follows from the cell alone, in whichever format, chunk, body or command it comes:

- A **number** is a JSON number, a number of Parquet or Arrow, or a CSV cell written like one:
  ``3``, ``-2.5``, ``1e3``. Whole numbers of 64 bits keep all their digits.
- A **boolean** is one of JSON, Parquet or Arrow; it means the same as the text ``true`` or
  ``false``, which it is in CSV.
- **Text** is everything else. ``3``, ``3.0`` and ``"3"`` are one category, but ``"007"`` is not
  ``7``: in CSV, too, a leading zero makes text, as in postal codes.
- A **date** or time is one in Parquet and Arrow, by the type of its column, and is no variable. In
  JSON and CSV it is text, but in the field of event times, where numbers count seconds.
- An **object** in a record is taken apart, four deep at most: ``{"a": {"b": 1}}`` has a field
  ``a.b``. A list, a map and a field without a name are no value.
- **Missing** are a field that a record does not have, ``null``, NaN of Parquet and Arrow, and a
  CSV cell that is empty or ``NA``, ``NULL``, ``NaN`` and the like without quotes. ``""`` is text.

A record that cannot be read is set aside with its place and the reason; those beside it are not
harmed. Where a column holds numbers and text, its cells stay what they are (``rows``).

From the outside in: ``formats`` names what there is and finds whole records however a text arrives,
``files`` reads a file or what a command is given, ``decoder`` makes rows of them by ``text``,
``columns`` or, as the fast path of JSON lines in a schema that is known, the compiled ``scanner``.
``rows`` are what comes out; ``sizes`` tells what a file becomes in memory before anything is
allocated.
"""

from driftbn_service.records.decoder import Decoder, warm_up
from driftbn_service.records.rows import Decoded, Rejected, RejectReason, Rows

__all__ = ["Decoded", "Decoder", "RejectReason", "Rejected", "Rows", "warm_up"]
