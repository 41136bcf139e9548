"""The state of a daemon in one SQLite file: what must survive together is committed together."""

from driftbn_service.state.database import (
    DamagedError,
    DamagedRowError,
    StoreError,
)
from driftbn_service.state.history import (
    EdgeRow,
    EpisodeEdge,
    EpisodeRow,
    LaneRow,
    MonitorRow,
    Series,
    Wanted,
    WindowDetail,
    WindowRow,
)
from driftbn_service.state.journal import (
    Accepted,
    Body,
    Journal,
    JournalError,
    JournalFullError,
    KeyConflictError,
)
from driftbn_service.state.lanes import Checkpoint, LaneLostError, LaneState, LockedError
from driftbn_service.state.store import FILE, Store

__all__ = [
    "FILE",
    "Accepted",
    "Body",
    "Checkpoint",
    "DamagedError",
    "DamagedRowError",
    "EdgeRow",
    "EpisodeEdge",
    "EpisodeRow",
    "Journal",
    "JournalError",
    "JournalFullError",
    "KeyConflictError",
    "LaneLostError",
    "LaneRow",
    "LaneState",
    "LockedError",
    "MonitorRow",
    "Series",
    "Store",
    "StoreError",
    "Wanted",
    "WindowDetail",
    "WindowRow",
]
