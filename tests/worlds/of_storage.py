"""Faults of space, targets, servers, flash and the load of others."""

from __future__ import annotations

import numpy as np
from tests.worlds.draft import Draft, Planned
from tests.worlds.site import server, target
from tests.worlds.state import Array, Outcome, State

COLLECT = {
    "garbage-collection": "fuller or untrimmed drives collect more: that is how it slows writes, "
    "and the write amplification is recorded"
}  # fmt: skip
"""Accepted for whatever raises the write amplification of drives."""


def ramp(state: State, begin: float, full_at: float, end: float, height: Array) -> Array:
    """Return H values that rise from ``begin`` to ``full_at``, stay, and fall within 8 h of ``end``."""  # noqa: E501
    hour = np.arange(state.site.hours, dtype=float)
    up = np.clip((hour - begin) / max(full_at - begin, 1.0), 0, 1)
    down = np.clip((hour - end) / 8.0, 0, 1)
    return (up * (1 - down))[:, None] * height


def users_fill(state: State, begin: float, full_at: float, end: float, level: Array) -> None:
    """Let users fill targets to a level, each to its own, until a purge brings it back."""
    first = state.full[state.hours(begin, begin + 1)][0]
    state.full += ramp(state, begin, full_at, end, np.maximum(level - first, 0))


def fills_up(d: Draft, *, begin: float | None = None) -> None:
    """Let a job fill the file system until runs find no space; a purge ends it a day later."""
    begin = d.onset() if begin is None else begin
    takes, lasts = float(d.rng.uniform(4, 14)), d.length(10, 60)
    full_at, end, lag = begin + takes, begin + takes + lasts, d.lag()
    level = d.rng.uniform(0.991, 0.995, d.site.osts)

    def load(state: State) -> None:
        users_fill(state, begin, full_at, end, level)
        state.jobs[state.hours(begin, full_at)] += 2

    def over(state: State) -> None:
        d.write(state, "purge", end, "emergency purge, scratch was full", of=full.name,
                until=end + 8, lag_h=lag)  # fmt: skip

    first = d.add("competing-load", begin, full_at, load)
    full = d.add("targets-over-limit", begin + takes / 2, end + 4, over, because_of=first.name,
                 accepted=COLLECT, runs_tell=("problem",))  # fmt: skip


def quota(d: Draft) -> None:
    """Let the account of the probe run out of quota: only the runs' own words tell it."""
    begin = d.onset()
    end = begin + d.length(8, 120)

    def apply(state: State) -> None:
        problem = "ior ERROR: write() failed, errno 122, Disk quota exceeded"
        state.outcomes.append(
            Outcome(begin, end, 1.0, "failed", problem, ("ior", "ior-4m", "one-node"))
        )

    d.add("quota-reached", begin, end, apply, runs_tell=("problem",))


def one_fills(d: Draft) -> None:
    """Let one job with one stripe fill one target."""
    begin, ost = d.onset(), d.ost()
    takes = d.length(4, 30)
    end, level = begin + takes + d.length(10, 90), float(d.rng.uniform(0.955, 0.988))

    def apply(state: State) -> None:
        here = np.where(np.arange(state.site.osts) == ost, level, 0.0)
        users_fill(state, begin, begin + takes, end, here)
        d.write(state, "note", end, f"user moved his file off {target(ost)}", of=planned.name)

    planned = d.add("target-filling", begin, end, apply, targets=(ost,), accepted=COLLECT)


Growth = tuple[Planned, float]
"""A fault of growth over the limit, and the hour at which it is at its highest."""


def over_limit(d: Draft, *, purge_stopped: bool = False, begin: float | None = None) -> Growth:
    """Let users' data grow over the limit, because of their growth or for want of purges."""
    begin = d.onset(0.35, 0.6) if begin is None else begin
    takes = d.length(48, 240)
    end = float(d.site.hours) if d.maybe(0.4) else begin + takes + d.length(48, 400)
    level = d.rng.uniform(0.80, 0.90) + d.rng.normal(0, 0.01, d.site.osts)

    def apply(state: State) -> None:
        users_fill(state, begin, begin + takes, end, level)
        if purge_stopped:
            state.log = [line for line in state.log if line.kind != "purge" or line.hour < begin]
            if d.site.journal:
                d.write(state, "purge-failed", begin, "purge exited with status 1",
                        of=planned.name, source="purge")  # fmt: skip
        if end < state.site.hours:
            d.write(state, "purge", end, "extra purge", of=planned.name, until=end + 8)

    last = None if end == d.site.hours else end
    planned = d.add("targets-over-limit", begin, last, apply, accepted=COLLECT)
    return planned, begin + takes


def few_open(d: Draft, *, policy: bool, growth: Growth | None = None) -> None:
    """Close most targets, by a policy that logs it or by hand."""
    begin = d.onset() if growth is None else _over(d, growth)
    last = None if growth is None else growth[0].end
    end = begin + d.length(6, 200) if last is None else max(last, begin + 6)
    stay = d.rng.permutation(d.site.osts)[: int(d.rng.integers(2, max(3, d.site.osts // 3)))]
    closed = tuple(ost for ost in range(d.site.osts) if ost not in stay.tolist())
    lag = d.lag()

    def apply(state: State) -> None:
        state.open[state.hours(begin, end), closed] = False
        more = {"source": "policy"} if policy else {"lag_h": lag}
        d.write(state, "target-closed", begin, "over the limit" if policy else "rebalancing",
                of=planned.name, targets=closed, **more)  # fmt: skip
        d.write(state, "target-opened", end, "reopened", of=planned.name, targets=closed, **more)

    planned = d.add(
        "few-targets-open", begin, end, apply, targets=closed,
        because_of=None if growth is None else growth[0].name,
    )  # fmt: skip


def _over(d: Draft, growth: Growth) -> float:
    """Return an hour at which targets have grown over the limit."""
    planned, highest = growth
    return planned.begin + float(d.rng.uniform(0.8, 1.0)) * (highest - planned.begin)


def load(
    d: Draft, *, reads: bool = False, bursts: bool = False, begin: float | None = None
) -> Planned:
    """Let other jobs move bytes: for hours to days, or in bursts; files are overwritten."""
    begin = d.onset() if begin is None else begin
    end = begin + d.length(48 if bursts else 10, 200)
    loss = d.depth(0.08, 0.6)
    amount = loss * d.site.target_write * (1.0 if d.site.share > 1 else 0.8 / 0.35)
    on = np.repeat(d.rng.random(d.site.hours // 2 + 1) < 0.35, 2)[: d.site.hours] | (not bursts)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.users_write[hours] += (0.4 if reads else 1.0) * amount * on[hours, None]
        state.users_read[hours] += (1.3 if reads else 0.2) * amount * on[hours, None]
        state.jobs[hours] += 1

    return d.add("competing-load", begin, end, apply)


def metadata_load(d: Draft, *, bursts: bool) -> None:
    """Let other jobs create and open files on one MDT or all."""
    begin = d.onset()
    end = begin + d.length(48 if bursts else 8, 200)
    amount, mdt = float(d.rng.uniform(0.15, 0.9)) * 1.2e5, int(d.rng.integers(-1, d.site.mdts))
    on = np.repeat(d.rng.random(d.site.hours // 3 + 1) < 0.35, 3)[: d.site.hours] | (not bursts)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        which = slice(None) if mdt < 0 else slice(mdt, mdt + 1)
        state.operations[hours, which] += amount * on[hours, None]

    d.add("metadata-load", begin, end, apply)


def silent(d: Draft, how: str) -> None:
    """Let one target hang, crawl, be lost, or go read-only; the users' bytes stop with it."""
    begin, ost, lag = d.onset(), d.ost(), d.lag()
    end, speed = begin + d.length(3, 60), float(d.rng.uniform(0.02, 0.15))

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        factor = speed if how == "crawls" else 0.0
        state.users_write[hours, ost] *= factor
        state.full[hours, ost] = state.full[hours.start, ost]
        if how == "lost":
            state.connected[hours, ost] = False
        elif how == "read-only":
            state.read_only[hours, ost] = True
        else:
            state.target_write[hours, ost] *= factor
            state.target_read[hours, ost] *= factor
            state.users_read[hours, ost] *= factor
        d.write(state, "target-failed", begin, f"{target(ost)} does not answer", until=end,
                of=planned.name, targets=(ost,), lag_h=lag)  # fmt: skip

    planned = d.add("target-silent", begin, end, apply, targets=(ost,))


def degraded(d: Draft, *, begin: float | None = None) -> Planned:
    """Take a drive out of an array; the rebuild takes its part of the speed."""
    begin, ost = (d.onset() if begin is None else begin), d.ost()
    end, factor, lag = begin + d.length(10, 90), float(d.rng.uniform(0.3, 0.75)), d.lag()

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.missing_drives[hours, ost] = 1
        state.target_write[hours, ost] *= factor
        state.target_read[hours, ost] *= factor * 0.9
        d.write(state, "rebuild", begin, f"drive of {target(ost)} replaced, rebuild", until=end,
                of=planned.name, targets=(ost,), lag_h=lag)  # fmt: skip

    planned = d.add("array-degraded", begin, end, apply, targets=(ost,))
    return planned


def slow_drive(d: Draft) -> None:
    """Let one drive of an array be slow, with media errors now and then."""
    begin, ost = d.onset(), d.ost()
    end, factor = d.end(begin, 48, 500), float(d.rng.uniform(0.4, 0.85))
    errors = np.cumsum(d.rng.poisson(0.15, d.site.hours)).astype(float)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.target_write[hours, ost] *= factor
        state.target_read[hours, ost] *= (1 + factor) / 2
        state.media_errors[hours.start :, ost] += (errors - errors[hours.start])[hours.start :]
        if end is not None:
            d.write(state, "rebuild", end, f"drive of {target(ost)} replaced", of=planned.name,
                    targets=(ost,))  # fmt: skip

    planned = d.add("array-degraded", begin, end, apply, targets=(ost,))


def failover(d: Draft, *, days: bool = False) -> None:
    """Let a server fail: its neighbour carries the targets of two, until they are given back."""
    begin, number, lag = d.onset(), int(d.rng.integers(d.site.servers)), d.lag()
    end = begin + (d.length(72, 240) if days else d.length(5, 60))
    back = begin + float(d.rng.uniform(2, 10))
    neighbour = number ^ 1 if (number ^ 1) < d.site.servers else max(number - 1, 0)
    carried = d.of_server(number)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.serving[hours, slice(carried[0], carried[-1] + 1)] = neighbour
        state.up[state.hours(begin, min(back, end)), number] = False
        state.rebooted[state.hours(back, back + 1), number] = True
        d.write(state, "failover", begin, f"{server(number)} to {server(neighbour)}", until=end,
                of=planned.name, targets=carried, lag_h=lag)  # fmt: skip

    planned = d.add("failover", begin, end, apply, targets=carried)


def no_trim(d: Draft, *, then_collecting: bool = False) -> None:
    """Stop the trims: writes get slower over days, until somebody trims again."""
    begin = d.onset(0.35, 0.6)
    end = d.end(begin, 150, 700)
    last = float(d.site.hours) if end is None else end
    worse = float(d.rng.uniform(1.15, 1.5))

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.trimmed[hours] = False
        state.log = [
            line for line in state.log if line.kind != "trim" or not begin <= line.hour < last
        ]
        if end is not None:
            state.trimmed[int(end)] = True
            d.write(state, "trim", end, "fstrim by hand, timer was off", of=first.name)

    first = d.add("trim-overdue", begin, end, apply, accepted=COLLECT)
    if then_collecting:

        def collect(state: State) -> None:
            hours = state.hours(begin + 72, end)
            state.collecting[hours] *= worse

        d.add("garbage-collection", begin + 72, end, collect, because_of=first.name)


def collecting(d: Draft) -> None:
    """Let users overwrite in small pieces: drives collect garbage while they write."""
    begin, worse = d.onset(), float(d.rng.uniform(1.25, 2.0))
    end = begin + d.length(24, 300)

    def apply(state: State) -> None:
        state.collecting[state.hours(begin, end)] *= worse

    d.add("garbage-collection", begin, end, apply)


def throttling(d: Draft) -> None:
    """Let writeback throttling come back at its default, with an update or by hand."""
    begin, update, lag = d.onset(), d.maybe(0.5), d.lag()
    end = d.end(begin)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.throttled[hours] = True
        if update:
            state.rebooted[hours.start] = True
            state.settings.append(
                (begin, "servers", "kernel_release", "4.18.0-513.9.1.el8_lustre.x86_64")
            )
            d.write(state, "config-change", begin, "kernel update on OSSs", of=planned.name,
                    lag_h=lag)  # fmt: skip

    reason = "the latency that was set, or the update that brought its default back, is the change"
    planned = d.add("writeback-throttling", begin, end, apply,
                    accepted={"configuration-change": reason})  # fmt: skip


def loops(d: Draft, *, growth: Growth | None = None) -> None:
    """Let the allocator scan all groups without a result: a threshold set back, or growth."""
    begin = d.onset() if growth is None else _over(d, growth)
    end = d.end(begin) if growth is None else growth[0].end
    some = np.clip(d.rng.uniform(0.01, 0.06) * d.rng.uniform(0.5, 1.3, d.site.osts), 0, 0.09)

    def apply(state: State) -> None:
        state.loops[state.hours(begin, end)] += some
        if growth is None:
            state.settings.append((begin, "targets", "ldiskfs/md0/mb_c2_threshold", "15"))
            if end is not None:
                state.settings.append((end, "targets", "ldiskfs/md0/mb_c2_threshold", "25"))

    reason = "the threshold that was set back is a setting"
    d.add(
        "allocator-loops", begin, end, apply,
        because_of=None if growth is None else growth[0].name,
        accepted={"configuration-change": reason} if growth is None else {},
    )  # fmt: skip
