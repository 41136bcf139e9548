"""A standalone cluster of Spark: a master and workers, each a process, and drivers that submit."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import urllib.request
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError

from tests.services.process import HOST, Service, ServiceError, free_port, missing, program

CONFIGS = Path(__file__).parents[2] / "configs" / "spark"
POM = Path(__file__).with_name("spark.xml")
_ENDING_SECONDS = 600.0


def require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        missing("Spark is not installed: pip install 'driftbn[spark]'")
    program("java", "openjdk-17-jre-headless")


def connector_jars() -> list[Path]:
    """Return the jars of Spark's Kafka source; ``.ci/services`` fetches them."""
    version = re.search(r"<spark.version>(.+?)<", POM.read_text())
    if version is None:
        raise ServiceError(f"{POM} names no version of Spark")
    usual = Path.home() / ".cache" / f"driftbn-spark-kafka-{version[1]}"
    directory = Path(os.environ.get("DRIFTBN_SPARK_KAFKA_DIR") or usual)
    found = sorted(directory.glob("*.jar"))
    if not found:
        missing(f"no Kafka source of Spark in {directory}: .ci/services puts it there")
    return found


class _SparkService(Service):
    """A part of Spark in a session of its own, which is killed with all that it has started."""

    start_seconds = 180.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._ui = free_port()

    def command(self) -> list[str]:
        """Run a main class of Spark by its own starter."""
        here = [f"{name}={value}" for name, value in _environment().items()]
        return ["setsid", "env", *here, "spark-class", *self.main()]

    @abstractmethod
    def main(self) -> list[str]:
        """Return the main class, and its arguments."""

    def probe(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._ui}/json/", timeout=1.0) as answer:
                return bool(answer.read())
        except (URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill it with its executors, as a lost machine would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Kill it: there is nothing that it should write down."""
        self.kill()


class SparkMaster(_SparkService):
    """The master; ``address`` is where workers and drivers find it."""

    name = "spark-master"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = free_port()
        self.address = f"spark://{HOST}:{self._port}"

    def main(self) -> list[str]:
        """Return the master's main class with its ports."""
        return [
            "org.apache.spark.deploy.master.Master",
            *("--host", HOST, "--port", str(self._port), "--webui-port", str(self._ui)),
        ]


class SparkWorker(_SparkService):
    """A worker with one core."""

    def __init__(self, directory: Path, master: SparkMaster, number: int) -> None:
        self.name = f"spark-worker-{number}"
        super().__init__(directory)
        self._master = master

    def main(self) -> list[str]:
        """Return the worker's main class with its master."""
        return [
            *("org.apache.spark.deploy.worker.Worker", self._master.address),
            *("--host", HOST, "--cores", "1", "--memory", "1g"),
            *("--work-dir", str(self.directory / self.name), "--webui-port", str(self._ui)),
        ]


class SparkDriver:
    """``configs/spark/submit.sh`` on a cluster, as a process; its lines tell of batches done."""

    def __init__(
        self, master: str, arguments: Sequence[str | Path], log: Path, jars: Sequence[Path] = ()
    ) -> None:
        options = ["--conf spark.executor.memory=600m --driver-memory 600m"]
        options += [f"--conf spark.{name}={HOST}" for name in ("driver.host", "driver.bindAddress")]
        options += ["--conf spark.ui.enabled=false", "--conf spark.sql.shuffle.partitions=4"]
        if jars:
            options.append(f"--jars {','.join(map(str, jars))}")
        self._log = log
        here = {**_environment(), "MASTER": master, "OPTIONS": " ".join(options)}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                ["bash", str(CONFIGS / "submit.sh"), *map(str, arguments)],
                env={**os.environ, **here},
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=log.parent,
                start_new_session=True,
            )

    def wait_for_batch(self, number: int) -> None:
        """Wait until the reports of a batch are written."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._log.open("ab") as log:
                log.write(line)
            if line.strip() == f"batch {number}".encode():
                return
        raise ServiceError(f"the query ended before batch {number}:\n{self._tail()}")

    def finish(self) -> None:
        """Wait until the query has ended by itself."""
        told, _ = self._process.communicate(timeout=_ENDING_SECONDS)
        if self._process.returncode:
            raise ServiceError(f"the query failed:\n{told.decode()}{self._tail()}")

    def kill(self) -> None:
        """Kill the driver with its JVM."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])


def _environment() -> dict[str, str]:
    """Return what keeps all parts on loopback and with this Python."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        # What lives for half a minute is not worth compiling well.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
