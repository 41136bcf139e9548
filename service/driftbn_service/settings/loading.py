"""From a file, the environment and the command line to checked settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from driftbn_service.settings.draft import Draft
from driftbn_service.settings.environment import PREFIX, Tree, from_environment, from_options
from driftbn_service.settings.errors import Problem, SettingsError
from driftbn_service.settings.model import Settings
from driftbn_service.settings.structure import Place

CONFIG_VARIABLE: Final = "DRIFTBN_CONFIG"
"""The variable that names the settings file where the command line does not."""
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""A larger file holds data, not settings."""

_HOW_TO_BEGIN: Final = (
    f"name a file with --config FILE or in {CONFIG_VARIABLE}; configs/example.toml of driftbn is"
    " one to begin with"
)


@dataclass(frozen=True)
class LoadedSettings:
    """Settings, and where they came from.

    Parameters
    ----------
    settings
        The settings.
    name
        The settings file, or ``environment`` if there is none.
    origins
        By place, what gave each setting that is no default: a file, a variable, the command line.
    """

    settings: Settings
    name: str
    origins: Mapping[Place, str] = field(default_factory=dict)


def settings_path(given: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file: as given, or as the variable says, or none.

    Examples
    --------
    >>> settings_path(None, {"DRIFTBN_CONFIG": "driftbn.toml"}).name
    'driftbn.toml'
    """
    named = given if given is not None else environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def load_settings(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings of a file, changed by the environment and by the command line.

    Relative paths in any of them are relative to the directory of the file; without a file, to the
    working directory.

    Parameters
    ----------
    path
        A TOML file; ``None`` if there is none.
    environ
        The environment; of it the variables ``DRIFTBN__SECTION__KEY`` are settings.
    overrides
        Settings of the command line as ``{"service.state_dir": value}``. They win.

    Raises
    ------
    SettingsError
        If anything is wrong; it says all that is.

    Examples
    --------
    >>> environ = {
    ...     "DRIFTBN__SERVICE__STATE_DIR": "state",
    ...     "DRIFTBN__MONITORS__0__NAME": "orders",
    ...     "DRIFTBN__MONITORS__orders__WINDOW": "1000",
    ...     "DRIFTBN__MONITORS__orders__SOURCE__KIND": "stdin",
    ... }
    >>> load_settings(None, environ).stream("orders").window.size
    1000
    """
    return read_settings(path, environ, overrides).settings


def read_settings(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> LoadedSettings:
    """Do the same as ``load_settings`` and tell where each setting came from.

    Raises
    ------
    SettingsError
        If anything is wrong; it says all that is.
    """
    if path is None and not overrides and not any(name.startswith(PREFIX) for name in environ):
        raise SettingsError("settings", [Problem("", f"there are none: {_HOW_TO_BEGIN}")])
    tree = {} if path is None else _read(path)
    base = Path() if path is None else path.absolute().parent
    draft = Draft("environment" if path is None else str(path), base, tree)
    draft.apply([*from_environment(environ), *from_options(overrides or {})])
    return LoadedSettings(draft.settings(), draft.name, draft.origins())


def _read(path: Path) -> Tree:
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SettingsError(name, [Problem("", "is too large to be a settings file")])
        return tomllib.loads(data.decode())
    except FileNotFoundError as error:
        raise SettingsError(name, [Problem("", f"no such file; {_HOW_TO_BEGIN}")]) from error
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        raise SettingsError(name, [Problem("", text)]) from error
    except UnicodeDecodeError as error:
        text = f"is not UTF-8: byte {error.start} cannot be read"
        raise SettingsError(name, [Problem("", text)]) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(name, [Problem("", f"is not TOML: {error}")]) from error
