"""What processes with a kill point begin as a copy of: everything imported and compiled."""

from driftbn_service import daemon, records

from tests.services import killed

assert killed.PHASES
records.warm_up()
daemon.warm_up_monitor()
