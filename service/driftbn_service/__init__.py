"""The command line and the daemon around driftbn."""
