"""Letting go what has outlived its retention, by a clock that has proved itself.

A clock that is set forward by a month makes a month of snapshots look as old as their retention.
So the wall clock is held against one that nobody sets. What is removed is reckoned from a wall
clock that went as fast as the other for a whole day: a jump, forward or back, begins the day anew,
and so does every start of the watch, since nothing tells what happened to the clock before. That
needs no state that is kept, and it errs by keeping too much. It cannot tell a clock that was set
wrongly, and stays wrong for a day, from one that was set right at last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.errors import TrimtabError, panics_as_errors
from trimtab.loop.watching.log import fields
from trimtab.model.site import Site

if TYPE_CHECKING:
    from trimtab.record.store import Store

PROVED_S: Final = 86400.0
"""So long the clocks agree before anything is removed; it is also how often that is done."""
APART_S: Final = 300.0
"""NTP slews by 500 ppm at most (ntp_adjtime(3)), 43 s a day: by more than this, a clock was set."""


class Retention:
    """Removes, once a day, what is older than the site keeps it.

    Parameters
    ----------
    elapsed_s
        Returns the seconds since some moment, by a clock that nobody sets.
    """

    def __init__(
        self, site: Site, store: Store, log: logging.Logger, elapsed_s: Callable[[], float]
    ) -> None:
        self._site, self._store, self._log, self._elapsed_s = site, store, log, elapsed_s
        self._agree_since: tuple[datetime, float] | None = None

    def prune(self, now: datetime) -> None:
        """Remove what there is to remove; to be called often, so that every jump is seen."""
        retention_s = self._site.store.retention_s
        if retention_s is None or not self._trusted(now, self._elapsed_s()):
            return
        before = now - timedelta(seconds=retention_s)
        try:
            with panics_as_errors():
                removed = self._store.prune(self._site.name, before, now=now)
        except TrimtabError as error:
            self._log.error("nothing was pruned", extra=fields(problem=error.message))
            return
        except Exception:  # noqa: BLE001 (logged; the watch goes on, and tries again in a day)
            self._log.exception("nothing was pruned")
            return
        counts = {name: getattr(removed, name) for name in ("snapshots", "outputs", "alerts")}
        self._log.info("pruned", extra=fields(**counts))

    def _trusted(self, now: datetime, now_s: float) -> bool:
        """Return whether both clocks have agreed for a day; then the next day begins."""
        agreed, self._agree_since = self._agree_since, (now, now_s)
        if agreed is None:
            return False
        passed_s = now_s - agreed[1]
        ahead_s = (now - agreed[0]).total_seconds() - passed_s
        if abs(ahead_s) > APART_S:
            self._log.warning(
                "the clock was set: nothing is pruned for a day", extra=fields(ahead_s=ahead_s)
            )
            return False
        if passed_s < PROVED_S:
            self._agree_since = agreed
            return False
        return True
