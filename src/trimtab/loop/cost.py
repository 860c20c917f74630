"""What probing costs a site: node-hours, and how much of the drives' endurance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.measure.plain import as_dict, as_number
from trimtab.model.status import ProbeCost

if TYPE_CHECKING:
    from trimtab.record.store import Store

STRETCH: Final = timedelta(days=7)
_DAY_S: Final = 86_400.0


def cost_of(store: Store, site: str, until: datetime) -> ProbeCost:
    """Return what the probes of a site cost in the week up to a time."""
    since = until - STRETCH
    kept = store.parameters(site, since=since, until=until)
    costs = [cost for _, one in kept if (cost := as_dict(one.get("cost")))]
    first = kept[0][0] if kept else until
    # A week, or what there is of it: not less than a day, or one run would make a rate.
    days = max(1.0, (until - max(since, first)).total_seconds() / _DAY_S)
    written = _sum(cost.get("bytes_written") for cost in costs)
    sizes = [cost["capacity_bytes"] for cost in costs if cost.get("capacity_bytes")]
    capacity = sizes[-1] if sizes else None
    silent = sum(as_number(cost.get("bytes_written")) is None for cost in costs)
    reason = None if capacity else "no run tells the capacity of the file system"
    if silent:  # a site's own command need not tell
        reason = f"{silent} of {len(costs)} runs do not tell what they wrote"
    hours = [cost["node_hours"] for cost in costs if as_number(cost.get("node_hours")) is not None]
    return ProbeCost(
        site=site,
        from_=until - timedelta(days=days),
        to=until,
        runs=len(costs),
        bytes_written=written,
        bytes_read=_sum(cost.get("bytes_read") for cost in costs),
        node_hours=sum(hours) if hours else None,
        drive_writes_per_day=(
            None if capacity is None or silent == len(costs) else written / days / capacity
        ),
        reason=reason,
    )


def _sum(values: Iterable[object]) -> int:
    return sum(int(as_number(value) or 0) for value in values)
