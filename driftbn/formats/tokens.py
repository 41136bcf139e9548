r"""Words, numbers and marks of a BIF text, and the rule by which names are quoted.

A name is written bare if it consists of ASCII letters, digits and ``_ . + - < > = %`` and is no
keyword. Any other name stands in double quotes, in which a backslash, a quote, a line feed, a
carriage return and a tab are written ``\\``, ``\"``, ``\n``, ``\r`` and ``\t``. In reading, a
backslash before any other character stands for itself, and bare words may hold anything but
white space, quotes, marks and the start of a comment.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from driftbn.errors import FormatError

KEYWORDS = frozenset(
    ("network", "variable", "probability", "property", "type", "discrete", "table", "default")
)

_BARE = re.compile(r"[A-Za-z0-9_.+<>=%-]+", re.ASCII)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {written: plain for plain, written in _ESCAPES.items()}
_TOKEN = re.compile(
    r"""
    (?P<space>   \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<quoted>  "(?:[^"\\]|\\.)*" )
  | (?P<mark>    [{}()\[\]|,;] )
  | (?P<word>    (?: (?!//|/\*) [^\s{}()\[\]|,;"] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class Kind(Enum):
    """What a token is."""

    WORD = auto()
    """A bare word: a keyword, a name or a number."""
    QUOTED = auto()
    """A name in quotes; never a keyword."""
    MARK = auto()
    """One of ``{ } ( ) [ ] | , ;``."""
    END = auto()
    """The end of the text."""


class Token(NamedTuple):
    """One token and the line it begins on, counted from 1."""

    kind: Kind
    text: str
    line: int

    def is_mark(self, marks: str) -> bool:
        """Whether this is one of these marks."""
        return self.kind is Kind.MARK and self.text in marks

    def is_word(self, word: str) -> bool:
        """Whether this is this keyword."""
        return self.kind is Kind.WORD and self.text == word

    @property
    def shown(self) -> str:
        """The token as an error message shows it."""
        return "the end of the text" if self.kind is Kind.END else repr(self.text[:60])


def tokenize(text: str) -> list[Token]:
    """Split a BIF text into tokens, the last of which is the end.

    Raises
    ------
    FormatError
        If a quote or a comment is not closed.

    Examples
    --------
    >>> [token.text for token in tokenize('variable "a b" { } // note')]
    ['variable', 'a b', '{', '}', '']
    """
    tokens: list[Token] = []
    place, line = 0, 1
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            what = "quoted name" if text[place] == '"' else "comment"
            raise at_line(line, f"a {what} begins here and is never closed")
        piece = found.group()
        if found.lastgroup == "quoted":
            tokens.append(Token(Kind.QUOTED, _unquoted(piece), line))
        elif found.lastgroup != "space":
            kind = Kind.MARK if found.lastgroup == "mark" else Kind.WORD
            tokens.append(Token(kind, piece, line))
        line += piece.count("\n")
        place = found.end()
    tokens.append(Token(Kind.END, "", line))
    return tokens


def quoted(name: str) -> str:
    r"""Write a name so that it reads back as itself.

    Examples
    --------
    >>> quoted("LOW")
    'LOW'
    >>> print(quoted('5" disk\n'), quoted("table"))
    "5\" disk\n" "table"
    """
    if _BARE.fullmatch(name) and name not in KEYWORDS:
        return name
    return '"' + "".join(_ESCAPES.get(char, char) for char in name) + '"'


def at_line(line: int, problem: str) -> FormatError:
    """Return the error that names a line."""
    return FormatError(f"line {line}: {problem}")


def _unquoted(piece: str) -> str:
    return re.sub(
        r"\\.", lambda pair: _UNESCAPES.get(pair[0], pair[0]), piece[1:-1], flags=re.DOTALL
    )
