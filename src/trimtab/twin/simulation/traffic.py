"""What passes through the layers in an epoch: probes, and users in what is left to them.

::

    users ask ──quotas, room──> of each OST ─┐
    probes ──fair share beside users' jobs───┴─> what OSTs and clients carry ──> counters
                                             └─> the rest waits, or is never asked for

What a probe met of users' jobs while it ran is traffic like any other: those bytes are counted on
the OSTs on which it met them, and the rest of an epoch has so much less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers
from trimtab.twin.scenario.model import Clients, Gating
from trimtab.twin.simulation.columns import Columns
from trimtab.twin.simulation.measures import OstRates, OstTerms
from trimtab.twin.simulation.state import State
from trimtab.twin.stack.sharing import Resource, max_min

SURVEY_BYTES: Final = 64 * 2**30
"""That a survey writes to each OST, and reads from it: seconds at the rates of flash, more than a
server's cache hides."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a probe moved, and users beside it; arrays over real OSTs, bytes and bytes/s.

    Attributes
    ----------
    files
        Of the probe.
    write_s, read_s
        How long each phase took.
    users_write, users_read
        What users' jobs got meanwhile, bytes/s.
    from_clients
        False for what servers wrote to their own OSTs.
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
    def nothing(cls, osts: int) -> Moved:
        """Return what a probe moved that never came that far."""
        none = np.zeros(osts)
        return cls(none, none, none, none, none, none, none)


@dataclass(frozen=True, slots=True)
class Probed:
    """All that the probes of an epoch moved, and users beside them; arrays over columns, bytes.

    Attributes
    ----------
    client_written, read, client_read
        Of one OST of each column; those of clients leave out what servers moved themselves.
    met_written, met_read
        What users moved while probes ran.
    write_share, read_share
        Part of the epoch in which they did.
    longest_s
        How long probes ran one after another.
    """

    client_written: Array
    read: Array
    client_read: Array
    met_written: Array
    met_read: Array
    write_share: Array
    read_share: Array
    longest_s: float


def probed(moved: Sequence[Moved], columns: Columns, seconds: float) -> Probed | None:
    """Return the sum of what probes moved in so many seconds; ``None`` where none ran."""
    if not moved:
        return None

    def summed(values: Sequence[Array]) -> Array:
        return columns.means(_sum(values))

    # Runs of more than an epoch are counted in the one in which they begin, and fill it.
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
    """Return the sum of one array and more."""
    return arrays[0] if len(arrays) == 1 else sum(arrays[1:], arrays[0])


def laid_out(moved: Sequence[Moved], columns: Columns) -> tuple[Array, Integers]:
    """Return what probes wrote to one OST of each column: bytes, and in how many files."""
    if not moved:
        return np.zeros(columns.count), np.zeros(columns.count, np.int64)
    written = columns.means(_sum([run.written for run in moved]))
    files = columns.means(_sum([run.files for run in moved]))
    return written, np.where(files > 0.0, np.maximum(1, np.rint(files)), 0).astype(np.int64)


def with_met(mean: Array, met: Array, share: Array, weight: Array) -> Array:
    """Return bytes of an epoch that has what probes met, and adds to as much as before if it can.

    Parameters
    ----------
    mean
        Bytes of one OST of each column, if nobody had looked.
    met
        What users moved while somebody did, in that part of the epoch.
    """
    if not (np.count_nonzero(share) or np.count_nonzero(met)):
        return mean
    rest = mean * (1.0 - np.minimum(share, 1.0))
    left, others = float((mean - met) @ weight), float(rest @ weight)
    return met + rest * (max(left, 0.0) / others if others > 0.0 else 0.0)


def carried(wanted: Array, most: Array, of_clients: float, columns: Columns) -> Array:
    """Return what gets through of the bytes wanted of each column: a max-min share of the clients.

    Parameters
    ----------
    most
        What one OST of each column takes.
    of_clients
        What all clients move together.
    """
    limited = np.minimum(wanted, most)
    if float(limited @ columns.weight) <= of_clients:
        return limited
    clients = Resource(np.zeros(columns.osts, np.intp), np.array([max(of_clients, 0.0)]))
    return columns.means(max_min([clients], limited[columns.member]))


@dataclass(frozen=True, slots=True)
class Layers:
    """What layers carry in a time, bytes: one OST of each column, and all clients together."""

    write: Array
    read: Array
    clients: float
    seconds: float

    def beside(self, on_osts: Array, of_clients: Array, weight: Array) -> Layers:
        """Return what is left beside probes that move so much on one OST of each column."""
        return Layers(
            np.maximum(self.write - on_osts, 0.0),
            np.maximum(self.read - on_osts, 0.0),
            self.clients - float(of_clients @ weight),
            self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Asks:
    """What users want of one OST of each column, bytes; ``filling`` is what a fault writes."""

    placed: Array
    filling: Array | None
    reads: Array


def layers_of(could: OstRates, clients: Clients, columns: Columns, seconds: float) -> Layers:
    """Return what layers carry in so many seconds.

    Parameters
    ----------
    could
        What each real OST gives to clients.
    """
    return Layers(
        columns.means(could.write) * seconds,
        columns.means(could.read) * seconds,
        clients.nodes * clients.network_bytes_per_s * seconds,
        seconds,
    )


def serve(
    state: State,
    columns: Columns,
    layers: Layers,
    by_probes: Probed | None,
    asks: Asks,
) -> tuple[Array, Array]:
    """Return what users write to and read from one OST of each column beside probes; count it all.

    What fills an OST by a fault is among what they write.
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
    """What went through an epoch, bytes on one OST of each column.

    Attributes
    ----------
    moved
        When each probe began, and what it moved.
    terms
        How the OSTs are in this epoch, once somebody asked.
    layers
        What they and the clients carry in the part that is under way.
    """

    written: Array
    deleted: Array
    purged: Array
    moved: list[tuple[datetime, Moved]] = field(default_factory=list)
    terms: OstTerms | None = None
    layers: Layers | None = None


def spans(start: datetime, end: datetime, parts: int) -> Iterator[datetime]:
    """Yield both ends, and between them what divides the time into so many parts."""
    yield from (start + (end - start) * part / parts for part in range(parts))
    yield end


def looks(
    start: datetime, end: datetime, gating: Gating, closed: Flags, fullest: Array
) -> Sequence[datetime]:
    """Return an epoch's ends, and between them the times at which gating may change something.

    Parameters
    ----------
    closed
        By gating, each column.
    fullest
        How full each may be at the end.
    """
    parts = math.ceil((end - start).total_seconds() / gating.every_s - 1e-9)
    if parts <= 1 or not (closed | (fullest > gating.limit)).any():
        return (start, end)
    return tuple(spans(start, end, parts))
