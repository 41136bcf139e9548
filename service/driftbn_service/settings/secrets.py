"""Secrets: given as they are, or in a file of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pydantic import SecretStr, ValidationInfo

from driftbn.errors import ConfigError

MAX_SECRET_BYTES: Final = 64 * 1024
"""A larger file is no secret but a mistake."""


SECRETS: Final = frozenset(("token", "password"))
"""Settings whose values are never shown; each has a setting for a file beside it."""
HIDDEN: Final = "***"
"""What stands for a secret within a value."""

_SECRET_KEY: Final = re.compile(r"pass|secret|token|auth|cookie|credential|key|pem", re.I)
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/@\s]*):[^/\s]*@")


class SecretFileError(ConfigError):
    """The file of a secret cannot be used, or is given beside the secret itself."""


def secret_of(name: str) -> Callable[[SecretStr | None, ValidationInfo], SecretStr | None]:
    """Return the check of a secret: as given, or from the file that ``<name>_file`` names.

    It is called while settings are validated, for a field that stands after that of the file. It
    raises a ``SecretFileError`` if both are given, or the file is missing, unreadable, empty or no
    text.
    """
    of_file = f"{name}_file"

    def checked(given: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        path = info.data.get(of_file)
        if path is None:
            return given
        if given is not None:
            raise SecretFileError(of_file, str(path), f"left out where {name} is given")
        return SecretStr(_read(of_file, path))

    return checked


def without_password(text: str) -> str:
    """Hide the password in an address.

    Examples
    --------
    >>> without_password("redis://user:secret@host:6379/0")
    'redis://user:***@host:6379/0'
    """
    return _URL_PASSWORD.sub(rf"\1:{HIDDEN}@", text)


def is_secret(key: str) -> bool:
    """Return whether an option or header of that name is better not shown."""
    return _SECRET_KEY.search(key) is not None


def _read(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        problem = f"a file that can be read ({error.strerror})"
        raise SecretFileError(name, str(path), problem) from error
    except UnicodeError as error:
        raise SecretFileError(name, str(path), "a file of text in UTF-8") from error
    if len(data) > MAX_SECRET_BYTES:
        allowed = f"a file of at most {MAX_SECRET_BYTES} bytes"
        raise SecretFileError(name, str(path), allowed)
    if not text:
        raise SecretFileError(name, str(path), "a file with the secret in it; it is empty")
    return text
