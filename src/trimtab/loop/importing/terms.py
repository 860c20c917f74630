"""From the options of ``trimtab import`` to where and under what results are kept."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trimtab.errors import UsageError
from trimtab.loop.importing.reading import kinds
from trimtab.loop.importing.storing import IMPORTED, Terms
from trimtab.loop.sites import site_file
from trimtab.model.run import Layer
from trimtab.model.site import Site
from trimtab.units import parse_moment


def terms_of(
    site: str | None,
    *,
    probe: str | None = None,
    at: str | None = None,
    timezone: str | None = None,
    layer: Layer | None = None,
) -> tuple[Terms, Site | None]:
    """Return what a person says of the files, with the site file that is behind the name.

    Raises
    ------
    UsageError
        A time, a zone or a site file that is wrong.
    """
    loaded = site_file(site)
    known = None if loaded is None else loaded.site
    zone = timezone or (None if known is None else known.timezone)
    if zone is not None:
        _check_zone(zone)
    terms = Terms(
        site=known.name if known is not None else site or IMPORTED,
        probe=probe or IMPORTED,
        at=None if at is None else parse_moment(at, zone or "UTC"),
        timezone=zone,
        layer=layer,
    )
    return terms, known


def check_kind(kind: str | None) -> None:
    """Raise UsageError where there is no such format."""
    if kind is not None and kind not in kinds():
        raise UsageError(f"there is no format {kind!r}", hint=f"there are {', '.join(kinds())}")


def _check_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"{zone[:80]!r} is no time zone", hint="write an IANA name: Europe/Zurich, UTC"
        ) from error
