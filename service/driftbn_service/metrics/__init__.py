"""What Prometheus is told."""

from driftbn_service.metrics.metrics import Metrics

__all__ = ["Metrics"]
