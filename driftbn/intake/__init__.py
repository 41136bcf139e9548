"""From batches of a stream to codes: reading, holding rows until the schema is known, encoding."""

from driftbn.intake.batches import as_records
from driftbn.intake.encoded import Encoded
from driftbn.intake.intake import Intake

__all__ = ["Encoded", "Intake", "as_records"]
