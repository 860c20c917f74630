"""Purge plans that wait for a person: made on schedule, not armed, not expired."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from trimtab.loop.purging.place import PurgePlace, purge_place
from trimtab.model.site import Site

PURGE: Final = "purge"
_MOST_BYTES: Final = 16 * 2**20


def plans_waiting(site: Site, now: datetime, place: PurgePlace | None = None) -> Mapping[str, int]:
    """Return policy to the number of plans that wait; without those that cannot be told.

    Nothing rests on these figures: signatures and owners are not checked here.
    """
    directory = site.policies.purge.directory
    if directory is None:
        return {}
    from trimtab.purge.plan.freeze import PLAN_FILE

    journals = (place or purge_place()).journals
    try:
        files = list(Path(directory).glob(f"*.plan/{PLAN_FILE}"))
        return {PURGE: sum(_waits(file, journals, now) for file in files)}
    except OSError:  # it is root's: the metric is missing where this process is not
        return {}


def _waits(file: Path, journals: Path, now: datetime) -> bool:
    from trimtab.purge.run.arming import SUFFIX

    with file.open("rb") as stream:
        data = stream.read(_MOST_BYTES)
    try:
        plan = json.loads(data)
        expires_at = datetime.fromisoformat(plan["expires_at"])
        armed = journals / f"{plan['id']}{SUFFIX}"
        return now < expires_at and not armed.exists()
    except (ValueError, KeyError, TypeError):
        return False
