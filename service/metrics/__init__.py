"""What Prometheus is told."""

from service.metrics.metrics import Metrics

__all__ = ["Metrics"]
