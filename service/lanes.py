"""A lane: rows in their order to monitors, and all they come to as one checkpoint."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driftbn.records import EncodedTable
from driftbn.schema import Schema
from service.checkpoint import CheckpointDirectory
from service.cloud_events import publication_of
from service.events import Publication
from service.keys import part_by_key
from service.monitors import MonitorSet
from service.plain_json import encoded
from service.settings import StreamSettings
from service.sources.base import Position

logger = logging.getLogger(f"driftbn.{__name__}")

_VERSION: Final = 1


@dataclass(frozen=True)
class Taken:
    """What became of the rows of one piece.

    Parameters
    ----------
    n_rows
        Rows that went to a monitor.
    n_failed
        Rows of monitors that have failed and take none.
    refused
        Rows that no monitor can take, by reason.
    publications
        The windows that they completed.
    """

    n_rows: int
    n_failed: int
    refused: Mapping[str, int]
    publications: tuple[Publication, ...]


class Lane:
    """The monitors of one lane and the place up to which they have read.

    Only one thread may use it. Nothing that ``take`` returns may be shown to anybody before
    ``commit`` has returned it too.

    Parameters
    ----------
    stream
        Settings of the stream.
    name
        Of the lane.
    directory
        Its checkpoints, opened.
    meta
        What the checkpoint said that it was opened with; ``None`` for a new lane.

    Raises
    ------
    ChangedSettingsError
        If the checkpoint was made with other settings.
    """

    def __init__(
        self,
        stream: StreamSettings,
        name: str,
        directory: CheckpointDirectory,
        meta: Mapping[str, Any] | None,
    ) -> None:
        self.stream = stream
        self.name = name
        self.directory = directory
        meta = meta or {}
        self.position: Position | None = meta.get("position")
        self.decoder_state: Mapping[str, Any] | None = meta.get("decoder")
        self._failed: dict[str, str] = dict(meta.get("failed", {}))
        self._outbox = [Publication.from_dict(item) for item in meta.get("outbox", ())]
        self._monitors = MonitorSet(
            stream.name, stream.monitor_config(), directory, stream.resident, stream.max_keys
        )
        self._monitors.check()
        self._n_uncommitted = 0

    @property
    def monitors(self) -> MonitorSet:
        """The monitors by key."""
        return self._monitors

    @property
    def failed(self) -> Mapping[str, str]:
        """Keys of the monitors that have failed, each with the reason."""
        return self._failed

    @property
    def n_uncommitted(self) -> int:
        """Rows taken since the last checkpoint."""
        return self._n_uncommitted

    @property
    def has_reports(self) -> bool:
        """Whether there are windows to publish."""
        return bool(self._outbox)

    def schema(self) -> Schema | None:
        """Return what the columns are where there is one monitor only and it knows them."""
        return None if self.stream.key is not None else self._monitors.schema("")

    def take(
        self, batches: Iterable[Any], position: Position, decoder_state: Mapping[str, Any]
    ) -> Taken:
        """Give the rows of one piece to their monitors.

        Parameters
        ----------
        batches
            Rows in their order.
        position
            Where to go on after them.
        decoder_state
            What the decoder must know then.
        """
        n_rows = n_failed = 0
        refused: Counter[str] = Counter()
        publications: list[Publication] = []
        for batch in batches:
            for key, rows, n in self._parted(batch):
                if key is None:
                    refused["no_key"] += n
                elif key in self._failed:
                    n_failed += n
                elif key not in self._monitors and self._monitors.is_full:
                    refused["too_many_keys"] += n
                else:
                    found = self._update(key, rows)
                    n_rows += n if found is not None else 0
                    n_failed += n if found is None else 0
                    publications.extend(found or ())
        self.position, self.decoder_state = position, decoder_state
        self._outbox.extend(publications)
        self._n_uncommitted += n_rows
        return Taken(n_rows, n_failed, refused, tuple(publications))

    def commit(self) -> tuple[Publication, ...]:
        """Write a checkpoint and return the windows that may now be published.

        Raises
        ------
        OSError
            If the disk is full or broken. Nothing is lost; call it again.
        """
        self._monitors.save()
        outbox = encoded([publication.to_dict() for publication in self._outbox])
        self.directory.commit(
            {
                "version": _VERSION,
                "stream": self.stream.name,
                "lane": self.name,
                "position": self.position,
                "decoder": self.decoder_state,
                "failed": self._failed,
            },
            {"outbox": outbox},
        )
        published, self._outbox = tuple(self._outbox), []
        self._n_uncommitted = 0
        return published

    def leftover(self) -> tuple[Publication, ...]:
        """Return once the windows of the checkpoint that the lane began with.

        It is not known whether they were published; publishing again does no harm.
        """
        published, self._outbox = tuple(self._outbox), []
        return published

    @property
    def released(self) -> Position | None:
        """The place that no checkpoint on disk goes back behind."""
        oldest = self.directory.oldest
        return None if oldest is None else oldest.get("position")

    def close(self) -> None:
        """Let go of the lane's directory."""
        self.directory.close()

    def _parted(self, batch: Any) -> Iterable[tuple[str | None, Any, int]]:
        if self.stream.key is None:
            n_rows = batch.n_rows if isinstance(batch, EncodedTable) else len(batch)
            return (("", batch, n_rows),)
        return part_by_key(batch, self.stream.key)

    def _update(self, key: str, rows: object) -> tuple[Publication, ...] | None:
        """Return the windows that rows complete; ``None`` if the monitor fails over them.

        A monitor may fail in ways nobody thought of. It must take none of the others with it, so
        every exception ends here.
        """
        try:
            item, reports = self._monitors.update(key, rows)
            found = []
            for report in reports:
                item.events, publication = publication_of(
                    self.stream.name, key, self.name, report, item.events
                )
                found.append(publication)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            logger.exception(
                "monitor has failed and takes no more records",
                extra={"monitor": self.stream.name, "key": key},
            )
            self._failed[key] = reason
            self._monitors.drop(key)
            return None
        return tuple(found)
