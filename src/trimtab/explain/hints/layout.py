"""The layout of a job's files: number of OSTs, number of stripes and stripe size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.explain.hints.hint import (
    E2000,
    LUSTRE_LAYOUT,
    LUSTRE_MANUAL,
    LUSTRE_PRACTICE,
    STRIPES_MAXIMUM,
    Basis,
    Hint,
    JobRequest,
    Kind,
    Mpi,
)
from trimtab.message import Message
from trimtab.units import format_bytes

MIB: Final = 1024**2
AGGREGATORS_PER_OST: Final = 8
"""The value in the measured configuration (WRF on 32 nodes and 4 OSTs, one aggregator a node)."""
_SMALL_FILE_BYTES: Final = MIB
_MEDIUM_FILE_BYTES: Final = 1024 * MIB
_MEDIUM_STRIPES: Final = 4
_STRIPE_BYTES_MINIMUM: Final = MIB
_STRIPE_BYTES_MAXIMUM: Final = 16 * MIB
_STRIPES_OF_OWN_FILE_MAXIMUM: Final = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Stripes of a file, the OSTs they use, and the bytes of each."""

    stripes: int
    osts: int
    stripe_bytes: int
    hints: tuple[Hint, ...]

    @property
    def overstriped(self) -> bool:
        """Whether an OST holds several stripes."""
        return self.stripes > self.osts


def layout_of(request: JobRequest) -> Layout:
    """Return the layout for a job's files, with the hints that produce it."""
    size = _stripe_bytes(request)
    if not request.shared:
        count = _stripes_of_own_file(request)
        return Layout(count.stripes, count.stripes, size.stripe_bytes, (*count.hints, *size.hints))
    osts, why, basis = _osts_of_shared_file(request)
    stripes = osts
    hints = [_count_hint(request, osts, why, basis)]
    # Without lockahead a second writer of a stripe waits for its lock: more stripes instead.
    writers = min(request.nodes // osts, AGGREGATORS_PER_OST, STRIPES_MAXIMUM // osts)
    small = is_small(request)
    if request.mpi is not Mpi.CRAY and request.overstriping and writers > 1 and not small:
        stripes = osts * writers
        hints = [_overstripe_hint(request, osts, stripes)]
    return Layout(stripes, osts, size.stripe_bytes, (*hints, *size.hints))


def is_small(request: JobRequest) -> bool:
    """Return whether a file is too small to benefit from several writers per OST."""
    size = request.file_size_bytes
    return size is not None and size <= _MEDIUM_FILE_BYTES


def _osts_of_shared_file(request: JobRequest) -> tuple[int, Message, Basis]:
    """Return the number of OSTs for a shared file, and why."""
    size, most = request.file_size_bytes, min(request.osts, STRIPES_MAXIMUM)
    if size is not None and size <= _SMALL_FILE_BYTES:
        why = Message("fits-one-stripe", f"a file of {format_bytes(size)} fits into one stripe")
        return 1, why, Basis.RULE_OF_THUMB
    if size is not None and size <= _MEDIUM_FILE_BYTES:
        count = min(most, _MEDIUM_STRIPES, request.nodes)
        why = Message(
            "medium-file",
            f"a file of {format_bytes(size)} gains little from more OSTs, and each costs an object "
            "and a lock",
        )
        return count, why, Basis.RULE_OF_THUMB
    if request.nodes < most:
        text = f"{request.nodes} nodes with an aggregator each keep no more OSTs than that busy"
        return request.nodes, Message("nodes-limit-osts", text), Basis.RULE_OF_THUMB
    code, extent = "all-osts", "all of them"
    if most < request.osts:
        code = "most-stripes-of-a-file"
        extent = f"{most:,} of {request.osts:,}, the most stripes that one file can have"
    text = f"a large file written by all nodes gets the rate of its OSTs: {extent}"
    return most, Message(code, text), Basis.RULE_OF_THUMB


def _count_hint(request: JobRequest, osts: int, why: Message, basis: Basis) -> Hint:
    if osts == request.osts and osts > 1:
        text = (
            f"{why}. -1, not {osts}: an explicit number (here, or as striping_factor) needs every "
            "one of them, while -1 works while three in four accept new objects"
        )
        source = f"{LUSTRE_PRACTICE}; {LUSTRE_LAYOUT}"
        return Hint(Kind.LAYOUT, "stripe_count", "-1", Message(why.code, text), basis, source)
    return Hint(Kind.LAYOUT, "stripe_count", str(osts), why, basis, LUSTRE_PRACTICE)


def _overstripe_hint(request: JobRequest, osts: int, stripes: int) -> Hint:
    why = Message(
        "overstriped",
        f"{stripes // osts} stripes on each of {osts} OSTs, one for each aggregator: no two of "
        "them wait for one lock. WRF on 32 nodes wrote as fast so (32 stripes on 4 OSTs) as "
        "with lockahead; not available at large scale. Lustre 2.13 or later",
    )
    return Hint(Kind.LAYOUT, "overstripe_count", str(stripes), why, Basis.MEASURED, E2000)


def _stripes_of_own_file(request: JobRequest) -> Layout:
    """Return the stripes of one task's own file."""
    idle = request.osts // request.tasks
    large = request.file_size_bytes is None or request.file_size_bytes > _MEDIUM_FILE_BYTES
    if idle >= 2 and large:
        count = min(idle, _STRIPES_OF_OWN_FILE_MAXIMUM)
        code = "idle-osts"
        why = f"{request.tasks} files of one stripe would leave most of {request.osts} OSTs idle"
    else:
        count, code = 1, "files-spread"
        why = f"{request.tasks:,} separate files spread over {request.osts} OSTs by themselves"
        most = -(-request.tasks // request.osts)
        if request.tasks > request.osts and request.tasks % request.osts:
            code, even = "files-spread-unevenly", most * request.osts
            why += (
                f"; unevenly, {most} on some and {most - 1} on others, and the job ends with the "
                f"fullest: {even:,} tasks would use all of them to the end"
            )
    basis, source = Basis.RULE_OF_THUMB, LUSTRE_PRACTICE
    hint = Hint(Kind.LAYOUT, "stripe_count", str(count), Message(code, why), basis, source)
    return Layout(count, count, 0, (hint,))


def _stripe_bytes(request: JobRequest) -> Layout:
    """Return the size of a stripe."""
    size, transfer = _STRIPE_BYTES_MINIMUM, request.transfer_size_bytes
    while transfer is not None and size < transfer and size < _STRIPE_BYTES_MAXIMUM:
        size *= 2
    source = LUSTRE_MANUAL
    if transfer is None:
        code = "smallest-stripe"
        why = "1 MiB, the smallest that fills a bulk request; give --transfer-size for a better one"
    elif transfer <= size == _STRIPE_BYTES_MINIMUM:
        code = "writes-fit-stripe"
        why = f"writes of {format_bytes(transfer)} fit; WRF was measured with stripes of 1 MiB"
        source = E2000
    elif transfer <= size:
        code = "one-ost-per-write"
        why = f"a write of {format_bytes(transfer)} touches one OST if it is aligned"
    else:
        code = "largest-stripe"
        why = f"larger stripes gain nothing: a write of {format_bytes(transfer)} uses several OSTs"
    hint = Hint(
        Kind.LAYOUT, "stripe_size", str(size), Message(code, why), Basis.RULE_OF_THUMB, source
    )
    return Layout(0, 0, size, (hint,))
