"""A manifest: which states make a checkpoint, where they are, and what else belongs to it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from driftbn_service.checkpoint.errors import DamagedError, NewerVersionError

MAGIC: Final = b"driftbn-checkpoint\n"
VERSION: Final = 1

# Magic, version, length of the JSON; then the SHA-256 of these and the JSON, then the JSON. This
# frame is the same in every version, so a version is believed only if the checksum is right.
_HEAD: Final = struct.Struct(f">{len(MAGIC)}sIQ")
_DIGEST_BYTES: Final = hashlib.sha256().digest_size


class Place(NamedTuple):
    """Where a state is stored."""

    segment: int
    offset: int
    length: int
    checksum: str


@dataclass(frozen=True)
class Manifest:
    """One checkpoint.

    Parameters
    ----------
    number
        Running number.
    time
        Seconds since the epoch when it was made.
    meta
        What the user of the directory wants to know again, as JSON.
    places
        Where the state of each key is stored.

    Examples
    --------
    >>> manifest = Manifest(7, 0.0, '{"position":5}', {"a": Place(1, 16, 99, "0f")})
    >>> Manifest.from_bytes(manifest.to_bytes(), Path("x")) == manifest
    True
    """

    number: int
    time: float
    meta: str
    places: Mapping[str, Place] = field(repr=False)

    @cached_property
    def segments(self) -> frozenset[int]:
        """The segments in which its states are."""
        return frozenset(place.segment for place in self.places.values())

    def to_bytes(self) -> bytes:
        """Return it as the content of a file."""
        rows = (row_of(key, place) for key, place in self.places.items())
        return manifest_bytes(self.number, self.time, self.meta, rows)

    @classmethod
    def from_bytes(cls, data: bytes, path: Path) -> Manifest:
        """Return the manifest whose ``to_bytes`` is the content of a file.

        Raises
        ------
        DamagedError
            If it is the content of no manifest, or not all of it.
        NewerVersionError
            If a later driftbn wrote it.
        """
        values = json.loads(_body(data, path))
        try:
            places = {key: Place(*place) for key, *place in values["states"]}
            return cls(values["number"], values["time"], meta_text(values["meta"]), places)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(path, f"it is no manifest: {error!r}") from error


def manifest_bytes(number: int, time: float, meta: str, rows: Iterable[bytes]) -> bytes:
    """Return the content of a manifest's file, with rows by ``row_of``."""
    head = f'{{"number":{number},"time":{time!r},"meta":{meta},"states":['.encode()
    body = b"".join((head, b",".join(rows), b"]}"))
    frame = _HEAD.pack(MAGIC, VERSION, len(body))
    digest = hashlib.sha256(frame)
    digest.update(body)
    return b"".join((frame, digest.digest(), body))


def row_of(key: str, place: Place) -> bytes:
    """Return the place of a state as JSON."""
    return _json([key, *place]).encode()


def meta_text(meta: Mapping[str, Any], encoded: Mapping[str, bytes] | None = None) -> str:
    """Return what belongs to a checkpoint as JSON; every number is read back as it was.

    Parameters
    ----------
    meta
        Values by name.
    encoded
        Further ones that are JSON already.

    Raises
    ------
    TypeError, ValueError
        If there are other things in it than text, numbers, booleans, ``None``, dicts and lists.
    """
    text = _json(meta)
    further = [f"{_json(name)}:{value.decode()}" for name, value in (encoded or {}).items()]
    return f"{{{','.join([text[1:-1], *further] if meta else further)}}}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _body(data: bytes, path: Path) -> bytes:
    start = _HEAD.size + _DIGEST_BYTES
    if len(data) < start:
        raise DamagedError(path, f"it is cut off: there are {len(data)} bytes")
    magic, version, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise DamagedError(path, "it is no manifest: it does not begin like one")
    body = data[start:]
    if len(body) != length:
        raise DamagedError(path, f"it should have {start + length} bytes and has {len(data)}")
    digest = hashlib.sha256(data[: _HEAD.size])
    digest.update(body)
    if digest.digest() != data[_HEAD.size : start]:
        raise DamagedError(path, "its checksum is wrong")
    if version != VERSION:
        raise NewerVersionError(path, version, VERSION)
    return body
