"""Checkpoints: the states of monitors and the place in the stream, all of them or none."""

from service.checkpoint.directory import CheckpointDirectory, Loaded
from service.checkpoint.errors import (
    CheckpointError,
    DamagedError,
    LockedError,
    NewerVersionError,
)
from service.checkpoint.layout import lane_directories, lane_directory
from service.checkpoint.surveying import ManifestSurvey, survey

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
