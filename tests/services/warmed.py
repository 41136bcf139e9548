"""What a daemon's process begins as a copy of: everything imported and compiled."""

import importlib
import pkgutil
from contextlib import suppress

import driftbn_service
from driftbn_service import daemon

from tests.services.daemon import DaemonService

assert DaemonService
for found in pkgutil.walk_packages(driftbn_service.__path__, "driftbn_service."):
    if not found.name.endswith("__main__"):
        with suppress(ImportError):  # a client that is an extra
            importlib.import_module(found.name)
daemon.warm_up()
