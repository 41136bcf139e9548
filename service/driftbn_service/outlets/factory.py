"""Outlets by their settings; each kind is imported only where it is used."""

from __future__ import annotations

from driftbn_service.optional_parts import part_of_kind
from driftbn_service.outlets.base import Outlet
from driftbn_service.settings import OutletSettings


def make_outlet(settings: OutletSettings) -> Outlet:
    """Return the outlet that the settings describe.

    Examples
    --------
    >>> from driftbn_service.settings import LogOutletSettings
    >>> make_outlet(LogOutletSettings(kind="log")).name
    'log'
    """
    kind = settings.kind
    outlet: Outlet = part_of_kind("driftbn_service.outlets", kind, f"{kind.title()}Outlet")(
        settings
    )
    return outlet
