"""What targets and servers can do in one hour, and how long a probe takes on them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.incidents import physics
from tests.incidents.physics import MIB, Array
from tests.incidents.system import Conditions, State, System

USER_REQUESTS_PER_MIB = 4.0
"""Assumed: users write in pieces of 256 KiB, probes in whole stripes of 1 MiB."""
ALLOCATOR_CORES = 8.0
"""Assumed: locks of groups let so many cores search one OST at a time."""


@dataclass(frozen=True, slots=True)
class Rates:
    """One hour's ceilings, an item a target; what users take is ``used``.

    Attributes
    ----------
    cores, send, receive
        What users leave of each server: cores, and bytes/s to and from its clients.
    """

    amplification: Array
    collecting: Array
    loops: Array
    write: Array
    read: Array
    core_s_per_byte_written: Array
    user_core_s_per_byte_written: Array
    used_write: Array
    used_read: Array
    cores: Array
    receive: Array
    send: Array


def per_server(system: System, now: Conditions, values: Array) -> Array:
    """Return sums over the targets that each server has now."""
    sums = np.bincount(now.serving, weights=values, minlength=system.servers)
    return sums.astype(np.float64)


def make_rates(system: System, state: State, now: Conditions) -> Rates:
    """Return what every target and server can do, and what users take of it."""
    site = system.site
    amplification = physics.write_amplification(state.fullness, state.dose, now.random_share)
    collecting = physics.collecting_share(amplification)
    old = site.allocator == "old"
    loops = physics.useless_loops_per_request(state.fullness, now.thresholds, old=old, age=site.age)
    search = loops * physics.GROUPS * site.scan_s_per_group / MIB
    partial = physics.partial_stripes(state.fullness)
    write, read = physics.drive_side(amplification, now.missing_drives, now.rebuild, partial)
    reads_mixed = 1 - np.exp(-now.user_read / physics.DRIVES / (128 * 1024) * 0.1)
    throttled = physics.throttled_share(collecting, reads_mixed)
    write = np.where(now.throttling, write * throttled, write)
    write = np.minimum(write, physics.OST_WRITE_BYTES_PER_S)
    write = np.minimum(write, ALLOCATOR_CORES / np.maximum(search, 1e-15))
    read = np.minimum(read, physics.OST_READ_BYTES_PER_S)
    gone = now.parted | ~now.exists
    write = np.where(gone | now.read_only, 0.0, np.minimum(write, now.rate_limit))
    read = np.where(gone, 0.0, np.minimum(read, now.rate_limit))
    of_users = physics.CORE_S_PER_BYTE_WRITTEN + USER_REQUESTS_PER_MIB * search
    used_write, used_read = np.minimum(now.user_write, write), np.minimum(now.user_read, read)
    work = used_write * of_users + used_read * physics.CORE_S_PER_BYTE_READ
    network = now.server_network
    squeeze = _squeeze(system, now, work, used_write, used_read)
    used_write, used_read, work = used_write * squeeze, used_read * squeeze, work * squeeze
    return Rates(
        amplification=amplification,
        collecting=collecting,
        loops=loops,
        write=write,
        read=read,
        core_s_per_byte_written=physics.CORE_S_PER_BYTE_WRITTEN + search,
        user_core_s_per_byte_written=of_users,
        used_write=used_write,
        used_read=used_read,
        cores=physics.CORES * 0.95 - per_server(system, now, work),
        receive=physics.SERVER_WRITE_BYTES_PER_S * network - per_server(system, now, used_write),
        send=physics.SERVER_READ_BYTES_PER_S * network - per_server(system, now, used_read),
    )


def _squeeze(system: System, now: Conditions, work: Array, write: Array, read: Array) -> Array:
    """Return by how much each target's users have to slow down where they ask for all.

    A probe that comes gets its share by open files, and users have the rest.
    """
    users = 1 - fair_share(system, now, system.probe_streams)
    room = np.minimum.reduce(
        [
            users * whole / np.maximum(per_server(system, now, asked), 1e-9)
            for whole, asked in (
                (physics.CORES, work),
                (physics.SERVER_WRITE_BYTES_PER_S * now.server_network, write),
                (physics.SERVER_READ_BYTES_PER_S * now.server_network, read),
            )
        ]
    )
    return np.minimum(1.0, room)[now.serving]


def fair_share(system: System, now: Conditions, streams: float) -> Array:
    """Return the share of each server that a job with so many open files a target gets.

    At most half: users that do little are not in its way, and take what they ask for.
    """
    theirs = per_server(system, now, now.streams)
    own = per_server(system, now, np.full(system.osts, streams))
    return np.minimum(own / np.maximum(own + theirs, 1e-9), 0.5)


@dataclass(frozen=True, slots=True)
class Phase:
    """How long a phase of a probe takes, and at what rate each target was written or read."""

    duration_s: float
    rate: Array


def open_rates(
    system: System, now: Conditions, rates: Rates, *, write: bool, noise: float
) -> Array:
    """Return what each target leaves for a probe, its server aside."""
    ceiling, used = (rates.write, rates.used_write) if write else (rates.read, rates.used_read)
    streams = system.probe_streams
    left = physics.share_of(ceiling, used, streams, now.streams)
    return left * np.exp(min(noise, 0.15))


def server_limits(
    system: System, now: Conditions, rates: Rates, *, write: bool, streams: float
) -> tuple[Array, Array, Array]:
    """Return cores, network and the cores that a byte takes, as a probe finds them."""
    cost = (
        rates.core_s_per_byte_written
        if write
        else np.full(system.osts, physics.CORE_S_PER_BYTE_READ)
    )
    network, whole = (
        (rates.receive, physics.SERVER_WRITE_BYTES_PER_S)
        if write
        else (rates.send, physics.SERVER_READ_BYTES_PER_S)
    )
    fair = fair_share(system, now, streams)
    cores = np.maximum(rates.cores, physics.CORES * 0.95 * fair)
    return cores, np.maximum(network, whole * now.server_network * fair), cost


def phase(
    system: System,
    now: Conditions,
    rates: Rates,
    share: Array,
    clients: Array,
    *,
    write: bool,
    noise: float,
) -> Phase:
    """Return how long a file-per-process phase takes: until the last file is closed.

    Parameters
    ----------
    share
        Bytes that each target gets.
    clients
        Bytes/s of each node; all nodes have the same to do.

    Notes
    -----
    Where targets are faster than the clients ask, the clients are the bound and no slow target
    is seen; a target slower than that is what the end waits for.
    """
    shortest = float(np.max(share.sum() / len(clients) / clients))
    left = open_rates(system, now, rates, write=write, noise=noise)
    streams = system.probe_streams
    cores, network, cost = server_limits(system, now, rates, write=write, streams=streams)
    asked = np.minimum(left, share / shortest)
    on = now.serving
    busy = per_server(system, now, asked * cost)
    moved = per_server(system, now, asked)
    room = np.minimum(cores / np.maximum(busy, 1e-12), network / np.maximum(moved, 1e-3))
    alone = np.minimum(left, np.minimum(cores[on] / cost, network[on]))
    rate = np.where(room[on] >= 1, alone, asked * np.minimum(room[on], 1.0))
    needed = share > 0
    # 1 byte/s stands for nothing at all: 10^12 s are not finished either.
    slowest = np.max(np.where(needed, share / np.maximum(rate, 1.0), 0.0))
    return Phase(max(shortest, float(slowest)), rate)


def alone_on_server(system: System, now: Conditions, rates: Rates, *, write: bool) -> Array:
    """Return what a survey of single targets measures: all at once, no network between."""
    ceiling, used = (rates.write, rates.used_write) if write else (rates.read, rates.used_read)
    left = physics.share_of(ceiling, used, 32.0, now.streams)
    cores, _, cost = server_limits(system, now, rates, write=write, streams=32.0)
    room = cores / np.maximum(per_server(system, now, left * cost), 1e-12)
    return left * np.minimum(room, 1.0)[now.serving]
