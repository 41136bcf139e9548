"""The settings of librdkafka that a source needs, and those it leaves to the user."""

from __future__ import annotations

from typing import Any, Final

from driftbn_service.settings import KafkaSourceSettings

_CRITICAL: Final = 2  # as syslog counts levels


def client_options(settings: KafkaSourceSettings) -> dict[str, Any]:
    """Return the settings of the consumer, without callbacks.

    Examples
    --------
    >>> settings = KafkaSourceSettings(
    ...     brokers=["one:9092", "two:9092"], topic="orders", options={"client.id": "desk"}
    ... )
    >>> options = client_options(settings)
    >>> options["bootstrap.servers"], options["client.id"], options["enable.auto.commit"]
    ('one:9092,two:9092', 'desk', False)
    """
    return {
        "client.id": "driftbn",
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": 32 * 1024,
        # Failing connections come as errors too, and are logged once; the client would log each.
        "log_level": _CRITICAL,
        **_login(settings),
        **_strategy(settings),
        **settings.options,
        "bootstrap.servers": ",".join(settings.brokers),
        "group.id": settings.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # An offset that is gone must be told, not passed over.
        "auto.offset.reset": "error",
    }


def is_incremental(settings: KafkaSourceSettings) -> bool:
    """Whether a rebalance moves single partitions and leaves the others alone."""
    options = {**_strategy(settings), **settings.options}
    strategy = options.get("partition.assignment.strategy", "")
    return options.get("group.protocol") == "consumer" or "cooperative" in strategy


def _strategy(settings: KafkaSourceSettings) -> dict[str, str]:
    # With the newer protocol the broker assigns, and the client refuses the setting.
    if settings.options.get("group.protocol") == "consumer":
        return {}
    return {"partition.assignment.strategy": "cooperative-sticky"}


def _login(settings: KafkaSourceSettings) -> dict[str, str]:
    if settings.username is None and settings.password is None:
        return {}
    password = "" if settings.password is None else settings.password.get_secret_value()
    mechanism = {} if "sasl.mechanisms" in settings.options else {"sasl.mechanism": "PLAIN"}
    return {
        **mechanism,
        # A password must not go over the wire in the clear unless the user says so.
        "security.protocol": "sasl_ssl",
        "sasl.username": settings.username or "",
        "sasl.password": password,
    }
