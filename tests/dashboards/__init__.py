"""Grafana dashboards as code; ``python -m tests.dashboards.build`` writes configs/grafana."""
