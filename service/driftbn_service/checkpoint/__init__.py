"""Checkpoints: the states of monitors and the place in the stream, all of them or none."""

from driftbn_service.checkpoint.directory import CheckpointDirectory, Loaded
from driftbn_service.checkpoint.errors import (
    CheckpointError,
    DamagedError,
    LockedError,
    NewerVersionError,
)
from driftbn_service.checkpoint.layout import lane_directories, lane_directory
from driftbn_service.checkpoint.surveying import ManifestSurvey, survey

__all__ = [
    "CheckpointDirectory",
    "CheckpointError",
    "DamagedError",
    "Loaded",
    "LockedError",
    "ManifestSurvey",
    "NewerVersionError",
    "lane_directories",
    "lane_directory",
    "survey",
]
