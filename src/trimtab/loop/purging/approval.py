"""An admin's approval of a purge plan: an entry of the log book, signed with the plans' own key.

Whoever can write the store can write an entry. So it counts only with a signature by the key of
the host's purges, which is root's alone: over the site, the plan and its hash, who approved it and
when, when the plan expires, and a number that is used once. Copied to another plan or site, or with
another name or time, it is none.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.errors import RefusedError
from trimtab.model.event import Event, EventKind
from trimtab.model.identifier import new_identifier
from trimtab.purge.plan.key import SigningKey
from trimtab.purge.plan.load import LoadedPlan
from trimtab.visible import visible

APPROVED: Final = "approved purge plan"
APPROVAL_SOURCE: Final = "dashboard approval"
"""No other entry of the log book has such a source: one that people write is of another."""
CLOCKS: Final = timedelta(minutes=5)
"""By how much the clocks of the dashboard's host and the plan's may differ."""
_PURPOSE: Final = "purge approval"
_DETAIL: Final = re.compile(
    rf"{APPROVED} (?P<plan>\S+) sha256 (?P<sha256>[0-9a-f]{{64}}) until (?P<expires>\S+)"
    r" nonce (?P<nonce>[0-9a-f]{32}) signature (?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Approvals:
    """What the log book has about one plan.

    Attributes
    ----------
    valid
        Entries that approve exactly this plan.
    forged
        Entries that claim to, and are not signed, or not as they stand.
    """

    valid: tuple[Event, ...] = ()
    forged: tuple[Event, ...] = ()


def signed_approval(
    key: SigningKey, loaded: LoadedPlan, *, site: str, who: str, now: datetime
) -> Event:
    """Return the entry of the log book that approves a plan, to be kept as it is."""
    head = (
        f"{APPROVED} {loaded.plan.id} sha256 {loaded.sha256}"
        f" until {loaded.plan.expires_at.isoformat()} nonce {secrets.token_hex(16)}"
    )
    event = Event(
        id=new_identifier(now),
        site=site,
        kind=EventKind.NOTE,
        at=now,
        detail=head,
        source=f"{APPROVAL_SOURCE}: {who}",
    )
    return replace(event, detail=f"{head} signature {key.sign(_PURPOSE, _signed(event, head))}")


def is_signed(event: Event, key: SigningKey) -> bool:
    """Return whether an entry is an approval that was signed just as it stands."""
    match = _DETAIL.fullmatch(event.detail)
    if match is None:
        return False
    head, _, signature = event.detail.rpartition(" signature ")
    return key.signed(_PURPOSE, _signed(event, head), signature)


def claimed(events: Iterable[Event]) -> list[Event]:
    """Return the entries that claim to be an approval from the dashboard."""
    return [event for event in events if event.source.startswith(f"{APPROVAL_SOURCE}: ")]


def approvals(
    events: Iterable[Event], loaded: LoadedPlan, key: SigningKey, *, site: str, now: datetime
) -> Approvals:
    """Return the entries of a log book that approve exactly this plan, and those that only claim.

    Parameters
    ----------
    now
        Of the clock of the plan's host: what was approved later than that is not valid.
    """
    valid: dict[str, Event] = {}
    forged: list[Event] = []
    begins = f"{APPROVED} {loaded.plan.id} "
    for event in claimed(events):
        match = _DETAIL.fullmatch(event.detail)
        if not event.detail.startswith(begins):
            continue
        if (
            match is not None
            and event.site == site
            and match["sha256"] == loaded.sha256
            and match["expires"] == loaded.plan.expires_at.isoformat()
            and loaded.plan.made_at - CLOCKS <= event.at <= now + CLOCKS
            and is_signed(event, key)
        ):
            valid[match["nonce"]] = event
        else:
            forged.append(event)
    return Approvals((*valid.values(),), (*forged,))


def require_approval(
    events: Sequence[Event], loaded: LoadedPlan, key: SigningKey, *, site: str, now: datetime
) -> tuple[Event, ...]:
    """Return who approved a plan.

    Raises
    ------
    RefusedError
        The plan has expired, nobody approved it, or an entry only claims so.
    """
    known = approvals(events, loaded, key, site=site, now=now)
    if now >= loaded.plan.expires_at:
        raise RefusedError(
            f"the plan expired at {loaded.plan.expires_at:%Y-%m-%d %H:%M} UTC, and its approval "
            "with it",
            code="plan-expired",
        )
    if known.valid:
        return known.valid
    name = f"plan {loaded.plan.id} ({loaded.sha256[:16]}...)"
    if known.forged:
        entry = known.forged[-1]
        raise RefusedError(
            f"the log book claims an approval of {name} ({visible(entry.source)}), which the "
            "dashboard of this host did not sign as it stands: it was forged, altered, or copied "
            "from another plan",
            code="approval-forged",
            hint="find out who can write the store",
        )
    raise RefusedError(
        f"no admin approved {name} on the dashboard",
        code="plan-not-approved",
        hint="its page Purge shows the plan with this hash",
    )


def _signed(event: Event, head: str) -> bytes:
    """Return the bytes that are signed: everything of the entry but the signature itself."""
    until = None if event.until is None else event.until.isoformat()
    parts = [
        event.id, event.site, event.kind.value, event.at.isoformat(), until, head, event.source,
        list(event.targets),
    ]  # fmt: skip
    return json.dumps(parts).encode("ascii")
