"""The input of controllers, a site at one time, and the reasons to change nothing on it.

`SiteObserved` has every observation that a controller may use, and no means to look anything up. A
target is left alone if it is unfit, a value is not written if it does harm, and all changes are
held while telemetry is unreliable or earlier actions went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final

from trimtab.base.action import (
    CLOCK_S,
    CREATION,
    Action,
    ActionKind,
    Instruction,
    Key,
    Ledger,
    Outcome,
    Plan,
    Untouched,
    ended_at,
    key_of,
    may_have_written,
)
from trimtab.base.error import Message
from trimtab.base.site import Site
from trimtab.base.snapshot import (
    CONNECTED,
    INACTIVE,
    NotAvailable,
    Reading,
    Snapshot,
    TargetSnapshot,
    TrimPractice,
)
from trimtab.base.units import enumerated, format_duration, plural

Answer = Instruction | Untouched
"""A controller's decision on a target, or on one of its settings."""


@dataclass(frozen=True, slots=True)
class SiteObserved:
    """A site at one time.

    Attributes
    ----------
    site
        Its limits, policies, servers and time zone.
    snapshot
        The newest snapshot; ``None`` if there is none.
    baseline
        An earlier snapshot, at least an hour older if possible, for rates and changes since.
    actions
        The ledger, oldest first, including actions without an outcome: all settings, closings and
        openings ever, trims and resets of at least two intervals, everything else of thirty days.
    busy
        Target to why it must be left alone now: a probe, survey, purge, rebuild or recovery. The
        empty name means all targets.
    practices
        Target to how the system itself trims it.
    pools
        Pool to its OSTs, or why they are unknown.
    measured
        Target to when a probe or survey last measured it alone.
    integrity
        Open incidents and findings about wrong data, each as a sentence.
    clock_jump_s
        Difference between the clocks of this host and the servers, or between the last snapshot and
        now, in seconds; 0 if they agree.
    """

    site: Site
    snapshot: Snapshot | None
    baseline: Snapshot | None = None
    actions: tuple[Action, ...] = ()
    busy: Mapping[str, Message] = field(default_factory=dict)
    practices: Mapping[str, TrimPractice | NotAvailable] = field(default_factory=dict)
    pools: Mapping[str, frozenset[str]] | NotAvailable = field(default_factory=dict)
    measured: Mapping[str, datetime] = field(default_factory=dict)
    integrity: tuple[Message, ...] = ()
    clock_jump_s: float = 0.0

    def plan(
        self,
        policy: str,
        now: datetime,
        answers: Sequence[Answer] = (),
        held: tuple[Message, ...] = (),
    ) -> Plan:
        """Return a plan based on these observations."""
        at = None if self.snapshot is None else self.snapshot.at
        instructions = tuple(each for each in answers if isinstance(each, Instruction))
        untouched = tuple(each for each in answers if isinstance(each, Untouched))
        return Plan(self.site.name, policy, now, at, instructions, untouched, held)


ABSENT: Final = Message("target-absent", "it is not in the snapshot")
_SERVED: Final = frozenset({"ost", "mdt"})
"""Kinds of targets with a server; a local file system is served by this host."""


def server_of(seen: TargetSnapshot) -> str | None:
    """Return the server that serves a target now, also after a failover; ``None`` if unknown."""
    reading = seen.reading("server")
    if reading is None:
        return seen.target.server
    return None if reading.value is None else str(reading.value)


def why_left_alone(observed: SiteObserved, seen: TargetSnapshot) -> Message | None:
    """Return why a target may not be changed; an unknown state is a reason too."""
    busy = observed.busy.get("") or observed.busy.get(seen.target.name)
    return busy or unreached(observed, seen) or unfit(seen)


def unfit(seen: TargetSnapshot) -> Message | None:
    """Return why a target cannot take new data normally: read-only or rebuilding."""
    read_only = seen.reading("read_only")
    if read_only is not None and read_only.value is True:
        return Message("target-read-only", f"it is read-only: {read_only.source}")
    if read_only is not None and read_only.value is None and seen.number("errors_total"):
        return Message("target-read-only", f"it may be read-only: {read_only.reason}")
    for reading in seen.readings:
        if reading.name == "degraded" and reading.value is True:
            of = "it" if reading.label is None else reading.label
            return Message("target-degraded", f"{of} is degraded: {reading.source}")
    return None


def up_before_s(seen: TargetSnapshot, now: datetime, then: datetime) -> float | None:
    """Return its server's uptime at an earlier time in seconds; negative if restarted since."""
    uptime_s = seen.number("server_uptime_s")
    return None if uptime_s is None else uptime_s - (now - then).total_seconds()


def closed_in_part(seen: TargetSnapshot) -> Reading | None:
    """Return the reading of an MDT that creates no files on a target, if any."""
    of_mdts = (each for each in seen.readings if each.name == "create_enabled" and each.label)
    return next((reading for reading in of_mdts if reading.value is False), None)


def disconnected(seen: TargetSnapshot) -> Message | None:
    """Return a reason if the connections show that a target is disconnected or recovering."""
    state = seen.value("import_state")
    if state is None or state in CONNECTED or state == INACTIVE:
        return None
    return Message("target-disconnected", f"it is disconnected or recovering: {state}")


def unreached(observed: SiteObserved, seen: TargetSnapshot) -> Message | None:
    """Return why the state of a target is unknown: its server or the connection to it."""
    server = server_of(seen)
    if seen.target.kind in _SERVED and server is None:
        reading = seen.reading("server")
        why = reading.reason if reading is not None else "the snapshot names none"
        return Message("server-unknown", f"its server is unknown: {why}")
    for host in observed.snapshot.hosts if observed.snapshot is not None else ():
        if host.name == server and host.role == "server" and host.problem is not None:
            return Message("server-partial", f"{server} answered only in part: {host.problem}")
    return disconnected(seen)


_FOLDED: Final = re.compile(r"(\S.*?) \(([^()]*)\)(?:, |\Z)")
_CHOSEN: Final = re.compile(r"\[(\S+)\]")
_PERCENT: Final = re.compile(r"([0-9]{1,3})%?")
_PERCENTAGES: Final = re.compile(r"(mdt_)?qos_(threshold_rr|prio_free)|mb_c[123]_threshold")
_STORED: Final = 256
"""Lustre stores a percentage in parts of 256: lustre/lod/lproc_lod.c."""


@lru_cache(maxsize=4096)
def unfolded(text: str) -> tuple[str, ...]:
    """Return the distinct values of a setting that was folded over drives or MDTs.

    Examples
    --------
    >>> unfolded("0 (11), 2000 (nvme3n1)"), unfolded("4 8 16 ")
    (('0', '2000'), ('4 8 16',))
    """
    matches, end = [], 0
    for match in _FOLDED.finditer(text):
        if match.start() != end:
            break
        matches.append(match[1])
        end = match.end()
    values = matches if matches and end == len(text) else [text]
    return tuple(dict.fromkeys(" ".join(value.split()) for value in values))


def leaf_of(setting: str) -> str:
    """Return the last part of a setting's name."""
    return setting.rpartition("/")[2]


def is_same(setting: str, shown: str, requested: str) -> bool:
    """Return whether every value that a setting shows is the one requested.

    Surrounding spaces and percent signs are ignored. In a list of choices only the bracketed one
    counts. Percentages are stored as n/256 and read back rounded, so a neighbour that may be read
    back after writing the requested one is the same; but 0 and 100, which switch something off,
    must match exactly.

    Examples
    --------
    >>> is_same("lod/qos_threshold_rr", "18%", "17"), is_same("q/scheduler", "[none] bfq", "none")
    (True, True)
    >>> is_same("drives/queue/wbt_lat_usec", "0 (11), 2000 (nvme3n1)", "0")
    False
    """
    return not differing(setting, shown, requested)


def differing(setting: str, shown: str, requested: str) -> tuple[str, ...]:
    """Return the values of a setting that differ from the one requested."""
    return tuple(value for value in unfolded(shown) if not _agree(setting, value, requested))


@lru_cache(maxsize=4096)
def _agree(setting: str, value: str, requested: str) -> bool:
    words = " ".join(requested.split())
    chosen = _CHOSEN.search(value)
    if chosen is not None and len(value.split()) > 1:
        value = chosen[1]
    if value == words:
        return True
    left, right = _PERCENT.fullmatch(value), _PERCENT.fullmatch(words)
    if left is None or right is None:
        return False
    if _PERCENTAGES.fullmatch(leaf_of(setting)):
        return int(left[1]) in _read_back(int(right[1]))
    return int(left[1]) == int(right[1])


def _read_back(percent: int) -> frozenset[int]:
    """Return what a percentage may read back as, rounded either way when stored and when read."""
    if percent in {0, 100}:
        return frozenset({percent})
    stored = percent * _STORED // 100
    reads = {part * 100 // _STORED + up for part in (stored, stored + 1) for up in (0, 1)}
    return frozenset(reads - {0, 100}) | {percent}


_GATES: Final = frozenset(
    {
        "active", "degraded", "max_create_count", "no_create", "no_precreate", "readonly",
        "reserved_mb_low", "reserved_mb_high",
    }
)  # fmt: skip
"""These close targets, which `trimtab.act.decide.balance` does within caps."""
_COUNTERS: Final = frozenset(
    {
        "brw_stats", "discard_stats", "job_stats", "mb_alloc_stats", "qos_ost_weights", "stats",
    }
)  # fmt: skip
"""A write clears these counters."""
_POINTERS: Final = frozenset({"mb_last_group", "mb_last_groups", "mb_last_start"})
_OFF: Final = frozenset({"0", "off", "none", "no", "n", "false", "disable", "disabled"})


def harm_of(setting: str, value: str) -> Message | None:
    """Return why a value must not be written to a setting; ``None`` if it may.

    Examples
    --------
    >>> harm_of("drives/queue/discard_max_bytes", "0").code
    'value-harmful'
    """
    leaf = leaf_of(setting)
    if leaf == "discard_max_bytes" and not _is_positive(value):
        # Seen on Linux 6.12: every other value is refused until the device is probed again.
        text = f"{leaf} = {value} switches discards off irreversibly"
        return Message("value-harmful", text)
    if leaf.startswith("checksum") and value.strip().lower() in _OFF:
        text = f"{leaf} = {value} switches checksums off: wrong data would go unnoticed"
        return Message("value-harmful", text)
    if leaf == "prealloc_table" and not _is_increasing(value):
        # Seen on Lustre 2.17: the write succeeds and empties the table.
        return Message(
            "value-harmful", f"{leaf} takes only increasing numbers greater than 0, not {value}"
        )
    if leaf in _GATES:
        return Message("setting-forbidden", f"{leaf} closes targets: [policy.balance] does that")
    if leaf in _POINTERS:
        return Message("setting-forbidden", f"{leaf} moves by itself: [policy.allocator] resets it")
    if leaf in _COUNTERS or leaf.startswith("trigger_"):
        return Message("setting-forbidden", f"{leaf} is not a setting: a write clears or breaks it")
    return None


def _is_positive(text: str) -> bool:
    word = text.strip()
    return word.isascii() and word.isdigit() and int(word) > 0


def _is_increasing(text: str) -> bool:
    words = text.split()
    if not words or not all(map(_is_positive, words)):
        return False
    numbers = [int(word) for word in words]
    return all(low < high for low, high in pairwise(numbers))


REREAD_S: Final = 120.0
"""After this time an unanswered write has ended or hangs; later readings show its result."""
TRIM_S: Final = 6 * 3600.0
"""A trim without an outcome may still be running for this long."""
EFFECT_S: Final = (60.0, 900.0)
"""Telemetry this long after an action shows its effect: an MDT sees ``no_create`` after 5 s."""
LASTING: Final = 3
"""An instruction done this often in a day and not in effect is being undone by others."""
TOO_MANY: Final = Message("too-many-actions", "hourly limit of changes reached")
_DAY: Final = timedelta(days=1)
_WHOLE: Final = frozenset({"migrate"})
"""Policies that need a complete snapshot: a file may have objects on any target."""


def held(
    observed: SiteObserved, policy: str, now: datetime, *, giving_back: bool = False
) -> tuple[Message, ...]:
    """Return why nothing may be changed now, one sentence per reason; empty if changes may go on.

    Every controller calls it first. *Giving back* (opening a target that Trimtab closed, reverting)
    is held for fewer reasons: a used-up hourly limit or an action that others undid forbid new
    changes, but not undoing old ones. A missing, stale or future snapshot, a clock jump and wrong
    data hold everything. An incomplete snapshot holds only policies that need all of it: an unseen
    target is left alone (`why_left_alone`) and counts against the caps.

    Parameters
    ----------
    policy
        ``tunables``, ``trim``, ``balance``, ``allocator``, ``migrate`` or ``revert``. Failed
        actions hold only their own policy.
    giving_back
        Only the reasons that hold openings and reverts too.
    """
    reasons = [*_telemetry(observed, now), *_clocks(observed, now), *_integrity(observed)]
    if not giving_back:
        reasons += [*_hour(observed, now), *_actions(observed, policy, now)]
        if policy in _WHOLE:
            reasons += incomplete(observed)
    return tuple(reasons)


def allowance(observed: SiteObserved, now: datetime) -> int:
    """Return how many more changes are allowed in this hour.

    Allocator resets do not count: they repeat at their own interval and change no setting.
    """
    since = now - timedelta(hours=1)
    made = sum(
        action.at > since
        and may_have_written(action)
        and action.instruction.kind is not ActionKind.RESET_ALLOCATOR
        for action in observed.actions
    )
    return max(0, observed.site.policies.most_per_hour - made)


def undone(observed: SiteObserved, now: datetime) -> dict[Key, Message]:
    """Return the changes that others keep undoing, each with the reason to stop.

    These are instructions done three times within a day, identical each time, and not in effect in
    the snapshot. Trims and resets repeat by nature and do not count.
    """
    if observed.snapshot is None:
        return {}
    stopped = {}
    for key, actions in Ledger(observed.actions).by_key.items():
        row = _repeated(actions, now)
        if len(row) >= LASTING and _in_effect(observed.snapshot, row[-1]) is False:
            text = f"done {plural(len(row), 'time')} in a day and undone by others each time"
            stopped[key] = Message("undone-repeatedly", f"{_named(row[-1])} was {text}")
    return stopped


def _telemetry(observed: SiteObserved, now: datetime) -> Iterator[Message]:
    if observed.snapshot is None:
        yield Message("no-snapshot", "no snapshot: state of the targets unknown")
        return
    age_s = (now - observed.snapshot.at).total_seconds()
    most_s = observed.site.policies.stale_s
    if age_s < -CLOCK_S:
        text = f"the snapshot is dated {format_duration(-age_s)} in the future: a clock is wrong"
        yield Message("snapshot-in-future", text)
    elif age_s > most_s:
        yield Message(
            "snapshot-stale",
            f"the snapshot is {format_duration(age_s)} old; at most {format_duration(most_s)} is "
            "allowed",
        )


def _clocks(observed: SiteObserved, now: datetime) -> Iterator[Message]:
    # An action settled after a kill may have ended, by its clock, before it began.
    times = (max(action.at, ended_at(action)) for action in observed.actions)
    ahead_s = max(((at - now).total_seconds() for at in times), default=0.0)
    if abs(observed.clock_jump_s) > CLOCK_S:
        text = f"clocks differ by {format_duration(abs(observed.clock_jump_s))}"
        yield Message("clock-jump", text)
    elif ahead_s > CLOCK_S:
        text = f"an action in the ledger is dated {format_duration(ahead_s)} in the future"
        yield Message("clock-jump", f"{text}: a clock is wrong")


def _integrity(observed: SiteObserved) -> Iterator[Message]:
    if observed.integrity:
        more = len(observed.integrity) - 1
        also = f", and {more} more" if more else ""
        yield Message("integrity-open", f"data may be wrong: {observed.integrity[0]}{also}")


def incomplete(observed: SiteObserved) -> Iterator[Message]:
    """Yield a reason if part of the snapshot is missing, and names who did not answer."""
    snapshot = observed.snapshot
    if snapshot is None or snapshot.complete:
        return
    hosts = [
        host.name for host in snapshot.hosts if host.role == "server" and not host.answered
    ] or [seen.target.name for seen in snapshot.targets if seen.value("used_bytes") is None]
    missing = f"no answer from {enumerated(hosts)}" if hosts else "a part did not answer"
    yield Message("snapshot-incomplete", f"the snapshot is incomplete: {missing}")


def _hour(observed: SiteObserved, now: datetime) -> Iterator[Message]:
    if allowance(observed, now) == 0:
        most = observed.site.policies.most_per_hour
        text = f"{plural(most, 'change', ',')} made in the last hour, the most allowed"
        yield Message("too-many-actions", text)


def _actions(observed: SiteObserved, policy: str, now: datetime) -> Iterator[Message]:
    snapshot = observed.snapshot
    if snapshot is None:
        return
    unread = [a for a in observed.actions if a.policy == policy and _unread(a, snapshot)]
    if unread:
        also = f" and of {len(unread) - 1} more" if len(unread) > 1 else ""
        text = f"outcome of {_named(unread[-1])}{also} unknown"
        yield Message("action-open", f"{text}: waiting for a newer snapshot")
    last = _last(observed.actions, policy)
    ineffective = {key[0] for key, row in last.items() if _without_effect(row, snapshot, now)}
    if ineffective:
        text = f"changes on {enumerated(sorted(ineffective))} had no effect"
        yield Message("no-effect", text)
    stopped = {key[0] for key in undone(observed, now) if key in last}
    if len(stopped) >= LASTING:
        text = f"others keep undoing changes on {enumerated(sorted(stopped))}"
        yield Message("undone-repeatedly", text)


def _unread(action: Action, snapshot: Snapshot) -> bool:
    """Return whether an action has no outcome yet and no reading after it."""
    if action.outcome not in {None, Outcome.UNKNOWN}:
        return False
    wait_s = TRIM_S if action.instruction.kind is ActionKind.TRIM else REREAD_S
    return (snapshot.at - ended_at(action)).total_seconds() < wait_s


def _last(actions: Iterable[Action], policy: str) -> dict[Key, Action]:
    """Return the newest action on each subject, if that policy took it."""
    rows = {key_of(a.instruction): a for a in sorted(actions, key=ended_at) if may_have_written(a)}
    return {key: row for key, row in rows.items() if row.policy == policy}


def _without_effect(action: Action, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether an action had no effect, as recorded or as telemetry soon after shows."""
    if action.outcome is not Outcome.DONE:
        return False
    if "effect" in action.facts:
        return action.facts["effect"] == "none" and ended_at(action) > now - _DAY
    first_s, last_s = EFFECT_S
    seen_after_s = (snapshot.at - ended_at(action)).total_seconds()
    seen = snapshot.of(action.instruction.target)
    up_then_s = None if seen is None else up_before_s(seen, snapshot.at, ended_at(action))
    if up_then_s is not None and up_then_s < -CLOCK_S:
        return False  # its server restarted since: the value was lost, and is set again
    return first_s <= seen_after_s <= last_s and _in_effect(snapshot, action) is False


def _in_effect(snapshot: Snapshot, action: Action) -> bool | None:
    """Return whether a snapshot shows an action's effect; ``None`` if it cannot show it."""
    instruction, seen = action.instruction, snapshot.of(action.instruction.target)
    if seen is None:
        return None
    if instruction.kind in CREATION:
        enabled = seen.value("create_enabled")
        # An opened target may stay closed because of others or for lack of space: not a missing
        # effect.
        return None if enabled is None or instruction.kind is ActionKind.OPEN else enabled is False
    if instruction.kind is not ActionKind.SET or instruction.setting is None:
        return None
    shown = seen.shown(instruction.setting)
    if shown is None or instruction.value is None:
        return None
    return is_same(instruction.setting, shown, instruction.value) or shown == action.found


def _repeated(actions: list[Action], now: datetime) -> list[Action]:
    """Return the day's last run of identical actions."""
    row: list[Action] = []
    for action in actions:
        if action.outcome is not Outcome.DONE or action.at <= now - _DAY:
            continue
        instruction = action.instruction
        if instruction.kind not in {ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN}:
            continue
        if row and _content(row[-1]) != _content(action):
            row = []
        row.append(action)
    return row


def _content(action: Action) -> tuple[ActionKind, str | None]:
    kind = action.instruction.kind
    return kind, action.instruction.value if kind is ActionKind.SET else None


def _named(action: Action) -> str:
    instruction = action.instruction
    of = f" {instruction.setting} of" if instruction.setting else ""
    return f"{instruction.kind}{of} {instruction.target}"
