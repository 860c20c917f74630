"""How fast targets, clients and metadata are in every hour, from the state of the site.

Constants with a source: write amplification over fullness with nightly and without trims, the
10 % that writeback throttling costs, and what useless loops take of the cores of a server are of
the notes on flash; that two targets' load halves a server's share is arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.worlds.site import Site, stream
from tests.worlds.state import Array, State

_FULL = (0.0, 0.30, 0.50, 0.75, 0.85, 0.95, 1.0)
_TRIMMED = (1.0, 1.03, 1.07, 1.51, 1.94, 2.60, 3.00)
_UNTRIMMED = (1.0, 1.05, 1.17, 1.90, 2.61, 3.35, 3.80)
_NEARLY_FULL = ((0.93, 0.97, 0.99, 1.0), (1.0, 0.7, 0.35, 0.2))
"""Assumed: no stripe can be placed whole; only the fall is sure, not its figures."""
UNTRIMMED_AFTER_H = 80.0
"""Trims rarer than some days do nothing: hours in which 63 % of their effect is gone."""
LOOP_COST = 7.5
"""24 useless loops in 1,000 requests take 7 of 32 cores, 77 take 22."""
THROTTLED = 0.25
PROBE_SHARE = 0.25
"""The least of a target that a probe gets beside other jobs."""
CONTENTION = 0.35 / 0.8
"""What clients lose for each share of the targets' speed that other jobs move."""
OPERATIONS_LIMIT = 1.2e5
SERVER_HEADROOM = 1.15


@dataclass(frozen=True, slots=True)
class Speeds:
    """What could be moved, bytes/s, an hour.

    Attributes
    ----------
    target_write, target_read
        H x T: what a target gives by itself, as a survey measures it.
    storage_write, storage_read
        H: what files over all open targets get of them: they end with the slowest target.
    one_write, one_read
        H: what one node gets.
    clients_write, clients_read
        H: what the main probe's clients could move were the targets endless.
    metadata
        H: factor on the rates of files.
    network
        H: factor on what the network alone carries.
    """

    amplification: Array
    target_write: Array
    target_read: Array
    storage_write: Array
    storage_read: Array
    clients_write: Array
    clients_read: Array
    one_write: Array
    one_read: Array
    metadata: Array
    network: Array


def speeds(state: State) -> Speeds:
    """Return all speeds of a state."""
    site = state.site
    amplification = write_amplification(state)
    own_write, own_read = _targets(state, amplification)
    path = 1.3 * np.take_along_axis(state.server_network, np.maximum(state.serving, 0), axis=1)
    path *= part_of_server(state)
    carried = np.minimum(own_write, site.target_write * path)
    carried_read = np.minimum(own_read, site.target_read * path)
    others = state.users_write + 0.4 * state.users_read
    free_write = np.maximum(carried - others, PROBE_SHARE * carried)
    others = state.users_read + 0.4 * state.users_write
    free_read = np.maximum(carried_read - others, PROBE_SHARE * carried_read)
    busy = (state.users_write + 0.6 * state.users_read).sum(axis=1)
    contended = (
        np.clip(1 - CONTENTION * busy / (site.osts * site.target_write), 0.2, 1) * state.fabric
    )
    clients = site.share * site.osts * np.array([site.target_write, site.target_read])
    clients_write = clients[0] * contended * state.client_write
    clients_read = clients[1] * contended * state.client_read
    usage = 1 - state.operations / OPERATIONS_LIMIT
    return Speeds(
        amplification=amplification, target_write=own_write, target_read=own_read,
        clients_write=clients_write, clients_read=clients_read,
        storage_write=_over_targets(state, free_write),
        storage_read=_over_targets(state, free_read),
        one_write=np.minimum(clients_write / site.main.nodes, 4 * free_write.mean(axis=1)),
        one_read=np.minimum(clients_read / site.main.nodes, 4 * free_read.mean(axis=1)),
        metadata=np.clip(usage, 0.04, 1).min(axis=1) * state.client_metadata
        * np.minimum(1, 0.4 + 0.6 * state.fabric),
        network=state.fabric * np.minimum(state.server_network, 1).mean(axis=1),
    )  # fmt: skip


def write_amplification(state: State) -> Array:
    """Return bytes programmed for a byte written, of every hour and target."""
    hour = np.arange(state.site.hours, dtype=float)[:, None]
    last = np.maximum.accumulate(np.where(state.trimmed, hour, -state.site.trim_every_h), axis=0)
    return _amplification(state.full, hour - last) * state.collecting


def _amplification(full: Array, untrimmed_h: Array) -> Array:
    undone = 1 - np.exp(-np.maximum(untrimmed_h - 24, 0) / UNTRIMMED_AFTER_H)
    low, high = np.interp(full, _FULL, _TRIMMED), np.interp(full, _FULL, _UNTRIMMED)
    return low + (high - low) * undone


def flash_limit(site: Site) -> float:
    """Return the write amplification from which drives are slower than their server."""
    full = np.array(max(site.fullness, 0.6))
    return site.margin * float(_amplification(full, np.array(float(site.trim_every_h))))


def quality(site: Site) -> Array:
    """Return how fast each target is by itself, relative to the nominal one."""
    return np.exp(stream("quality", site.seed, site.name).normal(0, 0.025, site.osts))


def _targets(state: State, amplification: Array) -> tuple[Array, Array]:
    site = state.site
    flash = np.minimum(1, flash_limit(site) / amplification)
    flash *= 1 - np.where(state.throttled, np.clip(THROTTLED * (amplification - 1), 0.02, 0.2), 0)
    allocator = 1 - np.clip(LOOP_COST * state.loops, 0, 0.75)
    allocator *= np.interp(state.full, *_NEARLY_FULL)
    speed = np.take_along_axis(state.server_speed, np.maximum(state.serving, 0), axis=1)
    speed = np.where(state.connected, speed, 0.0)
    most = SERVER_HEADROOM * speed * part_of_server(state)
    built = quality(site)
    writable = np.where(state.read_only, 0.0, state.target_write)
    write = site.target_write * np.minimum(built * writable * flash * allocator * speed, most)
    read = site.target_read * np.minimum(built * state.target_read * speed, most)
    return write, read


def part_of_server(state: State) -> Array:
    """Return each target's part of its server, relative to the part it has when all is well."""
    serving = np.maximum(state.serving, 0)
    counts = np.stack([(state.serving == n).sum(axis=1) for n in range(state.site.servers)], axis=1)
    usual = np.bincount(state.site.home, minlength=state.site.servers).astype(float)
    return usual[serving] / np.maximum(np.take_along_axis(counts, serving, axis=1), 1)


def _over_targets(state: State, free: Array) -> Array:
    """Return the speed of files over all open targets: they end with the slowest target.

    A run reads what it wrote: closed targets take part in neither.
    """
    slowest = np.where(state.open, free, np.inf).min(axis=1)
    count = state.open.sum(axis=1)
    return np.where(count > 0, count * np.where(count > 0, slowest, 0.0), 0.0)
