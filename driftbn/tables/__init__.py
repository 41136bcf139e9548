"""From any table to small-integer codes: read, infer a schema, encode.

What a cell is gets decided in ``read`` and ``cells`` alone, and by the cell itself or the type of
its column, never by which rows came together:

- a boolean is ``true`` or ``false``;
- a number of any type is a number; a whole one is one category however written, so ``3``, ``3.0``
  and ``Decimal("3")`` are ``3``, and any other is its shortest exact decimal text;
- text stands as it is, spaces and case included, so ``"3"`` is one category with ``3``, and
  ``"007"`` is not ``7``; only the usual text of a whole float loses its ``.0``. In a field of
  numbers the text of a number falls into the bin of that number;
- bytes are text in UTF-8, with backslash escapes for what is not UTF-8, and a UUID is its text;
- values of a declared category (of pandas, or of an Arrow dictionary) are texts;
- dates, times and durations are times: never a variable, and not allowed among other values;
- ``None``, NaN, NaT, ``pandas.NA`` and Arrow nulls are missing. Empty text is text: formats where
  an empty cell says that there is none, such as CSV, give null;
- anything else, such as a list or a dict, is no value, and its row is refused.

Texts ``__missing__`` and ``__other__`` in the data mean what they say. A column whose cells are all
booleans, all whole numbers, or all numbers is of that kind; any other mix is of categories, by the
text of each cell.
"""
