"""Every family with its variants: what is planned, on which sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from tests.worlds import of_clients, of_storage
from tests.worlds.draft import Draft
from tests.worlds.site import client, server
from tests.worlds.state import Pool, State
from tests.worlds.world import Cause


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of a family.

    Attributes
    ----------
    plan
        Adds the faults to a draft.
    wishes
        What the site must be like for it (`draft.with_`).
    """

    name: str
    plan: Callable[[Draft], object]
    wishes: tuple[str, ...] = ()
    days_least: int = 20


def unknown(d: Draft, *, of: str) -> None:
    """Lose speed without a trace in the record: at the clients, one target, a day, or by drift."""
    begin = d.onset()
    end, loss, ost = d.end(begin, 24, 400), d.depth(), d.ost()
    if of == "dip":
        end = begin + d.length(5, 40)
    slope = np.clip((np.arange(d.site.hours) - begin) / (24 * d.rng.uniform(8, 20)), 0, 1)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        if of == "target":
            state.target_write[hours, ost] *= 1 - max(loss, 0.3)
            state.target_read[hours, ost] *= 1 - max(loss, 0.3)
        elif of == "drift":
            state.client_write *= 1 - max(loss, 0.12) * slope
            state.client_read *= 1 - max(loss, 0.12) * slope
        else:
            state.client_write[hours] *= 1 - loss
            state.client_read[hours] *= 1 - loss

    d.add(None, begin, None if of == "drift" else end, apply,
          targets=(ost,) if of == "target" else ())  # fmt: skip


def after_gap(d: Draft, *, what: str) -> None:
    """Let the level differ after a gap of weeks: by an upgrade, other nodes, or nobody knows."""
    gap = d.site.gaps[0]
    begin, loss = float(d.rng.uniform(*gap)), d.depth()
    reads = float(d.rng.uniform(0.2, 1))

    def apply(state: State) -> None:
        hours = state.hours(begin, None)
        if what == "nodes":
            size = max(64, 3 * d.site.main.nodes)
            state.move(Pool(begin, 700, size, 1 - loss, 1 - loss), None)
            return
        state.client_write[hours] *= 1 - loss
        state.client_read[hours] *= 1 - loss * reads
        if what == "settings":
            state.settings.append((begin, "clients", "lustre_version", "2.15.6"))
            state.settings.append((begin, "clients", "kernel_release", "5.14.21-150500.55-default"))
        if what == "log":
            d.write(state, "config-change", begin, "compute nodes reinstalled", of=planned.name,
                    sure=True)  # fmt: skip

    mechanism: Cause = "client-node" if what == "nodes" else "configuration-change"
    planned = d.add(mechanism, begin, None, apply,
                    runs_tell=("hosts",) if what == "nodes" else ())  # fmt: skip


def flaps(d: Draft, *, of: str) -> None:
    """Let one cause come and go, three to eight times within days."""
    begin, ost = d.onset(), d.ost()
    number = ost // d.site.per_server
    spells, hour = [], begin
    for _ in range(int(d.rng.integers(3, 9))):
        lasts = float(d.rng.uniform(1, 7)) * max(1.0, d.site.main.every_h / 2)
        spells.append((hour, hour + lasts))
        hour += lasts + float(d.rng.uniform(2, 18)) * max(1.0, d.site.main.every_h / 2)
    end, loss = spells[-1][1], d.depth(0.2, 0.8)
    counted = d.rng.poisson(30, d.site.hours).astype(float)
    bytes_more = loss * d.site.target_write * (1.0 if d.site.share > 1 else 0.8 / 0.35)
    node = int(20 + d.rng.integers(d.site.main.nodes))

    def apply(state: State) -> None:
        for first, last in spells:
            hours = state.hours(first, last)
            if of == "network":
                state.server_network[hours, number] *= 1 - loss
                state.network_errors[hours, number] += counted[hours]
            elif of == "load":
                state.users_write[hours] += bytes_more
                state.jobs[hours] += 1
            elif of == "target":
                state.target_write[hours, ost] *= 0.1
                state.target_read[hours, ost] *= 0.1
                state.users_write[hours, ost] *= 0.1
                state.users_read[hours, ost] *= 0.1
            else:
                state.client_write[hours] *= 1 - loss
                state.client_read[hours] *= 1 - loss
        if of == "network":
            d.write(state, "note", end, f"cable of {server(number)} replaced", of=planned.name)
        if of == "nothing":
            d.write(state, "note", end + 20, f"{client(node)} back in service")

    mechanisms: dict[str, Cause] = {
        "network": "network", "load": "competing-load", "target": "target-silent"
    }  # fmt: skip
    targets = {"network": d.of_server(number), "target": (ost,)}.get(of, ())
    planned = d.add(mechanisms.get(of), begin, end, apply, targets=targets)


def two(d: Draft) -> None:
    """Let two faults that have nothing to do with each other overlap in time."""
    first = d.onset(0.4, 0.6)
    makers: list[Callable[[float], object]] = [
        lambda hour: of_clients.client_setting(d, "both", hour),
        lambda hour: of_storage.load(d, begin=hour),
        lambda hour: of_storage.degraded(d, begin=hour),
        lambda hour: of_clients.moved_nodes(d, begin=hour),
    ]
    picked = d.rng.permutation(len(makers))[:2].tolist()
    makers[picked[0]](first)
    makers[picked[1]](first + float(d.rng.uniform(2, 30)))


def step_in_flapping(d: Draft) -> None:
    """Change a client setting while the network of a server comes and goes."""
    flaps(d, of="network")
    fault = d.faults[0]
    of_clients.client_setting(
        d, "both", float(d.rng.uniform(fault.begin, fault.end or fault.begin))
    )


def in_fill_up(d: Draft) -> None:
    """Let a fault come while the file system fills up over the limit."""
    grown, _ = of_storage.over_limit(d)
    begin = grown.begin + float(d.rng.uniform(10, 100))
    if d.maybe(0.5):
        of_storage.degraded(d, begin=begin)
    else:
        of_clients.client_setting(d, "both", begin)


def closed_by_policy(d: Draft) -> None:
    """Let growth over the limit make the policy close most targets."""
    of_storage.few_open(d, policy=True, growth=of_storage.over_limit(d))


def loops_by_growth(d: Draft) -> None:
    """Let growth over 75 % bring the allocator to scan in vain."""
    of_storage.loops(d, growth=of_storage.over_limit(d))


def nothing(_: Draft) -> None:
    """Let nothing go wrong."""


_C, _S = of_clients, of_storage
VARIANTS: Final[dict[str, tuple[Variant, ...]]] = {
    "configuration": (
        Variant("client, snapshots", partial(_C.client_setting, told="snapshots"),
                ("snapshots", "mostly clients")),
        Variant("client, log", partial(_C.client_setting, told="log"), ("log", "mostly clients")),
        Variant("client, both", partial(_C.client_setting, told="both"),
                ("snapshots", "log", "mostly clients")),
        Variant("client, neither", partial(_C.client_setting, told="neither"), ("mostly clients",)),
        Variant("server", _C.server_setting, ("servers", "surveys", "snapshots")),
        Variant("one server", _C.one_server, ("servers", "surveys", "snapshots")),
        Variant("upgrade", _C.upgrade, ("maintenance", "snapshots", "mostly clients")),
    ),
    "full": (
        Variant("load fills", _S.fills_up),
        Variant("quota", _S.quota),
        Variant("one target", _S.one_fills, ("surveys",)),
        Variant("over the limit", _S.over_limit, ("servers", "fuller", "snapshots")),
        Variant("closed by policy", closed_by_policy, ("servers", "fuller"), 40),
        Variant("closed by hand", partial(_S.few_open, policy=False), ("servers", "snapshots")),
    ),
    "load": (
        Variant("bytes", _S.load),
        Variant("reads", partial(_S.load, reads=True)),
        Variant("bursts", partial(_S.load, bursts=True), ("often",)),
        Variant("metadata", partial(_S.metadata_load, bursts=False), ("metadata", "snapshots")),
        Variant("metadata bursts", partial(_S.metadata_load, bursts=True), ("metadata",)),
    ),
    "nodes": (
        Variant("moved", _C.moved_nodes, ("hosts", "mostly clients")),
        Variant("bad node", _C.bad_node, ("hosts", "roams", "mostly clients")),
        Variant("client version", _C.client_version, ("snapshots", "mostly clients")),
        Variant("partition", partial(_C.moved_nodes, partition=True), ("mostly clients",)),
    ),
    "target": (
        Variant("hangs", partial(_S.silent, how="hangs")),
        Variant("crawls", partial(_S.silent, how="crawls"), ("surveys",)),
        Variant("lost", partial(_S.silent, how="lost"), ("snapshots",)),
        Variant("read-only", partial(_S.silent, how="read-only"), ("snapshots",)),
        Variant("degraded", _S.degraded, ("surveys",)),
        Variant("failover", _S.failover, ("servers",)),
        Variant("slow drive", _S.slow_drive, ("surveys",)),
    ),
    "flash": (
        Variant("trim overdue", _S.no_trim, ("servers", "fuller", "surveys"), 40),
        Variant("collecting", _S.collecting, ("servers", "fuller")),
        Variant("throttling", _S.throttling, ("servers", "fuller", "snapshots")),
        Variant("loops", _S.loops, ("servers", "over", "snapshots")),
    ),
    "network": (
        Variant("server with errors", _C.network_server, ("servers", "surveys", "snapshots")),
        Variant("link", partial(_C.network_server, errors=False), ("servers", "log")),
        Variant("fabric", _C.fabric, ("mostly clients",)),
    ),
    "runs": (
        Variant("name service", partial(_C.launch, started=True), ("often",)),
        Variant("not started", partial(_C.launch, started=False), ("often",)),
        Variant("unfinished share", _C.unfinished, ("often",), 40),
        Variant("invalid workload", partial(_C.mismatch, invalid=True)),
        Variant("smaller workload", partial(_C.mismatch, invalid=False)),
        Variant("cached reads", _C.cached),
        Variant("bad checksums", _C.checksums, ("snapshots",)),
    ),
    "steadiness": (
        Variant("for good, nodes", partial(_C.unsteady, weeks=False, told="nodes"),
                ("often", "hosts", "roams", "clients"), 60),
        Variant("for good, unknown", partial(_C.unsteady, weeks=False, told=""), ("often",), 60),
        Variant("two weeks, load", partial(_C.unsteady, weeks=True, told="load"),
                ("often", "snapshots"), 70),
        Variant("two weeks, unknown", partial(_C.unsteady, weeks=True, told=""), ("often",), 70),
    ),
    "gaps": (
        Variant("settings", partial(after_gap, what="settings"),
                ("gap", "snapshots", "mostly clients"), 50),
        Variant("log", partial(after_gap, what="log"), ("gap", "log", "mostly clients"), 50),
        Variant("nodes", partial(after_gap, what="nodes"), ("gap", "hosts", "mostly clients"), 50),
        Variant("unrecorded", partial(after_gap, what="nothing"), ("gap", "mostly clients"), 50),
    ),
    "chains": (
        Variant("load, full, no space", _S.fills_up, ("often", "snapshots")),
        Variant("no trim, collecting", partial(_S.no_trim, then_collecting=True),
                ("servers", "fuller", "snapshots"), 40),
        Variant("server carries two", partial(_S.failover, days=True), ("servers", "snapshots")),
        Variant("purge stopped", partial(_S.over_limit, purge_stopped=True),
                ("servers", "fuller", "snapshots"), 40),
        Variant("over, closed", closed_by_policy, ("servers", "snapshots", "fuller"), 40),
        Variant("over, loops", loops_by_growth,
                ("servers", "snapshots", "fuller", "old allocator"), 40),
    ),
    "overlaps": (
        Variant("two", two, ("balanced", "snapshots", "surveys")),
        Variant("step in flapping", step_in_flapping, ("balanced", "often", "snapshots")),
        Variant("fault in fill-up", in_fill_up, ("balanced", "fuller", "snapshots"), 40),
    ),
    "flapping": (
        Variant("network", partial(flaps, of="network"), ("servers", "often")),
        Variant("load", partial(flaps, of="load"), ("often",)),
        Variant("target", partial(flaps, of="target"), ("often",)),
        Variant("nothing seen", partial(flaps, of="nothing"), ("often", "mostly clients")),
    ),
    "unknowable": (
        Variant("clients", partial(unknown, of="clients"), ("mostly clients",)),
        Variant("target", partial(unknown, of="target"), ("surveys",)),
        Variant("dip", partial(unknown, of="dip"), ("mostly clients",)),
        Variant("drift", partial(unknown, of="drift"), ("mostly clients",), 40),
    ),
    "quiet": (
        Variant("plain", nothing, ("plain",), 30),
        Variant("busy", nothing, (), 30),
    ),
}  # fmt: skip
