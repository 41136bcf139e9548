"""``python -m driftbn_service`` is ``driftbn``."""

from driftbn_service.cli import run_program

if __name__ == "__main__":
    run_program()
