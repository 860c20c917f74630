"""Faults of settings, nodes, the network between, and the runs themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.worlds.draft import Draft, Planned
from tests.worlds.site import client, server
from tests.worlds.state import Outcome, Pool, SlowNode, State
from tests.worlds.world import Cause

CLIENT_SETTINGS = (
    ("checksums", "1", 0.9), ("rpcs_in_flight", "4", 0.8), ("pages_per_rpc", "256", 0.9),
    ("dirty_mb", "128", 0.1), ("read_ahead_mb", "64", 1.5),
    ("kernel_release", "5.14.21-150500.55.83-default", 0.7), ("lustre_version", "2.15.5", 0.6),
)  # fmt: skip
"""Name, new value, and the loss of reads over that of writes."""
UNCOLLECTED = (
    "adaptive routing of the fabric", "huge pages on compute nodes", "C-states of compute nodes",
    "LNet peer credits", "cgroup limits of batch jobs", "MPI library of the probe",
)  # fmt: skip
SERVER_SETTINGS = (
    ("drives/queue/scheduler", "mq-deadline"), ("drives/queue/nr_requests", "64"),
    ("md/stripe_cache_size", "1024"), ("obdfilter/brw_size", "1"),
)  # fmt: skip


def client_setting(d: Draft, told: str, begin: float | None = None) -> Planned:
    """Change something on the clients; ``told``: snapshots, log, both or neither show it."""
    begin = d.onset() if begin is None else begin
    end, loss = d.end(begin), d.depth()
    name, value, reads = CLIENT_SETTINGS[d.rng.integers(len(CLIENT_SETTINGS))]
    if told in {"log", "neither"}:
        name, value, reads = str(d.rng.choice(UNCOLLECTED)), "", float(d.rng.uniform(0.3, 1))
    files, lag = float(d.rng.uniform(0, 0.6)), d.lag()

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.client_write[hours] *= 1 - loss
        state.client_read[hours] *= 1 - min(0.8, loss * reads)
        state.client_metadata[hours] *= 1 - loss * files
        if told in {"snapshots", "both"}:
            state.settings.append((begin, "clients", name, value))
            if end is not None:
                usual = next(old for old_name, old in _USUAL if old_name == name)
                state.settings.append((end, "clients", name, usual))
        if told in {"log", "both"}:
            d.write(state, "config-change", begin, f"{name} changed on compute nodes {value}",
                    of=planned.name, lag_h=lag, sure=True)  # fmt: skip

    planned = d.add("configuration-change", begin, end, apply)
    return planned


_USUAL = (
    ("checksums", "0"), ("rpcs_in_flight", "16"), ("pages_per_rpc", "1024"), ("dirty_mb", "2000"),
    ("read_ahead_mb", "1024"), ("kernel_release", "5.14.21-150400.24.69-default"),
    ("lustre_version", "2.15.3"),
)  # fmt: skip


def server_setting(d: Draft) -> None:
    """Change a setting of all targets' devices: probes that clients bind do not see it."""
    begin, loss, lag = d.onset(), d.depth(0.08, 0.45), d.lag()
    end = d.end(begin)
    name, value = SERVER_SETTINGS[d.rng.integers(len(SERVER_SETTINGS))]
    reads = float(d.rng.uniform(0, 1))
    usual = {"drives/queue/scheduler": "none", "drives/queue/nr_requests": "1023",
             "md/stripe_cache_size": "16384", "obdfilter/brw_size": "16"}[name]  # fmt: skip

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.target_write[hours] *= 1 - loss
        state.target_read[hours] *= 1 - loss * reads
        state.settings.append((begin, "targets", name, value))
        if end is not None:
            state.settings.append((end, "targets", name, usual))
        d.write(state, "config-change", begin, f"{name} set to {value} on all OSSs",
                of=planned.name, lag_h=lag)  # fmt: skip

    planned = d.add("configuration-change", begin, end, apply)


def one_server(d: Draft) -> None:
    """Change one server only: its targets are slow, and files over all targets wait for them."""
    begin, loss, lag = d.onset(), d.depth(0.15, 0.5), d.lag()
    end, number = d.end(begin), int(d.rng.integers(d.site.servers))
    name, value, usual = (("cpu_governor", "powersave", "performance"),
                          ("lustre_version", "2.15.5", "2.15.3"))[d.rng.integers(2)]  # fmt: skip

    def apply(state: State) -> None:
        state.server_speed[state.hours(begin, end), number] *= 1 - loss
        state.settings.append((begin, server(number), name, value))
        if end is not None:
            state.settings.append((end, server(number), name, usual))
        state.rebooted[int(begin), number] = True
        d.write(state, "note", begin, f"{server(number)} reinstalled", of=planned.name, lag_h=lag)

    planned = d.add("configuration-change", begin, end, apply, targets=d.of_server(number))


def upgrade(d: Draft) -> None:
    """Upgrade servers and clients in a maintenance: something is slower afterwards."""
    begin, loss = d.site.maintenance[0][1], d.depth()
    reads, on_servers = float(d.rng.uniform(0.2, 1)), d.maybe(0.4)

    def apply(state: State) -> None:
        hours = state.hours(begin, None)
        (state.target_write if on_servers else state.client_write)[hours] *= 1 - loss
        (state.target_read if on_servers else state.client_read)[hours] *= 1 - loss * reads
        for whose in ("servers", "clients"):
            state.settings.append((begin - 2, whose, "lustre_version", "2.15.6"))
        d.write(state, "config-change", begin, "Lustre 2.15.6 on servers and clients",
                of=planned.name)  # fmt: skip

    planned = d.add("configuration-change", begin, None, apply)


def moved_nodes(d: Draft, *, partition: bool = False, begin: float | None = None) -> Planned:
    """Move the probe to other nodes, in the very run in which it loses."""
    begin = d.onset() if begin is None else begin
    end, loss = d.end(begin), d.depth()
    first, reads = int(600 + 100 * d.rng.integers(5)), float(d.rng.uniform(0.3, 1))
    size = max(64, 3 * d.site.main.nodes)

    def apply(state: State) -> None:
        state.move(Pool(begin, first, size, 1 - loss, 1 - loss * reads), end)
        if partition:
            d.write(state, "config-change", begin, "probe now runs in partition gpu",
                    of=planned.name)  # fmt: skip

    reason = "the log book, where it has the line, calls the other partition a change"
    planned = d.add(
        "client-node", begin, end, apply, runs_tell=("hosts",),
        accepted={"configuration-change": reason} if partition else {},
    )  # fmt: skip
    return planned


def bad_node(d: Draft) -> None:
    """Let one node of the pool slow every run that gets it."""
    begin = d.onset()
    end, factor = d.end(begin, 72, 700), 1 - d.depth(0.15, 0.7)
    number = int(d.rng.integers(min(64, 2 * d.site.main.nodes)))

    def apply(state: State) -> None:
        last = float(state.site.hours) if end is None else end
        pool = state.pool_at(begin)
        node = pool.first_node + number
        state.move(replace(pool, hour=begin), end)
        state.slow_nodes.append(SlowNode(begin, last, node, factor))
        if end is not None:
            d.write(state, "note", end, f"{client(node)} drained, link at half speed",
                    of=planned.name)  # fmt: skip

    planned = d.add("client-node", begin, end, apply, runs_tell=("one-node",))


def client_version(d: Draft) -> None:
    """Upgrade the clients' Lustre while the servers keep theirs."""
    begin, loss = d.onset(), d.depth()
    files = float(d.rng.uniform(0.5, 1.2))

    def apply(state: State) -> None:
        hours = state.hours(begin, None)
        for factor in (state.client_write, state.client_read):
            factor[hours] *= 1 - loss
        state.client_metadata[hours] *= 1 - min(0.8, loss * files)
        state.settings.append((begin, "clients", "lustre_version", "2.16.1"))

    d.add("configuration-change", begin, None, apply)


def network_server(d: Draft, *, errors: bool = True) -> None:
    """Slow the network of one server, with errors that LNet counts or without."""
    begin, loss = d.onset(), d.depth(0.3, 0.85)
    end, number, lag = d.end(begin, 12, 300), int(d.rng.integers(d.site.servers)), d.lag()
    counted = d.rng.poisson(40 * loss, d.site.hours).astype(float)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.server_network[hours, number] *= 1 - loss
        if errors:
            state.network_errors[hours, number] += counted[hours]
        else:
            d.write(state, "note", begin, f"link of {server(number)} at half width",
                    of=planned.name, lag_h=lag)  # fmt: skip

    planned = d.add("network", begin, end, apply, targets=d.of_server(number))


def fabric(d: Draft) -> None:
    """Slow the fabric between clients and servers: surveys on the servers do not see it."""
    begin, loss, lag = d.onset(), d.depth(0.08, 0.5), d.lag()
    end, errors = d.end(begin, 12, 300), d.maybe(0.5)
    counted = d.rng.poisson(6, (d.site.hours, d.site.servers)).astype(float)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.fabric[hours] *= 1 - loss
        if errors:
            state.network_errors[hours] += counted[hours]
        d.write(state, "note", begin, "switch of the fabric reports lane errors",
                of=planned.name, lag_h=lag)  # fmt: skip

    planned = d.add("network", begin, end, apply, runs_tell=("network",))


def launch(d: Draft, *, started: bool) -> None:
    """Let the launcher fail: runs do not start, or find no name service."""
    begin = d.onset()
    end, share = begin + d.length(4, 40), float(d.rng.uniform(0.6, 1.0))
    status, problem = (
        "not_started",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller",
    )
    if started:
        status, problem = "failed", "getaddrinfo: mds000: Temporary failure in name resolution"

    def apply(state: State) -> None:
        state.outcomes.append(Outcome(begin, end, share, status, problem))
        d.write(state, "launch-failure", begin, "name service down" if started else "Slurm down",
                of=planned.name, until=end)  # fmt: skip

    planned = d.add("launch-failure", begin, end, apply, runs_tell=("problem",))


def unfinished(d: Draft) -> None:
    """Let a share of runs not end from now on; nothing records why."""
    begin, share = d.onset(), float(d.rng.uniform(0.08, 0.25))

    def apply(state: State) -> None:
        last = float(state.site.hours)
        state.outcomes.append(Outcome(begin, last, share, "unfinished", None, ("ior",)))

    d.add(None, begin, None, apply)


def mismatch(d: Draft, *, invalid: bool) -> None:
    """Let the probe move less than asked: hardly anything, or a part."""
    begin = d.onset()
    end = d.end(begin, 24, 300)
    part = 0.02 if invalid else float(d.rng.uniform(0.15, 0.6))

    def apply(state: State) -> None:
        state.mismatch[state.hours(begin, end)] = part

    d.add("workload-mismatch", begin, end, apply, runs_tell=("status", "bytes"))


def cached(d: Draft) -> None:
    """Let reads come from the clients' memory."""
    begin = d.onset()
    end, faster = d.end(begin, 24, 300), float(d.rng.uniform(2, 9))

    def apply(state: State) -> None:
        state.cached[state.hours(begin, end)] = faster

    d.add("cached-read", begin, end, apply, runs_tell=("disbelieved",))


def checksums(d: Draft) -> None:
    """Damage transfers of one server now and then: nothing is slow."""
    begin, number = d.onset(), int(d.rng.integers(d.site.servers))
    end = begin + d.length(6, 200)
    counted = d.rng.poisson(0.3, d.site.hours).astype(float)
    counted[int(begin)] = 2.0

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        state.checksum_errors[hours, number] += counted[hours]

    d.add("bad-checksums", begin, end, apply, targets=d.of_server(number))


def unsteady(d: Draft, *, weeks: bool, told: str) -> None:
    """Let runs scatter more while the level stays: by nodes, by other jobs, or by nothing seen."""
    begin = d.onset(0.4, 0.6)
    end = begin + d.length(300, 360) if weeks else None
    last = float(d.site.hours) if end is None else end
    cov = float(d.rng.uniform(0.10, 0.16))
    size = max(64, 4 * d.site.main.nodes)
    # Half of the stretches of so many neighbouring nodes have one of these.
    slow = 20 + np.arange(0, size, 2 * d.site.main.nodes)
    on = d.rng.random(d.site.hours) < 0.5
    amount = 2 * cov * d.site.target_write * (1.0 if d.site.share > 1 else 0.8 / 0.35)

    def apply(state: State) -> None:
        hours = state.hours(begin, end)
        if told == "nodes":  # a mixed partition: some nodes are faster, some slower than before
            state.move(Pool(begin, 20, size, 1 + cov, 1 + cov), end)
            factor = (1 - cov) / (1 + cov)
            state.slow_nodes += [SlowNode(begin, last, node, factor) for node in slow.tolist()]
        elif told == "load":
            state.users_write[hours] += amount * on[hours, None]
            state.jobs[hours] += 3
        else:
            state.spread[hours] = cov

    mechanisms: dict[str, Cause] = {"nodes": "client-node", "load": "competing-load"}
    tells = ("one-node",) if told == "nodes" else ()
    d.add(mechanisms.get(told), begin, end, apply, runs_tell=tells)
