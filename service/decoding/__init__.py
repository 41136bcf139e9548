"""Decoding: bytes of whole records to rows that a monitor takes."""

from service.decoding.decoded import Decoded, Rejected, RejectReason, Rows
from service.decoding.decoder import Decoder
from service.decoding.warmup import warm_up

__all__ = ["Decoded", "Decoder", "RejectReason", "Rejected", "Rows", "warm_up"]
