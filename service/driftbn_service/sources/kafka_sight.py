"""Whether the brokers of a topic can be seen, told once when it changes."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError

from driftbn_service.settings import KafkaSourceSettings
from driftbn_service.sources.base import SourceError

logger = logging.getLogger(f"driftbn.{__name__}")


class Sight:
    """What is known of the brokers and the topic.

    ``ready`` may be read by any thread.

    Parameters
    ----------
    settings
        Of the source.
    """

    def __init__(self, settings: KafkaSourceSettings) -> None:
        self.ready = False
        self.problem: str | None = None
        self._name = f"topic {settings.topic}"
        self._brokers = ", ".join(settings.brokers)
        self._was_ready = False
        self._is_dark = False
        self._refusal: str | None = None
        self._hint = "no connection"

    def lost(self, reason: str) -> None:
        """Take note that no broker answers; the client tries on by itself."""
        if not self._is_dark:
            logger.warning(
                "%s: no answer from %s: %s; trying on", self._name, self._brokers, reason
            )
        self._is_dark, self.ready = True, False

    def found(self) -> None:
        """Take note that brokers answer and the topic is there."""
        if self._is_dark:
            logger.info("%s: the brokers answer again", self._name)
        self._is_dark, self.problem, self._refusal = False, None, None
        self.ready = self._was_ready = True

    def missing(self, problem: str) -> None:
        """Take note that brokers answer, but somebody must do something about the topic."""
        self._is_dark, self.problem, self.ready = False, problem, False

    def on_error(self, error: KafkaError) -> None:
        """Take note of a problem that is not one of a single partition; the client calls it."""
        if error.code() == KafkaError._AUTHENTICATION:
            self._refusal = error.str()
            self.lost(error.str())
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.lost(self._hint)
        else:
            self._hint = error.str()

    def check(self) -> None:
        """Pass over what may go away by itself.

        Raises
        ------
        SourceError
            If the topic is missing, or the login is refused, which is fatal unless it worked once.
        """
        if self._refusal is not None and not self._was_ready:
            problem = f"{self._brokers} refuses the login: {self._refusal}"
            raise SourceError(self._name, problem, fatal=True)
        if self.problem is not None:
            raise SourceError(self._name, self.problem)
