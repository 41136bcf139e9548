"""What a daemon's process begins as a copy of: everything imported and compiled."""

from driftbn_service import daemon

from tests.services.daemon import DaemonService

assert DaemonService
daemon.warm_up()
