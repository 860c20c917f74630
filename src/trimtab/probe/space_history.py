"""When the targets of a site are full, from its stored snapshots; worked out once a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.site import SiteLimits
from trimtab.explain.space_forecast import SPACE, full_when, fullness_of
from trimtab.explain.status import FullWhen
from trimtab.judge.growth import DAYS_MINIMUM, GAP_MAXIMUM_S, WINDOW_S
from trimtab.store.kept import keeping

if TYPE_CHECKING:
    from trimtab.store.store import Store

FullWhenOf = dict[str, tuple[FullWhen, ...]]
_WINDOW: Final = timedelta(seconds=WINDOW_S)
_GAP: Final = timedelta(seconds=GAP_MAXIMUM_S)


def full_when_of(store: Store, site: str, limits: SiteLimits, now: datetime) -> FullWhenOf:
    """Return target to when it passes its limits; of targets that were seen in the last days.

    It rests on the last snapshot of each day before that of ``now``, in UTC.
    """
    times = store.snapshot_times(site, since=now - _WINDOW, until=now)
    days = tuple({at.date(): at for at in times if at.date() < now.date()}.values())
    if not days or now - days[-1] > _GAP:
        return {}
    with keeping(store, site, of_short=len(days) > DAYS_MINIMUM) as look:
        return look.remembered(
            "full when",
            FullWhenOf,
            lambda _: (days, limits.fullness),
            lambda: _full_when(store, site, limits, days),
        )


def _full_when(store: Store, site: str, limits: SiteLimits, days: Sequence[datetime]) -> FullWhenOf:
    import polars as pl

    names = [name for pair in SPACE.values() for name in pair]
    readings, _ = store.telemetry_frames(site, days, names=names, settings_at=())
    label, number = pl.col("label"), pl.col("number")
    values = readings.filter(label.is_null() & number.is_not_null())
    known = {
        (target, name, at): value
        for target, name, at, value in values.select("target", "name", "at", "number").rows()
    }
    made: FullWhenOf = {}
    for target in sorted({target for target, _, _ in known}):
        forecasts = []
        for kind, (first, second) in SPACE.items():
            points = []
            for at in days:
                pair = known.get((target, first, at)), known.get((target, second, at))
                if pair[0] is None or pair[1] is None:
                    continue
                fullness = fullness_of(kind, pair[0], pair[1])
                if fullness is not None:
                    points.append((int(at.timestamp()), fullness))
            if points and days[-1].timestamp() - points[-1][0] <= GAP_MAXIMUM_S:
                forecasts.append(full_when(kind, points, limits))
        made[target] = tuple(forecasts)
    return made
