"""Decides which targets may be surveyed, and which at the same time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import Message, RefusedError, UsageError
from trimtab.base.snapshot import CONNECTED, INACTIVE, NotAvailable, Snapshot, TargetSnapshot
from trimtab.base.units import format_bytes
from trimtab.probe.survey.survey_result import Candidate

LOAD_LIMIT_BYTES_PER_S: Final = 20e6
"""About a hundredth of what one all-flash OST carries."""
MARGIN_FRACTION: Final = 0.05
"""Of a target's size that stays free: obdfilter-survey does not tell that it ran out of space."""
MARGIN_BYTES: Final = 256 * 2**20
_COUNTERS: Final = ("bytes_written_total", "bytes_read_total")


@dataclass(frozen=True, slots=True)
class SurveyLimits:
    """What a target must meet.

    Attributes
    ----------
    size_bytes
        That a survey writes to it.
    load_bytes_per_s
        The most that others may move on it now; ``None``: not looked at.
    """

    size_bytes: int
    load_bytes_per_s: float | None = LOAD_LIMIT_BYTES_PER_S


def choose(snapshot: Snapshot, names: Sequence[str], *, everything: bool) -> tuple[str, ...]:
    """Return the OSTs that are meant, in their order.

    Raises
    ------
    UsageError
        A name is no OST of the site, or none is meant.
    """
    osts = sorted(target.target.name for target in snapshot.targets if target.target.kind == "ost")
    if not osts:
        raise UsageError(
            "no OST of the site is known: a survey measures Lustre's OSTs", code="no-ost"
        )
    unknown = [name for name in names if name not in osts]
    if unknown:
        raise UsageError(
            f"there is no OST {unknown[0]!r}",
            code="target-unknown",
            hint=f"known: {', '.join(osts[:12])}",
        )
    if not names and not everything:
        raise UsageError(
            "no OST is named", code="target-missing", hint="name OSTs with --target, or use --all"
        )
    return tuple(osts) if everything else tuple(dict.fromkeys(names))


def candidate(
    name: str, before: Snapshot, now: Snapshot, limits: SurveyLimits, *, on_server: bool
) -> Candidate:
    """Return a target with the reason not to survey it, if there is one.

    Parameters
    ----------
    before, now
        Two snapshots a few seconds apart: what was moved in between is the load.
    on_server
        Whether it is surveyed on its server; a client asks for less.
    """
    seen, earlier = now.of(name), before.of(name)
    if seen is None or earlier is None:
        return Candidate(name, None, refusal=Message("target-not-seen", "it was not seen twice"))
    elapsed_s = (now.at - before.at).total_seconds()
    load = _load(earlier, seen, elapsed_s)
    server = seen.target.server
    refusal = _state(seen) or _space(seen, limits)
    if refusal is None and on_server:
        refusal = _of_server(seen) or _too_loaded(load, limits)
    closed = False
    if refusal is None and not on_server and seen.value("create_enabled") is False:
        refusal, closed = Message("target-closed", "it is not open for creation"), True
    return Candidate(
        name,
        server,
        _partners(seen, server),
        seen.number("available_bytes"),
        None if isinstance(load, NotAvailable) else load,
        refusal,
        closed,
    )


def waves(candidates: Iterable[Candidate], *, together: bool) -> tuple[tuple[Candidate, ...], ...]:
    """Return the targets in waves: never two of one server or of two failover partners.

    A target whose partners are unknown shares a wave with no other.

    Parameters
    ----------
    together
        Whether all are measured at once, whichever server they are on.
    """
    allowed = [planned for planned in candidates if planned.refusal is None]
    if together:
        return (tuple(allowed),) if allowed else ()
    groups: list[list[Candidate]] = []
    for target in allowed:
        apart = (wave for wave in groups if not any(meet(target, other) for other in wave))
        wave = next(apart, None)
        if wave is None:
            groups.append([target])
        else:
            wave.append(target)
    return tuple(map(tuple, groups))


def meet(first: Candidate, other: Candidate) -> bool:
    """Return whether two targets share a server or a failover partner; unknown counts as shared."""
    if first.server is None or other.server is None or first.server == other.server:
        return True
    if first.partners is None or other.partners is None:
        return True
    return bool((first.partners | {first.server}) & (other.partners | {other.server}))


def refuse_named(candidates: Iterable[Candidate]) -> None:
    """Raise where a target that a person named may not be surveyed.

    Raises
    ------
    RefusedError
        With every reason.
    """
    reasons = [
        f"{named.target}: {named.refusal}" for named in candidates if named.refusal is not None
    ]
    if reasons:
        raise RefusedError(
            f"not surveyed: {'; '.join(reasons[:8])}",
            code="survey-refused",
            hint="nothing was done; leave them out, or wait until they are healthy and idle",
        )


def _state(seen: TargetSnapshot) -> Message | None:
    """Return the state of a target that forbids any survey."""
    if seen.value("read_only") is True:
        return Message("target-read-only", "it is read-only")
    errors = seen.number("errors_total")
    if errors:
        # An aborted journal makes it read-only, and everything else calls it well.
        return Message("target-errors", f"its file system counts {errors:.0f} errors")
    if seen.value("degraded") is True:
        return Message("target-degraded", "it is degraded")
    state = seen.value("import_state")
    if isinstance(state, str) and state not in CONNECTED:
        if state == INACTIVE:
            return Message("target-inactive", "the client does not use it")
        return Message("target-not-connected", f"it is not connected ({state})")
    return None


def _space(seen: TargetSnapshot, limits: SurveyLimits) -> Message | None:
    available, capacity = seen.number("available_bytes"), seen.number("capacity_bytes")
    if available is None or capacity is None:
        return Message("free-space-unknown", "its free space is unknown")
    margin = max(MARGIN_BYTES, MARGIN_FRACTION * capacity)
    if available >= limits.size_bytes + margin:
        return None
    return Message(
        "target-too-full",
        f"it is too full: {format_bytes(available)} are available,"
        f" {format_bytes(limits.size_bytes)} and a margin of {format_bytes(margin)} are needed",
    )


def _of_server(seen: TargetSnapshot) -> Message | None:
    """Return what forbids a survey on the target's server."""
    if seen.target.server is None:
        reading = seen.reading("server")
        why = None if reading is None else reading.reason
        text = f"no known server has it mounted: {why or 'no server reports it'}"
        return Message("server-unknown", text)
    if seen.value("failover_active") is True:
        return Message("target-failed-over", f"it has failed over to {seen.target.server}")
    for name, state in (("degraded", "degraded"), ("read_only", "read-only")):
        if seen.value(name) is None:
            return Message("target-state-unknown", f"whether it is {state} is unknown")
    return None


def _load(before: TargetSnapshot, now: TargetSnapshot, elapsed_s: float) -> float | NotAvailable:
    moved = 0.0
    if elapsed_s <= 0:
        return NotAvailable("no time between the two readings")
    for name in _COUNTERS:
        first, second = before.number(name), now.number(name)
        if first is None or second is None:
            return NotAvailable(f"{name} is unknown")
        if second < first:
            return NotAvailable(f"{name} decreased")
        moved += second - first
    return moved / elapsed_s


def _too_loaded(load: float | NotAvailable, limits: SurveyLimits) -> Message | None:
    if limits.load_bytes_per_s is None:
        return None
    if isinstance(load, NotAvailable):
        return Message("load-unknown", f"its load is unknown: {load.reason}")
    if load > limits.load_bytes_per_s:
        return Message(
            "target-busy",
            f"it is in use: {format_bytes(load)}/s are moved,"
            f" the limit is {format_bytes(limits.load_bytes_per_s)}/s",
        )
    return None


def _partners(seen: TargetSnapshot, server: str | None) -> frozenset[str] | None:
    setting = seen.settings.get("failover/servers")
    if setting is None or isinstance(setting, NotAvailable):
        return None
    return frozenset(setting.value.split()) - {server or ""}
