"""Decoding: bytes of whole records to rows that a monitor takes."""

from driftbn_service.records.decoder import Decoder, warm_up
from driftbn_service.records.rows import Decoded, Rejected, RejectReason, Rows

__all__ = ["Decoded", "Decoder", "RejectReason", "Rejected", "Rows", "warm_up"]
