"""What all tables of the settings share: their strictness, and the types of their values."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo

from driftbn.errors import ConfigError

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of monitors and outlets: they become parts of addresses, files and labels."""
HTTP_PATTERN: Final = r"^https?://[^/\s]\S*$"
REDIS_PATTERN: Final = r"^(rediss?|unix)://\S+$"
KIB: Final = 1024
MIB: Final = 1024 * KIB


class Section(BaseModel):
    """A table of the settings: it cannot be changed, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        validate_default=False,
    )


def base_directory(info: ValidationInfo) -> Path:
    """Return what relative paths are relative to: the directory of the settings file."""
    context = info.context
    return Path() if context is None else Path(context["base"])


def _path(path: Path, info: ValidationInfo) -> Path:
    return base_directory(info) / path


def _pattern(pattern: str, info: ValidationInfo) -> str:
    base = base_directory(info)
    if base == Path():
        return pattern
    # A bracket or star in the name of the directory is not meant as a pattern.
    prefix = glob.escape(str(base)) if glob.has_magic(pattern) else str(base)
    return pattern if Path(pattern).is_absolute() else str(Path(prefix) / pattern)


def _directory(path: Path) -> Path:
    there = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
    if os.path.lexists(there) and not os.path.isdir(there):
        raise ConfigError("", str(path), f"a directory or one that can be made; {there} is a file")
    return path


def _own_file(path: Path) -> Path:
    _directory(path.parent)
    if os.path.isdir(path):
        raise ConfigError("", str(path), "a file, and not a directory")
    return path


def _address(url: str) -> str:
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise ConfigError("", url, "an address with a host and a port that is a number") from error
    return url


# A whole number in quotes is text; refusing it here beats guessing.
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Integer: TypeAlias = Annotated[int, Field(strict=True)]
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(strict=True, ge=1)]
Bytes: TypeAlias = Annotated[int, Field(strict=True, ge=KIB)]
Seconds: TypeAlias = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1)]
Level: TypeAlias = Annotated[float, Field(strict=True, gt=0, lt=1)]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
Name: TypeAlias = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
HttpUrl: TypeAlias = Annotated[
    str, StringConstraints(pattern=HTTP_PATTERN), AfterValidator(_address)
]
RedisUrl: TypeAlias = Annotated[
    str, StringConstraints(pattern=REDIS_PATTERN), AfterValidator(_address)
]
Location: TypeAlias = Annotated[Path, AfterValidator(_path)]
"""A path; a relative one is relative to the directory of the settings file."""
Directory: TypeAlias = Annotated[Location, AfterValidator(_directory)]
"""A directory, or one that can be made."""
OwnFile: TypeAlias = Annotated[Location, AfterValidator(_own_file)]
"""A file, or one that can be made."""
Pattern: TypeAlias = Annotated[str, StringConstraints(min_length=1), AfterValidator(_pattern)]
"""A path or glob, relative to the same."""
