"""Arm a plan: record who approved that it may be carried out, and since when that holds.

Arming guards against haste and mistakes, not against root, who can write its records too.

On this host it is a line in an append-only file beside the plan's journal. Two people are
distinguished by their login (``loginuid``, which is set once at login and survives ``su`` and
``sudo``).

On the dashboard it is an entry of the log book. Whoever can write the store can write an entry, so
it counts only with a signature by the key of the host's plans, which only root can read: over the
site, the plan and its hash, who approved it and when, when the plan expires, and a number that is
used once. Copied to another plan or site, or with another name or time, an entry is invalid.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from trimtab.base.encode import shape
from trimtab.base.error import RefusedError, TrimtabError, UnreadableError, visible
from trimtab.base.event import Event, EventKind, new_identifier
from trimtab.base.trusted_file import read_trusted, trusted_directory, write_durably
from trimtab.purge.owner import user_name
from trimtab.purge.plan.plan_directory import LoadedPlan, plan_in
from trimtab.purge.plan.plan_signature import SigningKey, read_key
from trimtab.purge.purge_policy import Arming
from trimtab.purge.run.situation import ArmedBy, ArmingFacts
from trimtab.site.lookup import open_store, site_file
from trimtab.site.place import place_of
from trimtab.store.location import PurgePlace, prepared

APPROVED: Final = "approved purge plan"
APPROVAL_SOURCE: Final = "dashboard approval"
"""Source of approvals in the log book; entries that people write have other sources."""
CLOCKS: Final = timedelta(minutes=5)
"""Permitted difference between the clocks of the dashboard's host and the plan's."""
_PURPOSE: Final = "purge approval"
_DETAIL: Final = re.compile(
    rf"{APPROVED} (?P<plan>\S+) sha256 (?P<sha256>[0-9a-f]{{64}}) until (?P<expires>\S+)"
    r" nonce (?P<nonce>[0-9a-f]{32}) signature (?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Approvals:
    """Entries of the log book about one plan.

    Attributes
    ----------
    valid
        Entries that approve exactly this plan.
    forged
        Entries that claim to, but are not signed, or were changed after signing.
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
    """Return whether an entry is an approval that was signed in exactly this form."""
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
    """Return the entries of a log book that approve exactly this plan, and those that claim to.

    Parameters
    ----------
    now
        Current time of the plan's host: later approvals are not valid.
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
        The plan has expired, is not approved, or has only a forged approval.
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
            "dashboard of this host did not sign in this form: it was forged, altered, or copied "
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


ARMED_SUFFIX: Final = ".armed.jsonl"
_NOBODY: Final = 4294967295
"""``loginuid`` of a process without a login, in a daemon or a container."""
_SIZE_MAX_BYTES: Final = 1 << 20


def person_now(login_file: Path = Path("/proc/self/loginuid")) -> int | None:
    """Return the uid of the login behind this process; ``None`` if unknown.

    Without kernel login records ``SUDO_UID`` in the environment is used.
    """
    try:
        login = int(login_file.read_text("ascii"))
    except (OSError, ValueError):
        login = _NOBODY
    if login != _NOBODY:
        return login
    sudo_uid = os.environ.get("SUDO_UID", "")
    return (
        int(sudo_uid)
        if sudo_uid.isascii() and sudo_uid.isdigit() and int(sudo_uid) < _NOBODY
        else None
    )


def who_now() -> str:
    """Return who started this process, as far as known."""
    import getpass

    person = person_now()
    login = "" if person is None else f" (login {person})"
    try:
        return f"{getpass.getuser()}{login}"
    except (KeyError, OSError):
        return f"uid {os.getuid()}{login}"


def arm(
    directory: Path, plan: str, sha256: str, *, at_s: float, person: int | None, owner: int = 0
) -> ArmedBy:
    """Record on stable storage who armed a plan, and return the entry.

    Raises
    ------
    RefusedError
        Others than root can write the directory.
    UnreadableError
        It cannot be written.
    """
    armed = ArmedBy(at_s, person, _name(person))
    line = {"plan": plan, "sha256": sha256, "at_s": at_s, "person": person, "name": armed.name}
    name = f"{plan}{ARMED_SUFFIX}"
    with trusted_directory(directory, "the journals' directory", owner=owner) as held:
        before = _content(name, held, owner)
        write_durably(name, held, before + json.dumps(line).encode("ascii") + b"\n")
    return armed


def read_arming(directory: Path, plan: str, sha256: str, *, owner: int = 0) -> ArmingFacts:
    """Return who armed a plan, or the problem with its file."""
    try:
        with trusted_directory(directory, "the journals' directory", owner=owner) as held:
            data = _content(f"{plan}{ARMED_SUFFIX}", held, owner)
        lines = tuple(_armed(line, plan, sha256) for line in data.splitlines())
    except TrimtabError as error:
        return ArmingFacts(error.message)
    return ArmingFacts(None, lines)


def _content(name: str, directory: int, owner: int) -> bytes:
    try:
        return read_trusted(
            name, directory, "the arming file", maximum_bytes=_SIZE_MAX_BYTES, owner=owner
        )
    except UnreadableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return b""
        raise


def _armed(text: bytes, plan: str, sha256: str) -> ArmedBy:
    try:
        line: Any = json.loads(text)
        armed = ArmedBy(float(line["at_s"]), line["person"], str(line["name"]))
        bound = (line["plan"], line["sha256"])
        if armed.person is not None and type(armed.person) is not int:
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RefusedError("malformed line in the arming file", code="arming-malformed") from error
    if bound != (plan, sha256):
        raise RefusedError("the arming file belongs to another plan", code="arming-mismatch")
    return armed


def _name(person: int | None) -> str:
    return visible((None if person is None else user_name(person)) or "")


@dataclass(frozen=True, slots=True)
class PurgeArmDocument:
    """The persons who armed a plan, and from when that counts; null: a second person is missing.

    Attributes
    ----------
    by
        Person who armed it now.
    everybody
        All who armed it, in order of time.
    arming
        Requirement of the policy.
    """

    loaded: LoadedPlan
    by: ArmedBy
    everybody: tuple[ArmedBy, ...]
    arming: Arming

    @property
    def at(self) -> datetime:
        """When it was armed now."""
        return datetime.fromtimestamp(self.by.at_s, UTC)

    @property
    def not_before(self) -> datetime:
        """When its notice period ends."""
        assert self.loaded.publication is not None
        return self.loaded.publication.not_before

    @property
    def people(self) -> int:
        """Number of known persons who armed it."""
        return len({armed.person for armed in self.everybody if armed.person is not None})

    @property
    def effective_at(self) -> datetime | None:
        """Whole second from which on it counts; ``None``: a second person is missing."""
        if self.arming.kind == "delay":
            at_s = min(armed.at_s for armed in self.everybody) + self.arming.delay_s
        elif self.people > 1:
            at_s = self.by.at_s
        else:
            return None
        return datetime.fromtimestamp(int(at_s), UTC)


shape(
    PurgeArmDocument,
    omit=["by", "everybody", "arming"],
    inline={"loaded": ("plan",)},
    derive={
        "at": "at",
        "person": "by.person",
        "name": "by.name",
        "kind": (str, attrgetter("arming.kind")),
        "people": "people",
        "effective_at": "effective_at",
        "not_before": "not_before",
        "expires_at": "loaded.plan.expires_at",
    },
)


def approval_on(
    where: str, store_url: str | None, place: PurgePlace, now: datetime
) -> Callable[[LoadedPlan], object]:
    """Return what raises unless an admin approved a plan on the dashboard of a site."""

    def check(loaded: LoadedPlan) -> object:
        loaded_site = site_file(where)
        site = None if loaded_site is None else loaded_site.site
        with open_store(store_url, site) as store:
            name = place_of(store, where).name
            key = read_key(place.key, owner=place.owner)
            return require_approval(store.events(site=name), loaded, key, site=name, now=now)

    return check


def arm_plan(
    directory: Path,
    *,
    place: PurgePlace,
    now: datetime,
    person: int | None = None,
    check: Callable[[LoadedPlan], object] | None = None,
) -> PurgeArmDocument:
    """Arm a plan, which must be published, and return the document about it.

    Parameters
    ----------
    person
        Uid of the person who arms it; ``None``: the login that led to this process.
    check
        Raises if the plan may not be armed.

    Raises
    ------
    RefusedError
        The plan is not published yet, expired, or is not what was signed.
    """
    loaded, _ = plan_in(directory, place.key, owner=place.owner)
    if loaded.publication is None:
        raise RefusedError(
            "the plan is not published: it would be armed before anyone has seen it",
            code="plan-unpublished",
            hint="trimtab purge notify PLAN",
        )
    if now >= loaded.plan.expires_at:
        raise RefusedError(
            f"the plan expired at {loaded.plan.expires_at:%Y-%m-%d %H:%M} UTC",
            code="plan-expired",
            hint="scan, and make a new one",
        )
    if check is not None:
        check(loaded)
    journals = prepared(place).journals
    bound = (journals, loaded.plan.id, loaded.sha256)
    by = arm(
        *bound,
        at_s=now.timestamp(),
        person=person_now() if person is None else person,
        owner=place.owner,
    )
    facts = read_arming(*bound, owner=place.owner)
    if facts.trouble is not None:
        raise RefusedError(facts.trouble)
    return PurgeArmDocument(loaded, by, facts.armed_by, loaded.policy.arming)
