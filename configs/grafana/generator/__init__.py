"""Grafana dashboards as code; ``python -m generator`` in configs/grafana writes them."""
