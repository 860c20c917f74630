"""`configuration-change`: a setting was changed, and the level shifted at that time.

NERSC had two: a CPU vulnerability mitigation (SafeRet, writes down 14 %) and checksums (down 17 %),
each a lasting step in everything at once [S1, VI]. A match says what a setting costs, never that it
should be reverted: both are protections and stayed on.

```
   log book        ·   ·        x                 an entry, or
   settings    0 0 0 0 0 0 0 0 0│1 1 1 1 1 1 1    a value that differs from the last snapshot
   runs        ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔│▁▁▁▁▁▁▁▁▁▁▁▁▁    a step right after it
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Against, Evidence, Route, Shape
from trimtab.base.units import format_percent
from trimtab.explain.breadth import breadth, survey_view
from trimtab.explain.causes.evidence import (
    beyond_chance,
    log_is_kept,
    named,
    names_are_stable,
    with_circumstance,
)
from trimtab.explain.causes.onset import SAME_DAY, down_before, length_of, onset_of
from trimtab.explain.causes.setting_path import passed_by, paths_of
from trimtab.explain.context import Cause, Context, once
from trimtab.explain.contrast import Sign
from trimtab.explain.sight import (
    EVERYWHERE,
    LAYER_OF_KIND,
    SEES,
    Layer,
    View,
    settings_see,
)
from trimtab.explain.telemetry_frame import OSTS, SettingChange, observe

KINDS: Final = (EventKind.CONFIG_CHANGE, EventKind.CAPACITY_ADDED)
STATES: Final = re.compile(
    r"brw_stats/|(?:.*/)?(?:mb_last_groups?|discard_stats|prealloc_table|lifetime_\w+|\w+_error_\w+)\Z"
    r"|(?:.*/)?(?:degraded|readonly|no_create|no_precreate|active|max_create_count)\Z"
    r"|(?:failover/|server\Z|hostname\Z|nids\Z|health_check\Z|devices\Z)|(?:.*/)?wbt_lat_usec\Z"
)
"""Settings that change by themselves, are counters, or belong to another cause: who serves a
target, whether objects are created on it, whether writeback is throttled."""
KNOWN_EFFECTS: Final = (
    (re.compile(r"checksum", re.I), "checksums", 0.823),
    (re.compile(r"saferet|srso|mitigation|inception|bios|microcode", re.I), "SafeRet", 0.86),
)
"""As measured by NERSC: 673,320 to 554,012 MB/s, and 14 % [S1, VI]."""
_EFFECT_WITHIN: Final = 0.05

_SOON: Final = timedelta(hours=3)
_BEFORE: Final = timedelta(hours=48)
_AFTER: Final = timedelta(hours=24)
_CHANCE_OF_GAP: Final = ((_SOON, 0.8), (SAME_DAY, 0.15), (_BEFORE, 0.05))
"""How soon an effective change shows: usually with the next runs. A judgement: for the two in [S1]
only the day is known."""
CONFIG_CHANGE: Final = EventKind.CONFIG_CHANGE
_OF_STORAGE: Final = re.compile(
    r"\b(?:lustre|o[sb]t\w*|mdt\w*|oss\w{0,3} (?:kernel|firmware)|mds|lnet|lnd|ldiskfs|zfs|osc|mdc"
    r"|llite|checksums?|mb_\w+|wbt\w*|stripe|striping|rpcs?\w*|read.?ahead|kernel|bios|firmware|microcode"
    r"|mitigations?|saferet|srso|driver|ofed|fabric|switch|network|slingshot|infiniband|nvme|drives?"
    r"|raid|clients?|compute nodes?|node image|image|mtu|numa|power cap|governor|turbo|c.?states?"
    r"|nids?|mount|hyper.?threading|smt)\b",
    re.I,
)
"""Words for anything between a probe and its bytes."""
_OF_OTHERS: Final = re.compile(
    r"\b(?:monitor\w*|agents?|grafana|prometheus|dashboards?|exporters?|log.?rotation|logrotate"
    r"|login|quotas?|tickets?|accounts?|ldap|slurm|partitions?|scheduler|queue|backup|web|wiki"
    r"|documentation|certificates?|mail|ups|users?|database|gitlab|jupyter)\b",
    re.I,
)
_WORDS_OF_LAYERS: Final[tuple[tuple[frozenset[Layer], re.Pattern[str]], ...]] = tuple(
    (frozenset(layers), re.compile(rf"\b(?:{words})\b", re.I))
    for layers, words in (
        # Clients compute checksums of what crosses the network; a survey on servers has none.
        (("client", "network"), r"checksums?"),
        (("client",), r"clients?|compute nodes?|node image|llite|osc|mdc|saferet|srso|inception"
                      r"|mitigations?|bios|microcode|smt|hyper.?threading|read.?ahead|rpcs?\w*"),
        (("network",), r"fabric|switch|lnet|lnd|mtu|slingshot|infiniband|ofed|network|nids?"),
        (("server",), r"oss\w{0,3}|mds\w{0,3}|servers?"),
        (("target",), r"ost\w*|mdt\w*|obd\w*|mb_\w+|ldiskfs|zfs|stripe|striping|wbt\w*"),
        (("drive",), r"nvme|drives?|raid"),
    )
)  # fmt: skip
"""What an entry says was changed, and the layers at which such a change acts."""
_OTHER_SUBJECT: Final = 0.15
"""Words of an unrelated entry: "monitoring agent updated"."""
_NO_SUBJECT: Final = 0.8
_UNKNOWN_SETTING: Final = 1.2
"""Maximum weight of a setting of which no path is known."""
_EVENT_MOST: Final = 1.7
_SETTING_MOST: Final = 1.6
_LATE_MOST: Final = 0.8
"""Maximum weight of an entry written after runs had become slow."""
_SHOWN_TOO: Final = 0.4
"""A setting that confirms a log book entry."""
_ADDED: Final = 1.5
"""Targets are added about once a year [S1, table I]: within a day of the first bad run that is
hardly a coincidence."""
_NOTHING_LOGGED: Final = -0.4
"""Two in five changes are not written down where a log book is kept: a judgement."""
_NOT_TAKEN_BACK: Final = -0.8
_CLOSE: Final = timedelta(hours=6)
"""How close to the end a change that ended it was made."""
_NOTHING_SET: Final = -0.3
"""Firmware, mitigations, power limits and switches are rarely collected."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a change of configuration."""
    event, weight = _event(context)
    changes, setting = _changes(context), _near(context)
    seen = (
        _logged(context, event, weight, shown=bool(setting)),
        _set(context, setting, changes, logged=weight),
        _targets_added(context, logged=weight),
        _alike(context, event, setting),
        _taken_back(context, setting, changes, logged=weight),
        _as_large(context, event if weight > 0 else None, setting),
    )
    return with_circumstance(seen, _shape(context))


@once
def acts_on(context: Context) -> frozenset[Layer]:
    """Return the layers of the changes at the onset; all layers if these are unknown."""
    event, weight = _event(context)
    layers = {LAYER_OF_KIND[near.kind] for near in _near(context) if near.kind in LAYER_OF_KIND}
    if event is not None and weight > 0:
        of_event = _layers_of(event)
        if not of_event:
            return EVERYWHERE
        layers |= of_event
    return frozenset(layers) or EVERYWHERE


def _layers_of(event: Event) -> frozenset[Layer]:
    """Return the layers that an entry names; none if it does not say what was changed."""
    named_layers = [layers for layers, words in _WORDS_OF_LAYERS if words.search(event.detail)]
    of_targets: list[frozenset[Layer]] = [frozenset({"target"})] if event.targets else []
    return frozenset[Layer]().union(*named_layers, *of_targets)


@once
def _changes(context: Context) -> tuple[SettingChange, ...]:
    """Return the settings that were changed, without those that move by themselves."""
    changes = observe(context).setting_changes()
    return tuple(change for change in changes if STATES.match(change.name) is None)


@once
def _event(context: Context) -> tuple[Event | None, float]:
    """Return the log book entry that best fits the onset, and its weight."""
    changes = context.entries(lambda event: event.kind in KINDS and event.at <= context.now)
    begins, ends = onset_of(context)
    near = [
        change
        for change in changes
        if begins - _BEFORE <= change.end and change.at <= ends + _AFTER
    ]
    if not near:
        return None, 0.0
    best = [(change, _weight_of(context, change, changes)) for change in near]
    return max(best, key=lambda change: change[1])


def _weight_of(context: Context, event: Event, changes: Sequence[Event]) -> float:
    """Return log10 of how much likelier the entry is if it was the cause than by chance.

    The longer the interval of the onset, the likelier an entry falls into it by chance.
    """
    begins, ends = onset_of(context)
    late = event.at > ends and down_before(context, event.at)
    if late and event.at - ends > SAME_DAY:
        # Another change, or logged more than half a day late: no evidence either way.
        return 0.0
    far = max(event.at - ends, begins - event.end, timedelta())
    soon = next((chance for limit, chance in _CHANCE_OF_GAP if far <= limit), 0.02)
    first = min([event.at for event in context.events] + [begins - timedelta(days=14)])
    known = (context.incident.until or context.now) - first
    reach = next((limit for limit, _ in _CHANCE_OF_GAP if far <= limit), _BEFORE)
    # An inventory knows a change only between two looks: that far apart, it falls in by chance.
    window = max(reach, length_of(context), event.end - event.at)
    # Rivals are changes of another time that could slow a probe as well.
    subject = _subject(context, event)
    rivals = len({change.at for change in changes if _subject(context, change) >= subject}) - 1
    weight = max(-0.3, min(_EVENT_MOST, beyond_chance(soon, rivals, known, window)))
    if late:
        # Logged once the work was done, or a reaction to the slow runs.
        weight = max(0.0, min(_LATE_MOST, weight))
    return min(weight, subject)


def _subject(context: Context, event: Event) -> float:
    """Return the maximum weight of an entry, from what it says was changed."""
    paths = paths_of(event.detail)
    if paths is not None and not paths & passed_by(context.incident):
        return 0.0
    if _OF_STORAGE.search(event.detail) or event.targets or event.kind is not CONFIG_CHANGE:
        return _EVENT_MOST
    return _OTHER_SUBJECT if _OF_OTHERS.search(event.detail) else _NO_SUBJECT


def _logged(context: Context, event: Event | None, weight: float, *, shown: bool) -> Evidence:
    """Return whether the log book has a change at the onset.

    Parameters
    ----------
    shown
        Whether snapshots show one: then an entry that is missing or does not fit was forgotten.
    """
    sign = Sign("change-logged", Route.LOG, "a change in the log book", view=View.LOG)
    begun = context.incident.at
    if event is None:
        if not context.events and not context.log_entries:
            return sign.missing(
                "log-empty", "the log book is empty: changes may be missing from it"
            )
        if not log_is_kept(context):
            reason = "the log book has too few entries to show that nothing was changed"
            return sign.missing("log-not-kept", reason)
        text = "the log book has no change in the two days before the first bad run"
        if shown:
            return sign.weighed(f"{text}, snapshots have", 0.0, code="change-not-logged")
        return sign.weighed(text, _NOTHING_LOGGED, code="change-not-logged")
    hours = (begun - event.at) / timedelta(hours=1)
    when = f"{hours:.1f} h before" if hours >= 0 else f"{-hours:.1f} h after"
    begins, ends = onset_of(context)
    when = "between the last good run and" if hours > 24 and begins <= event.at <= ends else when
    text = (
        f"the log book has a {event.kind} at {event.at:%d %B %H:%M}, {when} the first bad "
        f"run: {event.detail[:160] or 'no details'}"
    )
    if weight < 0 and hours < 0:
        text += "; the incident had begun by then"
    return sign.weighed(text, max(weight, 0.0) if shown else weight, event, targets=event.targets)


@once
def _near(context: Context) -> tuple[SettingChange, ...]:
    """Return the settings that changed around the onset.

    Without those that were still unchanged when runs were already slow.
    """
    begins, ends = onset_of(context)
    return tuple(
        change
        for change in _changes(context)
        if change.before_at <= ends + _AFTER / 4
        and change.at >= begins - _BEFORE / 4
        and not (change.before_at > ends and down_before(context, change.before_at))
    )


def _set(
    context: Context,
    near: Sequence[SettingChange],
    changes: Sequence[SettingChange],
    *,
    logged: float,
) -> Evidence:
    sign = Sign(
        "setting-changed",
        Route.EXPECTED,
        "settings in snapshots before and after the onset",
        view=View.SETTINGS,
    )
    known = _times_of_settings(context)
    begun = context.incident.at
    if not any(at < begun for at in known) or not any(at >= begun for at in known):
        reason = "no snapshots with settings on both sides of the first bad run"
        return sign.missing("no-settings", reason, source="settings")
    others = [change for change in changes if change not in near]
    if not near:
        text = f"no collected setting changed at the onset; {len(others)} at other times"
        kinds = _kinds_within(context, None, begun) & _kinds_within(context, begun, None)
        if "client" not in kinds and "client" in acts_on(context):
            # If only servers are read, the clients' settings are not known to be unchanged.
            reason = "no client setting is collected; none of the others changed"
            return sign.missing("client-settings-unknown", reason, source="settings")
        return sign.weighed(
            text, _NOTHING_SET, code="setting-unchanged", value=0.0, reference=float(len(others)),
            sees=tuple(sorted(settings_see(kinds))),
        )  # fmt: skip
    weight = _weight_of_setting(context, near, others, known)
    if logged > 0:
        # Entry and setting are one change: together they weigh little more than the heavier one.
        weight = max(min(_SHOWN_TOO, weight), weight - logged)
    widest = max(
        near,
        key=lambda change: (
            _subject_of_setting(context, change),
            len(change.targets) / max(change.of, 1),
            -abs((change.at - begun) / timedelta(hours=1)),
        ),
    )
    more = f" and {len(near) - 1} more" if len(near) > 1 else ""
    text = (
        f"{widest.name} went from {widest.before[:60]} to {widest.after[:60]} between "
        f"{widest.before_at:%d %B %H:%M} and {widest.at:%d %B %H:%M} on {len(widest.targets)} of "
        f"{widest.of} with this setting{more}"
    )
    return sign.weighed(
        text, weight, value=widest.after[:60], reference=widest.before[:60],
        targets=widest.targets, at=widest.at, source=f"setting {widest.name}",
    )  # fmt: skip


def _targets_added(context: Context, *, logged: float) -> Evidence:
    """Return whether the bad hours have targets that the good ones did not: added capacity."""
    sign = Sign(
        "targets-added",
        Route.TIME,
        "targets missing in the good hours",
        source="capacity_bytes",
        view=View.TARGETS,
    )
    seen = observe(context).values("capacity_bytes", kinds=OSTS)
    good = set(seen.filter(~pl.col("bad"))["target"].to_list())
    bad = seen.filter("bad")
    if bad.is_empty() or not good:
        return sign.not_available(observe(context).why_not("capacity_bytes", kinds=OSTS))
    if not names_are_stable(seen.filter(~pl.col("bad"))):
        reason = "the snapshots name different targets each time, as tables of extremes do"
        return sign.missing("targets-vary", reason)
    first = bad.group_by("target").agg(pl.min("at")).sort("target")
    added = first.filter(~pl.col("target").is_in(list(good)))
    if added.is_empty():
        return sign.weighed("no target added", 0.0, code="targets-unchanged", source=None)
    at = min(added["at"].to_list())
    names = added["target"].to_list()
    soon = at - context.incident.at <= _AFTER
    text = f"{named(names)} added at {at:%d %B %H:%M}; absent in the good hours"
    # Added later, they are not the change; it may be another one all the same.
    weight = (_SHOWN_TOO if logged > 0 else _ADDED) if soon else 0.0
    return sign.weighed(text, weight, value=float(len(names)), targets=names, at=at)


def _weight_of_setting(
    context: Context,
    near: Sequence[SettingChange],
    others: Sequence[SettingChange],
    known: Sequence[datetime],
) -> float:
    """Return the weight of a change between snapshots: little if settings change all the time."""
    # Settings changed together are one change.
    times = {change.at for change in others}
    between = min(change.at - change.before_at for change in near)
    window = max(between, length_of(context), _SOON)
    weight = beyond_chance(0.8, len(times), known[-1] - known[0], window)
    subject = max(_subject_of_setting(context, change) for change in near)
    return min(subject, max(0.2, weight))


def _subject_of_setting(context: Context, change: SettingChange) -> float:
    """Return the maximum weight of a setting: none if it acts elsewhere than where it is slow."""
    paths = paths_of(change.name)
    if paths is None:
        return _UNKNOWN_SETTING
    return _SETTING_MOST if paths & passed_by(context.incident) else 0.0


def _kinds_within(
    context: Context, after: datetime | None, before: datetime | None
) -> frozenset[str]:
    """Return the kinds of machines and targets whose settings were collected in a period."""
    frame = context.telemetry.settings
    if not {"at", "kind"} <= set(frame.columns):
        return frozenset()
    within = pl.lit(value=True)
    within = within if after is None else within & (pl.col("at") >= after)
    within = within if before is None else within & (pl.col("at") < before)
    return frozenset(frame.filter(within)["kind"].drop_nulls().cast(pl.String).to_list())


def _times_of_settings(context: Context) -> list[datetime]:
    frame = context.telemetry.settings
    if "at" not in frame.columns:
        return []
    times = frame["at"].drop_nulls().unique().sort().to_list()
    return [at for at in times if isinstance(at, datetime)]


def _shape(context: Context) -> Evidence:
    """Return whether it is a lasting step, as a change would make."""
    sign = Sign("shape-of-change", Route.RUNS, view=View.PROBE)
    incident = context.incident
    match incident.shape:
        case Shape.STEP:
            weight = 0.4 if incident.until is None else 0.0
            return sign.weighed("a step: the level changed and stayed", weight)
        case Shape.DRIFT:
            text = "the level fell gradually; a change makes a step"
            return sign.weighed(text, -0.8)
        case Shape.DIP:
            return sign.weighed("a dip; a change lasts until it is reverted", -0.7)
        case Shape.UNSTEADY:
            return sign.weighed("the level held; a change shifts it", -0.3)
        case _:
            return sign.weighed(f"its shape ({incident.shape}) is not indicative", 0.0)


def _alike(context: Context, event: Event | None, settings: Sequence[SettingChange]) -> Evidence:
    """Return whether the targets changed as the change would make them.

    Slow targets contradict a change elsewhere only if they explain the loss. What a survey cannot
    see (a change on clients, from the servers) leaves its targets as they were.
    """
    view = survey_view(context)
    sign = Sign(
        "targets-alike", Route.TARGETS, "whether all targets changed equally", unit="1", view=view
    )
    extent = breadth(context)
    changed = set(event.targets) if event is not None else set()
    for change in settings:
        if len(change.targets) < change.of:
            changed |= _served(context, change)
    if extent.slow and changed:
        fits = len(changed & set(extent.slow)) / len(changed | set(extent.slow))
        text = f"slow: {named(extent.slow)}; changed: {named(changed)}"
        weight = 0.8 if fits >= 0.5 else -0.6 if extent.explains else 0.0
        return sign.weighed(
            text, weight, code="slow-among-changed", value=fits, targets=extent.slow,
            against=Against.RIVAL,
        )  # fmt: skip
    if not extent.surveyed:
        return sign.not_available(extent.reason)
    level = (
        "" if extent.level is None else f" ({format_percent(extent.level, 0)} of the earlier rate)"
    )
    if extent.slow and not extent.explains:
        text = f"{named(extent.slow)} slow, too little for what was lost; the others as before"
        return sign.weighed(text, 0.0, code="few-targets-slower", targets=extent.slow, unit=None)
    if extent.slow:
        text = f"only {named(extent.slow)} slow; a site-wide change would affect all targets"
        return sign.weighed(
            text, -0.8 * extent.sure, code="some-targets-slow", targets=extent.slow, unit=None,
            against=Against.RIVAL,
        )  # fmt: skip
    unseen = view is View.SURVEY_ON_SERVERS and not acts_on(context) & SEES[view]
    if extent.alike and extent.explains and unseen:
        above = " and ".join(sorted(acts_on(context)))
        text = f"the targets themselves lost speed{level}; the change is at: {above}"
        return sign.weighed(
            text, -0.4, code="changed-on-clients", value=extent.level, against=Against.RIVAL
        )
    return sign.weighed(f"no single target was slow{level}", 0.3, value=extent.level)


def _served(context: Context, change: SettingChange) -> set[str]:
    """Return the targets that a change concerns: of a change on servers, the OSTs they serve."""
    if change.kind != "server":
        return set(change.targets)
    return {
        target
        for target, server in context.home.items()
        if server in change.targets and target.startswith("OST")
    }


def _taken_back(
    context: Context,
    near: Sequence[SettingChange],
    changes: Sequence[SettingChange],
    *,
    logged: float,
) -> Evidence:
    """Return whether the level recovered with a reversal of the change or without one."""
    sign = Sign("recovered-unchanged", Route.TIME, "how it ended", view=View.SETTINGS)
    until = context.incident.until
    if until is None:
        return sign.weighed("the incident is open", 0.0, code="incident-open")
    reversal = next(
        (
            change
            for change in changes
            if change not in near
            and change.before_at - _CLOSE <= until <= change.at + _CLOSE
            and any(change.name == first.name and change.after == first.before for first in near)
        ),
        None,
    )
    if reversal is not None:
        text = f"it ended when {reversal.name} went back to {reversal.after[:60]}"
        return sign.weighed(
            text, 0.8, code="setting-reverted", at=reversal.at, source=f"setting {reversal.name}"
        )
    entries = [
        event
        for event in context.events
        if event.kind in KINDS
        and -_CLOSE <= event.at - until <= SAME_DAY
        and event.at > context.incident.at
    ]
    if entries:
        text = f"it ended near a log entry: {entries[0].detail[:120] or 'a change'}"
        return sign.weighed(text, 0.5, entries[0], code="reversal-logged")
    return _not_taken_back(context, sign, until, unseen=logged > 0 and not near)


def _not_taken_back(context: Context, sign: Sign, until: datetime, *, unseen: bool) -> Evidence:
    """Return that no reversal is known, as far as snapshots and log book would show it.

    Snapshots that did not show a logged change (``unseen``) do not show its reversal either.
    """
    text = "the level recovered without a reversal"
    kinds = _kinds_within(context, until - _CLOSE, until) & _kinds_within(
        context, until + _SOON, until + 3 * _CLOSE
    )
    of_settings = settings_see(kinds)
    if acts_on(context) <= of_settings and not unseen:
        sees = tuple(sorted(of_settings))
        return sign.weighed(text, _NOT_TAKEN_BACK, at=until, sees=sees)
    if log_is_kept(context):
        sign = replace(sign, view=View.LOG)
        return sign.weighed(f"{text} in the log book", _NOTHING_LOGGED, at=until)
    reason = "neither snapshots with its settings nor a log book around the end"
    return sign.missing("no-settings", reason, source="settings")


def _as_large(context: Context, event: Event | None, settings: Sequence[SettingChange]) -> Evidence:
    """Return whether the effect is as large as that known for such a change."""
    sign = Sign("known-effect", Route.EXPECTED, source="S1, VI", unit="1", view=View.PROBE)
    incident = context.incident
    words = " ".join(
        [*(change.name for change in settings), event.detail if event is not None else ""]
    )
    for pattern, name, known in KNOWN_EFFECTS:
        if pattern.search(words) is None or incident.effect is None:
            continue
        interval = incident.effect_interval
        low = interval.low if interval is not None else incident.effect - _EFFECT_WITHIN
        high = interval.high if interval is not None else incident.effect + _EFFECT_WITHIN
        fits = low - _EFFECT_WITHIN <= known <= high + _EFFECT_WITHIN
        text = (
            f"the level is {format_percent(incident.effect)} of its former value; {name} reduced "
            f"another system's writes to {format_percent(known)}"
        )
        return sign.weighed(text, 0.2 if fits else 0.0, value=incident.effect, reference=known)
    return sign.weighed("no change with a known effect elsewhere", 0.0, source=None, unit=None)


CONFIGURATION_CHANGE: Final = Cause(
    id="configuration-change",
    title="a change of configuration",
    prior=0.05,  # two lasting steps in nine months; about 13 bad days in each three
    assess=assess,
    acts_on=acts_on,
    signs=(
        "change-logged",
        "setting-changed",
        "targets-added",
        "setting-reverted",
        "slow-among-changed",
    ),
    coincidences=("change-logged", "setting-changed", "targets-added"),
    measurement=(
        "On one client or target out of service, alternate the old and the new value, a dozen "
        "runs each. Protection of data and system stays on; the test shows its cost."
    ),
    brings_about=("writeback-throttling", "allocator-loops", "few-targets-open"),
)
