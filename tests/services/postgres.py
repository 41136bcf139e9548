"""A PostgreSQL server with a cluster of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import psycopg

from tests.services.process import HOST, Service, ServiceError, free_port, missing, wait_for

USER = "driftbn"
_SYSTEM_USER = "postgres"


def is_installed() -> bool:
    return _program("initdb") is not None


def _program(name: str) -> str | None:
    """Return the path of a program, which Debian keeps out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


class PostgresService(Service):
    """A PostgreSQL server; ``kill`` is a crash of all of it."""

    name = "postgres"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        # Where tests keep their files nobody but their own user may come.
        self._data = Path(tempfile.mkdtemp(prefix="driftbn-postgres-"))

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Make a database and return its address."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url_of(name)

    def start(self) -> None:
        """Make the cluster the first time, then start."""
        if not any(self._data.iterdir()):
            self._make_cluster()
        super().start()

    def command(self) -> list[str]:
        options = {
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "32MB",
            "fsync": "off",  # what a server that is killed has written is in the kernel
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [*self._as_user, self._program("postgres"), "-D", str(self._data),
                "-p", str(self.port), *words]  # fmt: skip

    def probe(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def restart(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Crash, and come back after ``meanwhile``."""
        self.kill()
        wait_for(lambda: not self._is_used(), "the processes of the crashed server are gone")
        meanwhile()
        self.start()

    def _is_used(self) -> bool:
        """Whether a process of the server is left: its memory keeps a new one from starting."""
        for place in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):  # it has ended meanwhile
                if place.readlink() == self._data:
                    return True
        return False

    def stop(self) -> None:
        """Stop for good, whoever is connected and whatever is not in its tables yet."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
        super().stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def _make_cluster(self) -> None:
        if self._as_user:
            shutil.chown(self._data, _SYSTEM_USER, _SYSTEM_USER)
        words = ["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [*self._as_user, self._program("initdb"), "-D", str(self._data), *words],
            capture_output=True, cwd="/", check=False,
        )  # fmt: skip
        if made.returncode:
            raise ServiceError(f"no cluster can be made: {made.stderr.decode()}")

    @cached_property
    def _as_user(self) -> list[str]:
        """It refuses to run as root."""
        if os.geteuid():
            return []
        names = [f"--reuid={_SYSTEM_USER}", f"--regid={_SYSTEM_USER}", "--clear-groups"]
        return ["setpriv", *names]

    @staticmethod
    def _program(name: str) -> str:
        path = _program(name)
        if path is None:
            missing("no PostgreSQL server: it comes with the package postgresql")
        return path
