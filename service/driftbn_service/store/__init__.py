"""The history of windows, episodes and events, in SQLite."""

from driftbn_service.store.errors import DamagedRowError, StoreError
from driftbn_service.store.rows import (
    EdgeRow,
    EpisodeEdge,
    EpisodeRow,
    MonitorRow,
    Series,
    WindowDetail,
    WindowRow,
)
from driftbn_service.store.store import Store

__all__ = [
    "DamagedRowError",
    "EdgeRow",
    "EpisodeEdge",
    "EpisodeRow",
    "MonitorRow",
    "Series",
    "Store",
    "StoreError",
    "WindowDetail",
    "WindowRow",
]
