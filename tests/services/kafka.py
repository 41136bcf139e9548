"""A real Apache Kafka broker in KRaft mode: one node that is broker and controller."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import uuid
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.services.process import HOST, Service, ServiceError, free_port, missing, program

POM = Path(__file__).with_name("pom.xml")
USER, PASSWORD = "driftbn", "a password"
"""What the listener with a login accepts."""
_ANSWER_SECONDS = 30.0
_FLUSH_MESSAGES = 20_000  # a producer holds 100,000


def jars() -> Path:
    """Return the directory with the broker's jars; ``.ci/services`` fills it."""
    version = re.search(r"<kafka.version>(.+?)<", POM.read_text())
    if version is None:
        raise ServiceError(f"{POM} names no version of Kafka")
    usual = Path.home() / ".cache" / f"driftbn-kafka-{version[1]}"
    directory = Path(os.environ.get("DRIFTBN_KAFKA_DIR") or usual)
    if not list(directory.glob("kafka_*.jar")):
        missing(f"no Kafka in {directory}: .ci/services puts it there, with Java 17 and Maven")
    return directory


class KafkaService(Service):
    """A Kafka broker; ``address`` needs no login, ``login_address`` does."""

    name = "kafka"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.address = f"{HOST}:{free_port()}"
        self.login_address = f"{HOST}:{free_port()}"
        self._controller = f"{HOST}:{free_port()}"
        self._properties = directory / "server.properties"

    def start(self) -> None:
        """Format the storage the first time, then start."""
        if not self._properties.exists():
            self._format()
        super().start()

    def command(self) -> list[str]:
        """Run the broker with a small heap."""
        return [*self._java("-Xmx512m"), "kafka.Kafka", str(self._properties)]

    def probe(self) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def create_topic(self, name: str, n_partitions: int = 1, **config: str) -> None:
        topic = NewTopic(name, n_partitions, 1, config=config)
        self._admin.create_topics([topic])[name].result(_ANSWER_SECONDS)

    def add_partitions(self, topic: str, n_partitions: int) -> None:
        """Give a topic more partitions, so that it has ``n_partitions``."""
        more = NewPartitions(topic, n_partitions)
        self._admin.create_partitions([more])[topic].result(_ANSWER_SECONDS)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        self._admin.delete_topics([name])[name].result(_ANSWER_SECONDS)

    def produce(self, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        """Write messages to a partition and wait until the broker has them."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for number, value in enumerate(values):
            producer.produce(topic, value=value, partition=partition)
            if number % _FLUSH_MESSAGES == 0:
                producer.flush(_ANSWER_SECONDS)
        if producer.flush(_ANSWER_SECONDS):
            raise ServiceError("the broker did not take all messages")

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def _java(self, heap: str) -> list[str]:
        options = [heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        level = "-Dorg.apache.logging.log4j.level=INFO"
        return [program("java", "openjdk-17-jre-headless"), *options, level, "-cp", f"{jars()}/*"]

    def _format(self) -> None:
        self._properties.write_text(self._settings())
        # Begins with a letter: the tool takes one that begins with a dash for an option.
        cluster = base64.urlsafe_b64encode(bytes(1) + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        tool = [*self._java("-Xmx128m"), "kafka.tools.StorageTool", "format"]
        done = subprocess.run(
            [*tool, "-t", cluster, "-c", str(self._properties)], capture_output=True, check=False
        )
        if done.returncode:
            raise ServiceError(f"storage cannot be formatted: {done.stderr.decode()}")

    def _settings(self) -> str:
        login = f'required user_{USER}="{PASSWORD}";'
        listeners = f"PLAINTEXT://{self.address},LOGIN://{self.login_address}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._controller}",
            "listeners": f"{listeners},CONTROLLER://{self._controller}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule {login}"
            ),
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            # A broker that was killed is let in again as soon as it is back.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
            # A source must not create the topic it waits for, even where the broker would let it.
            "auto.create.topics.enable": "true",
            # Old records are deleted soon after they may be.
            "log.retention.check.interval.ms": "1000",
            "log.segment.delete.delay.ms": "0",
            "log.initial.task.delay.ms": "1000",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())
