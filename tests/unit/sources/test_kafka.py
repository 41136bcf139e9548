"""The options of the Kafka client."""

from __future__ import annotations

from typing import Any

import pytest
from driftbn_service.settings import KafkaSourceSettings
from driftbn_service.sources.kafka import client_options, is_incremental
from pydantic import ValidationError


def settings(**changes: Any) -> KafkaSourceSettings:
    return KafkaSourceSettings.model_validate({"brokers": ["b:1"], "topic": "orders", **changes})


@pytest.mark.parametrize(
    "name", ["enable.auto.commit", "auto.offset.reset", "group.id", "sasl.password"]
)
def test_what_the_source_decides_cannot_be_set(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(options={name: "a secret"})
    assert name in str(caught.value)
    assert "a secret" not in str(caught.value)


def test_offsets_are_never_committed_or_reset_by_the_client_itself() -> None:
    options = client_options(settings())
    assert options["enable.auto.commit"] is False
    assert options["enable.auto.offset.store"] is False
    assert options["auto.offset.reset"] == "error"
    assert options["isolation.level"] == "read_committed"


def test_a_password_goes_over_an_encrypted_connection_unless_told_otherwise() -> None:
    login: dict[str, Any] = {"username": "me", "password": "secret"}
    options = client_options(settings(**login))
    assert options["security.protocol"] == "sasl_ssl"
    assert (options["sasl.username"], options["sasl.password"]) == ("me", "secret")
    plain = settings(**login, options={"security.protocol": "sasl_plaintext"})
    assert client_options(plain)["security.protocol"] == "sasl_plaintext"
    assert "security.protocol" not in client_options(settings())


def test_the_mechanism_may_be_given_under_either_name() -> None:
    login: dict[str, Any] = {"username": "me", "password": "secret"}
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        options = client_options(settings(**login, options={name: "SCRAM-SHA-512"}))
        assert [value for key, value in options.items() if "mechanism" in key] == ["SCRAM-SHA-512"]


def test_partitions_move_one_by_one_unless_an_eager_strategy_is_chosen() -> None:
    newer = client_options(settings(options={"group.protocol": "consumer"}))
    eager = client_options(settings(options={"partition.assignment.strategy": "range"}))
    assert [is_incremental(one) for one in (client_options(settings()), newer, eager)] == [
        True,
        True,
        False,
    ]
    assert "partition.assignment.strategy" not in newer
