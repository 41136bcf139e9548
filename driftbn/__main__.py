"""``python -m driftbn`` is the command ``driftbn``."""

import runpy

runpy.run_module("driftbn_service", run_name="__main__")
