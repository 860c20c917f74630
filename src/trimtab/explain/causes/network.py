"""Causes between clients and servers: `network`, a path that lost speed, and `bad-checksums`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import Event
from trimtab.base.failure import DATA_ERRORS, Failure
from trimtab.base.incident import Against, Evidence, Route, Shape
from trimtab.base.snapshot import CONNECTED, INACTIVE
from trimtab.base.units import format_percent
from trimtab.explain.breadth import (
    ON_SERVERS,
    breadth,
    kinds_of_surveys,
    on_servers,
    survey_view,
)
from trimtab.explain.causes.evidence import UNSEEN, beyond_chance, named, says
from trimtab.explain.causes.failed_runs import NO_CONNECTION, failed_with
from trimtab.explain.causes.onset import onset_of
from trimtab.explain.causes.server_message import connections_logged
from trimtab.explain.context import Cause, Context, RunFact, always_at
from trimtab.explain.contrast import NO_BAD_RUNS, Contrast, Sign, expected, in_time, presence
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import CLIENTS, SERVERS, TARGETS, observe

SELFTEST: Final = "lnet-selftest"
_MOVED: Final = ("read_bandwidth", "write_bandwidth", "rpc_rate")
_SLOWER: Final = 1.04
"""LNet selftest is highly repeatable: 98,953 to 99,034 MB/s over three settings of a server
[S5, table 4]. With many servers, one that lost its link costs a few per cent of the sum."""
_NO_RATE: Final = Message(
    "hardware-unknown", "the site file does not give the line rate of a server"
)
_SEVERAL: Final = 1.05
"""Multiple of one server's line rate: a higher sum came from several servers at once."""
_LINE_RATE: Final = 0.7
"""Share of the line rate. LNet selftest reached 85 % in writes and 97 % in reads [S3]."""
_SELFTEST_WELL: Final = -1.5
_SELFTEST_OF_MANY: Final = -0.3
"""Weight if trouble on a single server would be lost in the sum: half of what networks do."""
_LOSS: Final = 0.5
"""Loss of the server if the incident has no figure."""
_TESTS: Final = 3
_SATURATED: Final = 0.85
_CLIENTS_ALONE: Final = 0.4
"""Little: checksums, client nodes and load are visible only to clients, too."""
_SERVERS_TOO: Final = -1.0
_MORE_ERRORS: Final = 5.0
_ERRORS: Final = 2.0
"""Per hour and server, in the median stretch: a restarting client drops many messages at once, not
for hours."""
_ERRORS_MOST: Final = 1.2
"""A failing-over or overloaded server drops messages as well."""
_CONNECTED: Final = -0.3
"""Weight if runs were lost while every server stayed connected."""
_CONNECTION: Final = 0.6
"""As for servers that restart, which look the same to a client."""
_WORDS: Final = re.compile(
    r"\b(?:network|fabric|switch|lnet|slingshot|infiniband|omni-?path|roce|uplink|cable|nic|hca"
    r"|router|routing|links?)\b",
    re.I,
)
_OF_ONE_CLIENT: Final = re.compile(r"\b(?:clients?|compute nodes?|nid\d+)\b", re.I)
"""A client's link slows only the runs on that client: `client-node`."""
_BEFORE: Final = timedelta(hours=12)
_LATE: Final = timedelta(hours=3)
_LOGGED_MOST: Final = 1.3
_LOGGED: Final = 0.5
"""Share of network trouble that gets logged where a log book is kept."""


def assess_network(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against the network.

    LNet selftest crosses only the network and touches no drive: it decides. Without it there are
    three signs: clients are slow while a survey on the servers is not (obdfilter-survey runs below
    the network), connections break on several servers at once, and LNet counts errors and drops.
    """
    return (
        _selftest(context),
        _selftest_of_line_rate(context),
        clients_against_servers(context),
        _connections(context),
        _errors(context),
        _saturated(context),
        _logged(context),
        failed_with(
            context, NO_CONNECTION, "a lost connection", code="runs-not-connected", most=_CONNECTION
        ),
        *connections_logged(context),
    )


def _selftest(context: Context) -> Evidence:
    subject = "LNet selftest relative to its usual rates"
    sign = Sign(
        "selftest-in-time", Route.TIME, subject, source=SELFTEST, unit="1", view=View.SELFTEST
    )
    frame = _relative(context)
    if frame.is_empty():
        return sign.missing("no-selftest", "LNet selftest did not run in these hours", source=None)
    # Either direction: a link may be slow in only one.
    contrast = in_time(frame, worse="lower", ratio=_SLOWER, absent=_SELFTEST_WELL, over="min")
    if contrast.weight < _SELFTEST_OF_MANY and not _would_show(context, frame):
        text = f"{subject}: {contrast.in_words('1')}; one server in trouble would hardly show"
        return sign.counted(text, _SELFTEST_OF_MANY, contrast)
    if contrast.weight > 0 and contrast.value is not None and _is_beyond(frame, contrast):
        # A single test in the bad hours counts: results repeat within a few per cent. Where they
        # do not, only ranks count.
        lost = (1 - contrast.value) / 0.1
        text = f"{subject}: {contrast.in_words('1')}"
        weight = contrast.weight + min(0.9, 0.3 * lost)
        return sign.counted(text, weight, contrast)
    return sign.of(contrast)


def _is_beyond(frame: pl.DataFrame, contrast: Contrast) -> bool:
    """Return whether a test lost more than its scatter in good hours."""
    good = frame.filter(~pl.col("bad")).group_by("at").agg(pl.min("value"))
    lowest = good["value"].quantile(0.05)
    return contrast.value is not None and lowest is not None and contrast.value < 0.98 * lowest


def _would_show(context: Context, frame: pl.DataFrame) -> bool:
    """Return whether one server that lost as much as the probe would show in the sum.

    A probe waits for the slowest server; LNet selftest sums all servers.
    """
    effect = context.incident.effect
    home = {server for target, server in context.home.items() if not target.startswith("MDT")}
    servers = context.hardware.oss or len(home) or 1
    drop = (1 - effect if effect is not None and 0 <= effect < 1 else _LOSS) / servers
    good = frame.filter(~pl.col("bad")).group_by("at").agg(pl.min("value"))["value"]
    if good.len() < _TESTS:
        return servers == 1
    scatter = 1.4826 * float((good - good.median()).abs().median())  # pyrefly: ignore[bad-argument-type]
    return drop >= max(1 - 1 / _SLOWER, 2 * scatter)


def _tests(context: Context) -> Iterator[RunFact]:
    for run in context.runs:
        if run.kind.replace("_", "-") == SELFTEST:
            yield run


def _relative(context: Context) -> pl.DataFrame:
    """Return every LNet selftest figure over its median in good hours: ``at, value, bad``."""
    rows = [
        (run.at, f"{run.probe} {run.series} {metric}", value, context.is_bad(run.at))
        for run in _tests(context)
        for metric, value in run.values.items()
        if metric in _MOVED and (context.is_bad(run.at) or context.is_good(run.at))
    ]
    usual: dict[str, list[float]] = {}
    for _, series, value, is_bad in rows:
        if not is_bad:
            usual.setdefault(series, []).append(value)
    levels = {series: median(values) for series, values in usual.items()}
    rows_relative = [
        (at, value / levels[series], is_bad)
        for at, series, value, is_bad in rows
        if levels.get(series, 0.0) > 0
    ]
    schema = {"at": pl.Datetime("us", "UTC"), "value": pl.Float64, "bad": pl.Boolean}
    frame = pl.DataFrame(rows_relative, schema=schema, orient="row")
    return frame.filter(pl.col("value").is_finite()).sort("at")


def _selftest_of_line_rate(context: Context) -> Evidence:
    subject = "LNet selftest relative to the line rate"
    sign = Sign(
        "selftest-of-line-rate",
        Route.EXPECTED,
        subject,
        source=SELFTEST,
        unit="1",
        view=View.SELFTEST,
    )
    figure = context.hardware.network
    if figure is None or figure.value <= 0:
        return sign.not_available(_NO_RATE, source=None)
    values = [
        value
        for run in _tests(context)
        if context.is_bad(run.at)
        for metric, value in run.values.items()
        if metric in _MOVED and metric != "rpc_rate"
    ]
    share = median(values) / figure.value if values else None
    if share is not None and share > _SEVERAL:
        return sign.missing("servers-unknown", "it ran over an unknown number of servers")
    if share is not None and share > _LINE_RATE:
        # The clients may be the limit: reaching the line rate says more than missing it.
        text = f"{subject}: {format_percent(share, 0)}"
        return sign.weighed(text, -0.8, value=share, reference=_LINE_RATE)
    contrast = expected(
        share, _LINE_RATE, worse="lower", over=0.5, scale=0.1,
        reason=Message("no-selftest", "LNet selftest did not run in the bad hours"),
    )  # fmt: skip
    return sign.of(contrast)


def clients_against_servers(context: Context) -> Evidence:
    """Return whether a survey on the servers, without clients and network, lost as much as they."""
    subject = "clients compared with a survey on the servers"
    sign = Sign("clients-against-servers", Route.TARGETS, subject, view=survey_view(context))
    extent = breadth(context)
    if not extent.surveyed:
        return sign.not_available(extent.reason)
    if not on_servers(context):
        kinds = ", ".join(kinds_of_surveys(context))
        return sign.missing(
            "survey-through-network",
            f"the survey of the bad hours went through the network ({kinds})",
        )
    key = context.incident.key
    if key is not None and key.kind == ON_SERVERS:
        text = "the incident shows in a survey on the servers, below the network"
        return sign.weighed(text, _SERVERS_TOO, code="survey-on-servers", against=Against.RIVAL)
    if extent.slow:
        text = f"{subject}: {named(extent.slow)} also slow there"
        if extent.left is not None and not extent.explains:
            text += f", at {format_percent(extent.left, 0)}: too little for what the probe lost"
        return sign.weighed(
            text, _SERVERS_TOO * extent.sure if extent.explains else 0.0, code="servers-slow-too",
            targets=extent.slow, against=Against.RIVAL,
        )  # fmt: skip
    if extent.level is None:
        return sign.missing("no-good-survey", "no survey of good hours to compare with")
    text = f"{subject}: its targets reach {format_percent(extent.level, 0)} of their usual rate"
    weight = _CLIENTS_ALONE
    if extent.alike:
        weight = _SERVERS_TOO if extent.explains else 0.0
    return sign.weighed(
        text, weight, value=extent.level, reference=1.0, unit="1", against=Against.RIVAL
    )


def _connections(context: Context) -> Evidence:
    subject = "broken connections on several servers"
    sign = Sign(
        "connections-broken",
        Route.TIME,
        subject,
        source="import_state",
        unit="1",
        view=View.CONNECTIONS,
    )
    seen = observe(context)
    states = seen.texts("import_state", kinds=TARGETS)
    if states.is_empty():
        return sign.not_available(seen.why_not("import_state"))
    well = [*CONNECTED, INACTIVE]
    home = context.home
    servers = pl.coalesce(
        pl.col("server"),
        pl.col("target").replace_strict(list(home), list(home.values()), default=None,
                                        return_dtype=pl.String)
        if home else pl.lit(None, pl.String),
        pl.col("target"),
    )  # fmt: skip
    broken = states.with_columns(
        machine=servers, broken=~pl.col("value").str.to_uppercase().is_in(well)
    )
    # Targets of one server are that server's problem; several servers at once are the network's.
    per_time = broken.group_by("at", "bad").agg(
        machines=pl.col("machine").filter(pl.col("broken")).n_unique()
    )
    frame = per_time.with_columns(value=(pl.col("machines") >= 2).cast(pl.Float64))
    at_once = per_time.filter("bad")["machines"].max()
    # A path that is merely slow keeps its connections.
    absent = _CONNECTED if context.incident.effect is None else 0.0
    return sign.of(
        presence(frame, absent=absent),
        subject=(f"{subject} (at most {at_once} at a time)" if at_once else subject)
        + ": share of hours",
    )


def _errors(context: Context) -> Evidence:
    """Return whether servers counted errors and drops that they had not counted before.

    A zero count says little: a link that is merely slow loses no message.
    """
    source = "network_errors_total"
    subject = "LNet errors and dropped messages of a server"
    sign = Sign(
        "errors-in-time", Route.TIME, subject, source=source, unit="an hour", view=View.LINKS
    )
    seen = observe(context)
    rates = seen.rates(source, kinds=SERVERS)
    if rates.filter("bad").is_empty():
        return sign.not_available(seen.why_not(source, kinds=SERVERS))
    hourly = rates.with_columns(pl.col("value") * 3600)
    contrast = in_time(hourly, ratio=_MORE_ERRORS, by=_ERRORS, absent=-0.2, over="max")
    if contrast.reason is not None:
        return sign.of(contrast)
    text = f"{subject}: {contrast.in_words(sign.unit)}"
    weight = min(_ERRORS_MOST, contrast.weight)
    if (contrast.value or 0.0) > (contrast.reference or 0.0):
        # More than before, though too few to support it: no sign of a healthy path.
        weight = max(weight, 0.0)
    return sign.counted(text, weight, contrast)


def _saturated(context: Context) -> Evidence:
    subject = "load of a server's network relative to its line rate"
    sign = Sign(
        "network-saturated",
        Route.EXPECTED,
        subject,
        source="network_bytes_total",
        unit="1",
        view=View.LINKS,
    )
    figure = context.hardware.network
    if figure is None or figure.value <= 0:
        return sign.not_available(_NO_RATE, source=None)
    seen = observe(context)
    rates = seen.rates("network_bytes_total", kinds=SERVERS)
    bad = rates.filter("bad")
    if bad.is_empty():
        return sign.not_available(seen.why_not("network_bytes_total", kinds=SERVERS))
    # Sent plus received, while the line rate is per direction: over it means over half of both.
    middle = bad.group_by("target").agg(pl.median("value"))["value"].max()
    share = float(middle or 0.0) / figure.value  # pyrefly: ignore[bad-argument-type]
    text = f"{subject}: {format_percent(share, 0)} on the busiest"
    # Below it says nothing: a slow network carries less, too.
    weight = 0.5 if share >= _SATURATED else 0.0
    return sign.weighed(text, weight, value=share, reference=_SATURATED)


def _logged(context: Context) -> Evidence:
    """Return whether the log book has network trouble, maintenance or a repair."""
    sign = Sign("network-logged", Route.LOG, view=View.LOG)
    begun = context.incident.at
    earliest, latest = onset_of(context)
    earliest, latest = min(earliest, begun), max(latest, begun)
    known = context.entries(_is_of_network)
    entries = [
        event
        for event in known
        if (earliest - _BEFORE <= event.at or (event.until is not None and event.until >= earliest))
        and event.at <= max(latest, context.end) + _LATE
    ]
    if not entries:
        return sign.weighed("the log book has no network event", 0.0, code="network-not-logged")
    first = min(entries, key=lambda event: _apart(event.at, earliest, latest, context))
    text = f"the log book has a network event at {first.at:%d %B %H:%M}: {first.detail[:160]}"
    reaches = context.end - min(event.at for event in context.events)
    # Chance may put an entry near the onset and, once it is over, near the end.
    around = 2 * max(_apart(first.at, earliest, latest, context), _BEFORE / 2)
    window = latest - earliest + around * (1 if context.incident.until is None else 2)
    weight = beyond_chance(_LOGGED, len(known) - 1, reaches, window)
    return sign.weighed(text, max(0.2, min(_LOGGED_MOST, weight)), first)


def _apart(at: datetime, earliest: datetime, latest: datetime, context: Context) -> timedelta:
    """Return the distance of a time from the onset or, if it has ended, from the end if nearer.

    It is 0 throughout the interval of the onset.
    """
    onset = max(earliest - at, at - latest, timedelta())
    until = context.incident.until
    return onset if until is None else min(onset, abs(at - until))


def _is_of_network(event: Event) -> bool:
    """Return whether an entry concerns the network, other than the link of one client."""
    return bool(_WORDS.search(event.detail)) and not _OF_ONE_CLIENT.search(event.detail)


NETWORK: Final = Cause(
    id="network",
    title="the network between clients and servers",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess_network,
    acts_on=always_at("network"),
    signs=(
        "selftest-in-time",
        "selftest-of-line-rate",
        "connections-broken",
        "errors-in-time",
        "network-saturated",
        "network-logged",
    ),
    coincidences=("network-logged",),
    measurement=(
        "Run LNet selftest between the probe's nodes and every server, both ways, and compare with "
        "a good time or with the line rate (trimtab ladder SITE)."
    ),
    brings_about=("failover", "target-silent"),
)


_NAME: Final = "checksum_errors_total"
_KINDS: Final = (*SERVERS, *CLIENTS, *TARGETS)
_WHAT: Final = "transfers with a bad checksum"
_GREW: Final = 2.0
_GREW_BESIDE: Final = 1.2
_STOOD_BEFORE: Final = 0.0
_CAME_WITH: Final = 0.6
_NONE: Final = -2.0
"""No bad transfer although all were checked and counted: not this incident."""
_OF_RUNS: Final = 2.0
_LOGGED_CHECKSUMS: Final = 1.5
_MESSAGE: Final = re.compile(r"bad[ -](?:write |read )?checksum|checksum (?:error|mismatch)", re.I)
_OFF: Final = frozenset({"0", "off", "false", "n"})


def assess_bad_checksums(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against corrupted transfers.

    This is an integrity incident, at whatever speed: Lustre resends such a transfer, which costs
    time, but what matters is that something on the path corrupts data. NERSC saw two such incidents
    after enabling checksums [S1, VI.B]. Only a server's kernel log shows it
    (``BAD WRITE CHECKSUM``), and that is a ring buffer: the count is a lower bound.
    """
    return (
        _counted(context),
        _in_time(context),
        _in_log(context),
        _read_back(context),
        _checked(context),
    )


def _counted(context: Context) -> Evidence:
    sign = Sign(
        "checksums-counted", Route.EXPECTED, _WHAT, source=_NAME, unit="errors", view=View.LINKS
    )
    seen = observe(context)
    values = seen.labelled(_NAME, kinds=_KINDS)
    bad = values.filter("bad")
    if bad.is_empty():
        return sign.not_available(seen.why_not(_NAME, kinds=_KINDS))
    grown = _growth(values, bad=True)
    if grown:
        n = sum(count for count, _ in grown.values())
        first = min(at for _, at in grown.values())
        text = f"{n:.0f} {_WHAT} in the bad hours, at {named(grown)}"
        # A resent transfer slows nothing noticeably; as an integrity incident it has one of its
        # own.
        weight = _GREW if context.incident.shape is Shape.INTEGRITY else _GREW_BESIDE
        return sign.weighed(text, weight, value=n, reference=0.0, targets=sorted(grown), at=first)
    most = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    if most > 0:
        text = f"{most:.0f} {_WHAT} counted before the bad hours, none in them"
        return sign.weighed(
            text, _STOOD_BEFORE, code="checksums-counted-earlier", value=0.0, reference=0.0
        )
    machines = bad["target"].n_unique()
    text = f"no {_WHAT} in the kernel logs of {machines} machines"
    return sign.weighed(text, _NONE, code="checksums-none", value=0.0, reference=0.0)


def _in_time(context: Context) -> Evidence:
    """Return whether none were counted in good hours, so that they began with the incident."""
    seen = observe(context)
    values = seen.labelled(_NAME, kinds=_KINDS)
    sign = Sign(
        "checksums-in-time",
        Route.TIME,
        f"{_WHAT} in bad and good hours",
        source=_NAME,
        unit="errors",
        view=View.LINKS,
    )
    for is_bad, hours in ((True, "bad"), (False, "good")):
        times = values.filter(bad=is_bad)["at"].n_unique()
        if times < 2:
            return sign.missing("too-few-counts", f"fewer than two counts in the {hours} hours")
    bad, good = (
        sum(count for count, _ in _growth(values, bad=side).values()) for side in (True, False)
    )
    text = f"{_WHAT}: {bad:.0f} in the bad hours, {good:.0f} in the good ones"
    weight = _CAME_WITH if bad and not good else 0.0
    return sign.weighed(text, weight, value=bad, reference=good, throughout=bool(bad and good))


def _growth(values: pl.DataFrame, *, bad: bool) -> dict[str, tuple[float, datetime]]:
    """Return per machine how many were counted in the bad (or good) hours, and when the first.

    A falling count means a reboot, or messages that dropped out of the log; neither is a bad
    transfer.
    """
    # Without a previous value, the number of new ones is unknown.
    more = pl.col("value").diff().over("target", "label")
    grown = (
        values.sort("at")
        .with_columns(more=more)
        .filter((pl.col("bad") == bad) & (pl.col("more") > 0))
        .group_by("target", maintain_order=True)
        .agg(pl.sum("more"), pl.first("at"))
    )
    return {target: (count, first) for target, count, first in grown.iter_rows()}


def _in_log(context: Context) -> Evidence:
    """Return whether the log book contains such a message."""
    sign = Sign("checksums-logged", Route.LOG, view=View.LOG)
    subject = f"a message about {_WHAT} in the log book"
    messages = context.entries(
        lambda event: _MESSAGE.search(event.detail) and context.is_bad(event.at)
    )
    if not messages:
        return sign.weighed(f"no {subject.removeprefix('a ')}", 0.0, code="checksums-not-logged")
    first = messages[0]
    text = f"{subject} at {first.at:%d %B %H:%M}: {first.detail[:200]}"
    return sign.weighed(text, _LOGGED_CHECKSUMS, first, targets=first.targets)


def _read_back(context: Context) -> Evidence:
    runs = [run for run in context.runs if context.is_bad(run.at)]
    subject = "runs that read back wrong data"
    sign = Sign("data-verified", Route.RUNS, subject, unit="runs", view=View.PROBE)
    if not runs:
        return sign.not_available(NO_BAD_RUNS)
    wrong = [run for run in runs if _wrong_data(run)]
    if not wrong:
        # Few probes verify what they read.
        return sign.weighed(f"no {subject}, among those that verify", 0.0, unit=None)
    text = f"{len(wrong)} of {len(runs)} {subject}"
    return sign.weighed(text, _OF_RUNS, wrong[0], value=float(len(wrong)), reference=0.0)


def _wrong_data(run: RunFact) -> bool:
    texts = (run.problem, *run.disbelieved)
    return run.failure is Failure.CORRUPT or any(
        says(text, ("data-corrupt",), DATA_ERRORS) for text in texts
    )


def _checked(context: Context) -> Evidence:
    """Return whether transfers were checked at all: without checksums nothing is counted."""
    sign = Sign(
        "checksums-enabled",
        Route.EXPECTED,
        "whether transfers carry checksums",
        source="checksums",
        view=View.SETTINGS,
    )
    if context.incident.shape is Shape.INTEGRITY:
        return sign.weighed(
            "the incident itself is damaged transfers", 1.0, code="data-at-risk", source=None
        )
    settings = observe(context).setting("checksums", kinds=_KINDS).filter("bad")
    if settings.is_empty():
        return sign.missing("name-missing", "no snapshot contains the setting checksums")
    values = set(settings["value"].drop_nulls().to_list())
    off = {value for value in values if value.strip().lower() in _OFF}
    code, text = "checksums-on", "transfers carry checksums"
    if off == values and values:
        code, text = "checksums-off", "transfers carry no checksums: damage goes undetected"
    elif off:
        code, text = "checksums-partly-on", "some transfers carry checksums, others none"
    return sign.weighed(text, 0.0, code=code, value=", ".join(sorted(values)))


BAD_CHECKSUMS: Final = Cause(
    id="bad-checksums",
    title="transfers with a bad checksum",
    prior=UNSEEN,  # none of the 13 days; two in the four months after checksums were turned on
    assess=assess_bad_checksums,
    acts_on=always_at("network"),
    signs=(
        "checksums-counted",
        "checksums-logged",
        "data-verified",
        "data-at-risk",
        "checksums-in-time",
    ),
    measurement=(
        "Find the nodes that the messages name, take them out of service, and move verified data "
        "(ior -W -R, or lnet_selftest with check=full) over each of their links; checksums stay on."
    ),
)
