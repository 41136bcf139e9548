"""Writes the dashboards: ``python -m generator`` in configs/grafana."""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from generator.fleet import make_fleet
from generator.health import make_health
from generator.stream import make_stream

FOLDER = Path(__file__).parents[1] / "dashboards"


def built() -> dict[str, str]:
    """Return the text of each file by its name."""
    made = {"fleet.json": make_fleet(), "stream.json": make_stream(), "health.json": make_health()}
    return {name: _text(dashboard) for name, dashboard in made.items()}


def _text(dashboard: Dashboard) -> str:
    made = dashboard.build()
    for number, panel in enumerate(made.panels or (), 1):
        panel.id_val = number  # links to a panel name it
    return json.dumps(made, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write all files."""
    for name, text in built().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
