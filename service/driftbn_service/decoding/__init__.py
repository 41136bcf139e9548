"""Decoding: bytes of whole records to rows that a monitor takes."""

from driftbn_service.decoding.decoded import Decoded, Rejected, RejectReason, Rows
from driftbn_service.decoding.decoder import Decoder
from driftbn_service.decoding.warmup import warm_up

__all__ = ["Decoded", "Decoder", "RejectReason", "Rejected", "Rows", "warm_up"]
