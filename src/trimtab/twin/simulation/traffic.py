"""Traffic through the layers in an epoch: probes, and users in the remaining capacity.

::

    users ask ──quotas, room──> of each OST ─┐
    probes ──fair share beside users' jobs───┴─> what OSTs and clients carry ──> counters
                                             └─> the rest waits, or is never asked for

Users' jobs that compete with a probe are part of the traffic: their bytes are counted on the same
OSTs, and the rest of the epoch has correspondingly less.

Laws hold in every epoch of every simulation; a violation is a bug in the twin. They are checked
only if the environment has `VARIABLE`, which every test sets, since each check costs about as much
as the step it checks:

=================  =================================================================================
no layer more      what clients measure is at most what their nodes, the network and the OSTs carry;
                   what a survey measures is at most what the OST does alone
closed loop        what users and probes move on an OST in an epoch is at most what it carries
every byte         what was wanted was written, refused, waits, or was never asked for
=================  =================================================================================
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.twin.scenario import Clients, Gating, ProbeLoad, Scenario
from trimtab.twin.simulation.hardware import FITTED
from trimtab.twin.simulation.job import JobResult, Resource, max_min
from trimtab.twin.simulation.miniature import ColumnState
from trimtab.twin.simulation.ost_array import Array, Flags, Integers, OstColumns, OstRates
from trimtab.twin.simulation.ost_rate import OstTerms

SURVEY_BYTES: Final = 64 * 2**30
"""Bytes that a survey writes to and reads from each OST: seconds at flash rates, beyond a server's
cache."""


@dataclass(frozen=True, slots=True)
class ProbeTraffic:
    """Traffic of a probe and of concurrent users; arrays over real OSTs, bytes and bytes/s.

    Attributes
    ----------
    files
        Bytes of the probe.
    write_s, read_s
        Duration of each phase.
    users_write, users_read
        Rates of users' jobs meanwhile, bytes/s.
    from_clients
        False for servers' writes to their own OSTs.
    """

    written: Array
    read: Array
    files: Array
    write_s: Array
    read_s: Array
    users_write: Array
    users_read: Array
    from_clients: bool = True

    @classmethod
    def nothing(cls, osts: int) -> ProbeTraffic:
        """Return the traffic of a probe that failed before moving data."""
        none = np.zeros(osts)
        return cls(none, none, none, none, none, none, none)


@dataclass(frozen=True, slots=True)
class Probed:
    """Traffic of all probes of an epoch and concurrent users; arrays over columns, bytes.

    Attributes
    ----------
    client_written, read, client_read
        For one OST of each column; client bytes exclude servers' own traffic.
    met_written, met_read
        Users' bytes while probes ran.
    write_share, read_share
        Fraction of the epoch in which they ran.
    longest_s
        Total duration of consecutive probes.
    """

    client_written: Array
    read: Array
    client_read: Array
    met_written: Array
    met_read: Array
    write_share: Array
    read_share: Array
    longest_s: float


def probed(moved: Sequence[ProbeTraffic], columns: OstColumns, seconds: float) -> Probed | None:
    """Return the total traffic of probes in an epoch; ``None`` if none ran."""
    if not moved:
        return None

    def summed(values: Sequence[Array]) -> Array:
        return columns.means(_sum(values))

    # Runs longer than an epoch are counted in the one in which they start, and fill it.
    write_s = _sum([run.write_s for run in moved])
    read_s = _sum([run.read_s for run in moved])
    write_part, read_part = (
        np.minimum(1.0, seconds / np.maximum(took_s, seconds)) for took_s in (write_s, read_s)
    )
    read = summed([run.read for run in moved])
    all_clients = all(run.from_clients for run in moved)
    return Probed(
        client_written=summed([run.written * run.from_clients for run in moved]),
        read=read,
        client_read=read if all_clients else summed([run.read * run.from_clients for run in moved]),
        met_written=summed([run.users_write * run.write_s * write_part for run in moved]),
        met_read=summed([run.users_read * run.read_s * read_part for run in moved]),
        write_share=columns.means(write_s * write_part) / seconds,
        read_share=columns.means(read_s * read_part) / seconds,
        longest_s=float(np.maximum(write_s, read_s).max()),
    )


def _sum(arrays: Sequence[Array]) -> Array:
    """Return the sum of arrays."""
    return arrays[0] if len(arrays) == 1 else sum(arrays[1:], arrays[0])


def laid_out(moved: Sequence[ProbeTraffic], columns: OstColumns) -> tuple[Array, Integers]:
    """Return probes' writes to one OST of each column: bytes, and number of files."""
    if not moved:
        return np.zeros(columns.count), np.zeros(columns.count, np.int64)
    written = columns.means(_sum([run.written for run in moved]))
    files = columns.means(_sum([run.files for run in moved]))
    return written, np.where(files > 0.0, np.maximum(1, np.rint(files)), 0).astype(np.int64)


def with_met(mean: Array, met: Array, share: Array, weight: Array) -> Array:
    """Return an epoch's bytes including those that probes met, with an unchanged total if possible.

    Parameters
    ----------
    mean
        Bytes of one OST of each column, without probes.
    met
        Users' bytes during probes, in that fraction of the epoch.
    """
    if not (np.count_nonzero(share) or np.count_nonzero(met)):
        return mean
    rest = mean * (1.0 - np.minimum(share, 1.0))
    left, others = float((mean - met) @ weight), float(rest @ weight)
    return met + rest * (max(left, 0.0) / others if others > 0.0 else 0.0)


def carried(wanted: Array, most: Array, of_clients: float, columns: OstColumns) -> Array:
    """Return the carried part of each column's demand: a max-min share of the clients.

    Parameters
    ----------
    most
        Capacity of one OST of each column.
    of_clients
        Capacity of all clients together.
    """
    limited = np.minimum(wanted, most)
    if float(limited @ columns.weight) <= of_clients:
        return limited
    clients = Resource(np.zeros(columns.osts, np.intp), np.array([max(of_clients, 0.0)]))
    return columns.means(max_min([clients], limited[columns.member]))


@dataclass(frozen=True, slots=True)
class Layers:
    """Capacity of layers in bytes: one OST of each column, and all clients together."""

    write: Array
    read: Array
    clients: float
    seconds: float

    def beside(self, on_osts: Array, of_clients: Array, weight: Array) -> Layers:
        """Return the capacity left by probes, given their bytes on one OST of each column."""
        return Layers(
            np.maximum(self.write - on_osts, 0.0),
            np.maximum(self.read - on_osts, 0.0),
            self.clients - float(of_clients @ weight),
            self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Asks:
    """Users' demand on one OST of each column, in bytes; ``filling`` comes from a fault."""

    placed: Array
    filling: Array | None
    reads: Array


def layers_of(could: OstRates, clients: Clients, columns: OstColumns, seconds: float) -> Layers:
    """Return the capacity of layers in that many seconds.

    Parameters
    ----------
    could
        Rates of each real OST for clients.
    """
    return Layers(
        columns.means(could.write) * seconds,
        columns.means(could.read) * seconds,
        clients.nodes * clients.network_bytes_per_s * seconds,
        seconds,
    )


def serve(
    state: ColumnState,
    columns: OstColumns,
    layers: Layers,
    by_probes: Probed | None,
    asks: Asks,
) -> tuple[Array, Array]:
    """Return users' writes and reads of one OST of each column, and update all counters.

    Bytes of a fault that fills an OST count as their writes.
    """
    weight = columns.weight
    writes, reads, filling = asks.placed, asks.reads, asks.filling
    for_writes = for_reads = layers
    if by_probes is not None:
        writes = with_met(writes, by_probes.met_written, by_probes.write_share, weight)
        reads = with_met(reads, by_probes.met_read, by_probes.read_share, weight)
        for_writes = layers.beside(by_probes.client_written, by_probes.client_written, weight)
        for_reads = layers.beside(by_probes.read, by_probes.client_read, weight)
    room = state.available_bytes if filling is None else state.available_bytes - filling
    writes = np.minimum(writes, np.maximum(room, 0.0))
    if filling is not None:
        writes = writes + filling
    written = carried(writes, for_writes.write, for_writes.clients, columns)
    read = carried(reads, for_reads.read, for_reads.clients, columns)
    if by_probes is None:
        state.client_bytes_written_total += written
        state.bytes_read_total += read
        state.client_bytes_read_total += read
    else:
        state.client_bytes_written_total += written + by_probes.client_written
        state.bytes_read_total += read + by_probes.read
        state.client_bytes_read_total += read + by_probes.client_read
    return written, read


@dataclass(slots=True)
class Flow:
    """Traffic of an epoch, in bytes on one OST of each column.

    Attributes
    ----------
    moved
        Start and traffic of each probe.
    terms
        State of the OSTs in this epoch, computed on first use.
    layers
        Capacity of OSTs and clients in the current part.
    """

    written: Array
    deleted: Array
    purged: Array
    moved: list[tuple[datetime, ProbeTraffic]] = field(default_factory=list)
    terms: OstTerms | None = None
    layers: Layers | None = None


def spans(start: datetime, end: datetime, parts: int) -> Iterator[datetime]:
    """Yield both ends and the boundaries of equal parts between them."""
    yield from (start + (end - start) * part / parts for part in range(parts))
    yield end


def looks(
    start: datetime, end: datetime, gating: Gating, closed: Flags, fullest: Array
) -> Sequence[datetime]:
    """Return an epoch's ends and the times between at which gating may change something.

    Parameters
    ----------
    closed
        Columns closed by gating.
    fullest
        Upper bound of each column's fullness at the end.
    """
    parts = math.ceil((end - start).total_seconds() / gating.every_s - 1e-9)
    if parts <= 1 or not (closed | (fullest > gating.limit)).any():
        return (start, end)
    return tuple(spans(start, end, parts))


VARIABLE: Final = "TRIMTAB_CHECK_LAWS"
_ROUNDING: Final = 1 + 1e-9


class LawBrokenError(AssertionError):
    """A simulation violated a law."""


def are_checked() -> bool:
    """Return whether the laws are checked."""
    return bool(os.environ.get(VARIABLE))


def check_job(
    scenario: Scenario,
    probe: ProbeLoad,
    rates: OstRates,
    ost_of_task: Integers,
    got: JobResult,
) -> None:
    """Check that a job moves no more than its nodes' ports and its files' OSTs can.

    Parameters
    ----------
    rates
        Rates of each OST for clients.
    """
    used = np.unique(ost_of_task)
    ports = probe.nodes * scenario.clients.network_bytes_per_s
    tasks = len(ost_of_task) * FITTED.process_bytes_per_s
    for access, measured, of_osts in (
        ("writes", got.write_bytes_per_s, rates.write),
        ("reads", got.read_bytes_per_s, rates.read),
    ):
        for layer, most in (
            ("the processes", tasks),
            ("the nodes' ports", ports),
            ("the OSTs", float(of_osts[used].sum())),
        ):
            _at_most(f"{probe.name} {access}", measured, layer, most)


def check_survey(probe: ProbeLoad, measured: Array, alone: Array) -> None:
    """Check that a survey measures no OST faster than it is alone."""
    over = measured > alone * _ROUNDING
    if over.any():
        ost = int(np.flatnonzero(over)[0])
        _at_most(f"{probe.name} of OST {ost}", float(measured[ost]), "it", float(alone[ost]))


@dataclass(frozen=True, slots=True)
class Books:
    """Bytes of the whole that users wanted but did not write."""

    refused: float
    queued: float
    slowed: float

    @classmethod
    def of(cls, state: ColumnState) -> Books:
        """Return the books of a state."""
        refused = state.refused_quota_bytes + state.refused_space_bytes
        return cls(refused, state.queued_bytes, state.slowed_bytes)


def check_books(before: Books, state: ColumnState, *, new_demand: float, written: float) -> None:
    """Check that every byte that users wanted in an epoch is accounted for once."""
    after = Books.of(state)
    wanted = before.queued + new_demand
    became = (
        written + (after.refused - before.refused) + after.queued + (after.slowed - before.slowed)
    )
    if abs(wanted - became) > 1e-9 * (after.refused + after.slowed + abs(wanted)) + 1.0:
        raise LawBrokenError(f"{wanted:.9g} bytes were wanted, and {became:.9g} are accounted for")


def check_traffic(
    layers: Layers,
    by_probes: Probed | None,
    users: tuple[Array, Array],
    weight: Array,
    *,
    seconds: float,
) -> None:
    """Check that OSTs and clients could carry users' and probes' I/O."""
    written, read = users
    longer = 1.0
    if by_probes is not None:
        # A run longer than its epoch is counted in the one in which it starts.
        longer = max(1.0, by_probes.longest_s / seconds)
        written, read = written + by_probes.client_written, read + by_probes.client_read
    for passed, most in ((written, layers.write), (read, layers.read)):
        check_osts(passed, most * longer)
        check_clients(float(passed @ weight), layers.clients * longer)


def check_osts(moved: Array, most: Array) -> None:
    """Check that users and probes moved no more on a column's OST than it can carry."""
    over = moved > most * _ROUNDING + 1.0
    if over.any():
        column = int(np.flatnonzero(over)[0])
        raise LawBrokenError(
            f"an OST of column {column} moved {moved[column]:.6g} bytes in an epoch, and carries "
            f"{most[column]:.6g}"
        )


def check_clients(moved: float, most: float) -> None:
    """Check that users and probes moved no more than all client nodes can carry."""
    if moved > most * _ROUNDING + 1.0:
        raise LawBrokenError(f"clients moved {moved:.6g} bytes in an epoch, and carry {most:.6g}")


def _at_most(load: str, measured: float, layer: str, most: float) -> None:
    if measured > most * _ROUNDING:
        raise LawBrokenError(f"{load}: {measured:.6g} B/s, and {layer} carry {most:.6g} B/s")
