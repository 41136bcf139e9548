"""What processes with a kill point begin with: everything imported and compiled."""

from driftbn_service import daemon, records

import tests.services.killed

records.warm_up()
daemon.warm_up_monitor()

__all__ = ["tests"]
