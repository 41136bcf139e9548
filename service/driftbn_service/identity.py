"""The identity of a state directory, so that no two events of different states share an id."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4, uuid5

from driftbn_service.checkpoint.files import descriptor_of, replace_file
from driftbn_service.errors import StateError

logger = logging.getLogger(f"driftbn.{__name__}")

FILE: Final = "identity.json"


@dataclass(frozen=True)
class Identity:
    """Whose events these are.

    Parameters
    ----------
    instance
        Made at random with the state directory.
    resets
        How often each stream was begun anew; never is 0.

    Examples
    --------
    >>> one, other = Identity(UUID(int=1)), Identity(UUID(int=2))
    >>> one.origin("orders") == Identity(UUID(int=1)).origin("orders")
    True
    >>> len({each.origin("orders") for each in (one, other, one.after_reset("orders"))})
    3
    """

    instance: UUID = field(default_factory=uuid4)
    resets: Mapping[str, int] = field(default_factory=dict)

    def origin(self, stream: str) -> UUID:
        """Return the namespace of the ids of a stream's events."""
        return uuid5(self.instance, json.dumps([stream, self.resets.get(stream, 0)]))

    def after_reset(self, stream: str) -> Identity:
        """Return the identity once a stream has begun anew."""
        return replace(self, resets={**self.resets, stream: self.resets.get(stream, 0) + 1})

    def to_json(self) -> bytes:
        """Return the content of the file, with a checksum."""
        values = {"instance": str(self.instance), "resets": dict(self.resets)}
        return json.dumps({**values, "checksum": _checksum(values)}).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Identity:
        """Return what ``to_json`` was made of.

        Raises
        ------
        ValueError
            If it is something else.
        """
        values = json.loads(data)
        if not isinstance(values, dict) or values.pop("checksum", None) != _checksum(values):
            raise ValueError("the checksum does not fit")
        return cls(UUID(values["instance"]), values["resets"])


def has_identity(state_dir: Path) -> bool:
    """Return whether a state directory has been used before."""
    return (state_dir / FILE).exists()


def identity_of(state_dir: Path) -> Identity:
    """Return the identity of a state directory; it is made if there is none yet.

    Processes that share the directory share the identity, whichever of them makes it.

    Raises
    ------
    StateError
        If it cannot be read or written.
    """
    with _alone(state_dir) as path:
        return _read(path) or _written(path, Identity())


def count_reset(state_dir: Path, stream: str) -> Identity:
    """Count one more reset of a stream and return the identity since then; durable on return.

    Raises
    ------
    StateError
        If that cannot be written.
    """
    with _alone(state_dir) as path:
        return _written(path, (_read(path) or Identity()).after_reset(stream))


@contextmanager
def _alone(state_dir: Path) -> Iterator[Path]:
    """Give the file while no other process reads or writes it."""
    try:
        with descriptor_of(state_dir, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield state_dir / FILE
    except OSError as error:
        raise StateError(state_dir, error.strerror or str(error)) from error


def _read(path: Path) -> Identity | None:
    """Return the identity, if there is one that can be read."""
    try:
        return Identity.from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        logger.error(
            "%s is damaged (%s) and made anew: events from now on carry other ids", path, error
        )
        return None


def _written(path: Path, identity: Identity) -> Identity:
    replace_file(path, identity.to_json())
    return identity


def _checksum(values: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())
