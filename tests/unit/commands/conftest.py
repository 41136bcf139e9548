from __future__ import annotations

import os

import pytest
from driftbn_service.cli import main

from tests.commands import Ran, Run


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process, without the settings of the environment."""
    for name in [name for name in os.environ if name.startswith("DRIFTBN")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("driftbn_service.commands.learn.warm_up", lambda: None)

    def call(*words: object) -> Ran:
        try:
            code = main([str(word) for word in words])
        except SystemExit as error:
            code = int(error.code or 0)
        return Ran(code, *capfd.readouterr())

    return call
