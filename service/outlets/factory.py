"""Outlets by their settings; each kind is imported only where it is used."""

from __future__ import annotations

from service.optional_parts import part_of_kind
from service.outlets.base import Outlet
from service.settings import OutletSettings


def make_outlet(settings: OutletSettings) -> Outlet:
    """Return the outlet that the settings describe.

    Examples
    --------
    >>> from service.settings import LogOutletSettings
    >>> make_outlet(LogOutletSettings(kind="log")).name
    'log'
    """
    kind = settings.kind
    outlet: Outlet = part_of_kind("service.outlets", kind, f"{kind.title()}Outlet")(settings)
    return outlet
