"""Writes the windows that the site file and Slurm plan into the log book, a day ahead."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.error import ToolError, TrimtabError
from trimtab.base.site import Site
from trimtab.base.site_maintenance import SITE_FILE, planned_by_file
from trimtab.base.snapshot import NotAvailable
from trimtab.probe.maintenance import AHEAD, write_planned
from trimtab.reach.launcher import find_slurm
from trimtab.reach.slurm_client import Client
from trimtab.reach.slurm_reservation import SLURM, planned_by_slurm
from trimtab.watch.service import fields

if TYPE_CHECKING:
    from trimtab.store.slot import Slot
    from trimtab.store.store import Store

EVERY: Final = timedelta(hours=1)
"""How often it is looked; a reservation that is made later is known within that."""


class MaintenanceCalendar:
    """Keeps the planned windows of a site; what cannot be read is logged and asked again."""

    def __init__(
        self, site: Site, store: Store, *, log: logging.Logger, clock: Callable[[], datetime]
    ) -> None:
        self._site, self._store, self._log, self._clock = site, store, log, clock
        self._looked_at: datetime | None = None

    def after_slot(self, slot: Slot) -> None:
        """Look at the plans, now and then."""
        self.idle(self._clock())

    def idle(self, now: datetime) -> None:
        """Look at the plans, now and then."""
        if self._looked_at is not None and timedelta() <= now - self._looked_at < EVERY:
            return
        self._looked_at = now
        site, sources = self._site, [SITE_FILE]
        until = now + AHEAD
        planned = [*planned_by_file(site.name, site.maintenance, site.timezone, now, until)]
        try:
            if any(launcher.kind == "slurm" for launcher in site.launchers):
                slurm = find_slurm()
                if not isinstance(slurm, NotAvailable):
                    planned += planned_by_slurm(Client(slurm.programs), site.name)
                    sources.append(SLURM)
        except ToolError as error:
            self._log.warning("reservations of Slurm", extra=fields(problem=error.message))
        try:
            write_planned(self._store, site.name, planned, sources=sources, now=now)
        except TrimtabError as error:
            self._looked_at = None
            self._log.warning("a maintenance is not written", extra=fields(problem=error.message))

    def close(self) -> None:
        """Nothing is left open."""
