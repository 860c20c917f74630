"""What goldens are made of: each scene yields names and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scripts.goldens.scenes import purge, record, shown, sites, tools

SCENES: Final[Mapping[str, Callable[[], Iterator[tuple[str, Any]]]]] = {
    "alone": record.alone,
    "year": record.year,
    "world": record.world,
    "lustre": sites.lustre,
    "twin": sites.twin,
    "simulations": sites.simulations,
    "purge": purge.tree,
    "lists": purge.lists,
    "tools": tools.goldens,
    "reports": shown.reports,
    "dashboard": shown.dashboard,
}
"""Folder of tests/goldens to the scene that makes it."""
