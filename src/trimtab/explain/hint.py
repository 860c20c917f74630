"""File layout and MPI-IO hints for a job, each with its reason and source.

`advise` is pure: it knows the sizes of the job and of the file system, nothing else. It derives the
layout first (number of OSTs, number of stripes and stripe size), since everything else follows from
the stripes. `HintBasis` says whether a hint is measured, documented or a rule of thumb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.base.error import Message, shell_text
from trimtab.base.units import format_bytes

STRIPES_MAXIMUM: Final = 2000
"""Per file: LOV_MAX_STRIPE_COUNT of Lustre."""


class Mpi(StrEnum):
    """The MPI-IO implementation of the job."""

    CRAY = "cray"
    """Cray MPICH: its own collective buffering, with lockahead."""
    ROMIO = "romio"
    """MPICH and its derivatives, and ROMIO within Open MPI."""
    OPENMPI = "openmpi"
    """Open MPI, which has OMPIO and ROMIO."""


class HintKind(StrEnum):
    """Where a hint is set."""

    LAYOUT = "layout"
    """``lfs setstripe`` on the directory, before the job."""
    MPI_IO = "mpi-io"
    """An MPI-IO hint, by environment, file or program."""
    MCA = "mca"
    """A parameter of Open MPI."""
    CHECK = "check"
    """Shows whether the other hints took effect."""


class HintBasis(StrEnum):
    """The support for a hint."""

    MEASURED = "measured"
    """Measured, on a system other than yours."""
    DOCUMENTED = "documented"
    """Follows from the documentation or the source of the software."""
    RULE_OF_THUMB = "rule of thumb"
    """Common practice; measure it before relying on it."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job and the file system it writes to.

    Attributes
    ----------
    osts
        OSTs available to its files.
    file_size_bytes
        Size of one file; ``None``: large.
    transfer_size_bytes
        Bytes a task writes at once; ``None``: unknown.
    shared
        One file shared by all tasks; otherwise one file per task.
    overstriping
        Whether a file may have several stripes on one OST (Lustre 2.13 and later).
    """

    osts: int
    nodes: int
    tasks_per_node: int = 1
    mpi: Mpi = Mpi.CRAY
    shared: bool = True
    file_size_bytes: int | None = None
    transfer_size_bytes: int | None = None
    overstriping: bool = True

    def __post_init__(self) -> None:
        for name in ("osts", "nodes", "tasks_per_node", "file_size_bytes", "transfer_size_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}")

    @property
    def tasks(self) -> int:
        """Tasks of the whole job."""
        return self.nodes * self.tasks_per_node


@dataclass(frozen=True, slots=True)
class Hint:
    """One setting.

    Attributes
    ----------
    name, value
        As the software spells them.
    reason
        Why this value for this job.
    basis, source
        The kind of support, and its source.
    """

    kind: HintKind
    name: str
    value: str
    reason: Message
    basis: HintBasis
    source: str


# Sources of the hints

E2000: Final = (
    "HPE Cray Supercomputing Storage Systems E2000 paper, section on WRF (figures 15 to 17) and "
    "appendix A.5: one scalable unit, 4 OSTs, 32 nodes"
)
CRAY_MAN: Final = "intro_mpi(3) of HPE Cray MPI, MPICH_MPIIO_HINTS: https://cpe.ext.hpe.com/docs/mpt/mpich/intro_mpi.html"
ROMIO_GUIDE: Final = (
    "ROMIO user's guide, hints: https://ftp.mcs.anl.gov/pub/romio/users-guide/node6.html"
)
LUSTRE_PRACTICE: Final = (
    "Lustre wiki, striping best practices: https://wiki.lustre.org/Lustre_Striping_Best_Practices"
)
LUSTRE_MANUAL: Final = (
    "Lustre Operations Manual, managing file layout: https://doc.lustre.org/lustre_manual.xhtml"
)
LUSTRE_LAYOUT: Final = (
    "Lustre source, lod_stripe_count_min() in lustre/lod/lod_qos.c: three quarters for -1 only"
)
OMPI_DOCS: Final = (
    "Open MPI documentation, OMPIO: https://docs.open-mpi.org/en/main/tuning-apps/mpi-io/ompio.html"
)
OMPI_CODE: Final = "Open MPI source, ompi/mca/fs/lustre/fs_lustre_file_open.c"
OMPI_LUSTRE: Final = (
    "Open MPI, change that lowers OMPIO's priority on Lustre: "
    "https://github.com/open-mpi/ompi-release/pull/896"
)
OMPI_NO_LUSTRE: Final = "https://github.com/open-mpi/ompi/issues/11491"


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
class StripeLayout:
    """Stripes of a file, the OSTs they use, and the bytes of each."""

    stripes: int
    osts: int
    stripe_bytes: int
    hints: tuple[Hint, ...]

    @property
    def overstriped(self) -> bool:
        """Whether an OST holds several stripes."""
        return self.stripes > self.osts


def layout_of(request: JobRequest) -> StripeLayout:
    """Return the layout for a job's files, with the hints that produce it."""
    size = _stripe_bytes(request)
    if not request.shared:
        count = _stripes_of_own_file(request)
        return StripeLayout(
            count.stripes, count.stripes, size.stripe_bytes, (*count.hints, *size.hints)
        )
    osts, why, basis = _osts_of_shared_file(request)
    stripes = osts
    hints = [_count_hint(request, osts, why, basis)]
    # Without lockahead a second writer of a stripe waits for its lock: more stripes instead.
    writers = min(request.nodes // osts, AGGREGATORS_PER_OST, STRIPES_MAXIMUM // osts)
    small = is_small(request)
    if request.mpi is not Mpi.CRAY and request.overstriping and writers > 1 and not small:
        stripes = osts * writers
        hints = [_overstripe_hint(request, osts, stripes)]
    return StripeLayout(stripes, osts, size.stripe_bytes, (*hints, *size.hints))


def is_small(request: JobRequest) -> bool:
    """Return whether a file is too small to benefit from several writers per OST."""
    size = request.file_size_bytes
    return size is not None and size <= _MEDIUM_FILE_BYTES


def _osts_of_shared_file(request: JobRequest) -> tuple[int, Message, HintBasis]:
    """Return the number of OSTs for a shared file, and why."""
    size, most = request.file_size_bytes, min(request.osts, STRIPES_MAXIMUM)
    if size is not None and size <= _SMALL_FILE_BYTES:
        why = Message("fits-one-stripe", f"a file of {format_bytes(size)} fits into one stripe")
        return 1, why, HintBasis.RULE_OF_THUMB
    if size is not None and size <= _MEDIUM_FILE_BYTES:
        count = min(most, _MEDIUM_STRIPES, request.nodes)
        why = Message(
            "medium-file",
            f"a file of {format_bytes(size)} gains little from more OSTs, and each costs an object "
            "and a lock",
        )
        return count, why, HintBasis.RULE_OF_THUMB
    if request.nodes < most:
        text = f"{request.nodes} nodes with an aggregator each keep no more OSTs than that busy"
        return request.nodes, Message("nodes-limit-osts", text), HintBasis.RULE_OF_THUMB
    code, extent = "all-osts", "all of them"
    if most < request.osts:
        code = "most-stripes-of-a-file"
        extent = f"{most:,} of {request.osts:,}, the most stripes that one file can have"
    text = f"a large file written by all nodes gets the rate of its OSTs: {extent}"
    return most, Message(code, text), HintBasis.RULE_OF_THUMB


def _count_hint(request: JobRequest, osts: int, why: Message, basis: HintBasis) -> Hint:
    if osts == request.osts and osts > 1:
        text = (
            f"{why}. -1, not {osts}: an explicit number (here, or as striping_factor) needs every "
            "one of them, while -1 works while three in four accept new objects"
        )
        source = f"{LUSTRE_PRACTICE}; {LUSTRE_LAYOUT}"
        return Hint(HintKind.LAYOUT, "stripe_count", "-1", Message(why.code, text), basis, source)
    return Hint(HintKind.LAYOUT, "stripe_count", str(osts), why, basis, LUSTRE_PRACTICE)


def _overstripe_hint(request: JobRequest, osts: int, stripes: int) -> Hint:
    why = Message(
        "overstriped",
        f"{stripes // osts} stripes on each of {osts} OSTs, one for each aggregator: no two of "
        "them wait for one lock. WRF on 32 nodes wrote as fast so (32 stripes on 4 OSTs) as "
        "with lockahead; not available at large scale. Lustre 2.13 or later",
    )
    return Hint(HintKind.LAYOUT, "overstripe_count", str(stripes), why, HintBasis.MEASURED, E2000)


def _stripes_of_own_file(request: JobRequest) -> StripeLayout:
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
    basis, source = HintBasis.RULE_OF_THUMB, LUSTRE_PRACTICE
    hint = Hint(HintKind.LAYOUT, "stripe_count", str(count), Message(code, why), basis, source)
    return StripeLayout(count, count, 0, (hint,))


def _stripe_bytes(request: JobRequest) -> StripeLayout:
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
        HintKind.LAYOUT,
        "stripe_size",
        str(size),
        Message(code, why),
        HintBasis.RULE_OF_THUMB,
        source,
    )
    return StripeLayout(0, 0, size, (hint,))


_COLLECTIVE_BUFFER_BYTES: Final = 16 * MIB
_OMPIO_BUFFER_BYTES: Final = 32 * MIB


def advise(request: JobRequest) -> tuple[Hint, ...]:
    """Return the settings for the job, layout first; each hint with reason and source.

    Examples
    --------
    >>> from trimtab.explain.hint import JobRequest
    >>> job = JobRequest(osts=4, nodes=32, transfer_size_bytes=64 * 1024)
    >>> [f"{hint.name}={hint.value}" for hint in advise(job)][1:4]
    ['stripe_size=1048576', 'romio_cb_write=enable', 'cray_cb_nodes_multiplier=8']
    """
    layout = layout_of(request)
    if not request.shared:
        return (*layout.hints, *_of_own_files(request))
    by_mpi = {Mpi.CRAY: _cray, Mpi.ROMIO: _romio, Mpi.OPENMPI: _openmpi}[request.mpi]
    return (*layout.hints, *by_mpi(request, layout))


def _of_own_files(request: JobRequest) -> tuple[Hint, ...]:
    why = Message(
        "own-file-per-task",
        "each task has its own file: collecting data on aggregators would only move it once more",
    )
    source = CRAY_MAN if request.mpi is Mpi.CRAY else ROMIO_GUIDE
    hints = [
        Hint(HintKind.MPI_IO, f"romio_cb_{access}", "disable", why, HintBasis.RULE_OF_THUMB, source)
        for access in ("write", "read")
    ]
    if request.mpi is Mpi.OPENMPI:
        return (*hints, *_choice_of_openmpi())
    return (*hints, _check_hint(request.mpi))


def _collective(request: JobRequest, layout: StripeLayout) -> Hint:
    """Return whether writes are collected on aggregators first."""
    transfer = request.transfer_size_bytes
    if transfer is None or transfer < layout.stripe_bytes:
        why = Message(
            "small-writes-collected",
            "aggregators combine writes smaller than a stripe: for WRF that took a tenth of the "
            "time of independent writes. It requires collective calls",
        )
        return Hint(HintKind.MPI_IO, "romio_cb_write", "enable", why, HintBasis.MEASURED, E2000)
    source = CRAY_MAN if request.mpi is Mpi.CRAY else ROMIO_GUIDE
    why = Message(
        "writes-fill-stripes",
        f"writes of {format_bytes(transfer)} fill stripes by themselves; the library collects "
        "them where they interleave",
    )
    return Hint(
        HintKind.MPI_IO, "romio_cb_write", "automatic", why, HintBasis.RULE_OF_THUMB, source
    )


def _sieving() -> list[Hint]:
    reasons = {
        "write": Message(
            "sieving-off",
            "sieving reads, changes and writes back the gaps between a task's pieces, under a "
            "lock, in a file that others write too",
        ),
        "read": Message("sieving-off", "sieving reads more than requested; WRF ran with it off"),
    }
    return [
        Hint(HintKind.MPI_IO, f"romio_ds_{access}", "disable", why, HintBasis.RULE_OF_THUMB, E2000)
        for access, why in reasons.items()
    ]


def _aggregators_per_ost(request: JobRequest, layout: StripeLayout) -> int:
    """Return the number of aggregators per OST: one per node, up to the measured benefit.

    Measured with large files: a small one is written before more writers pay off.
    """
    if is_small(request):
        return 1
    return max(1, min(request.nodes // layout.osts, AGGREGATORS_PER_OST))


def _cray(request: JobRequest, layout: StripeLayout) -> tuple[Hint, ...]:
    each = _aggregators_per_ost(request, layout)
    hints = [_collective(request, layout)]
    code, why, basis = (
        "several-aggregators",
        f"More than one per OST made WRF faster; {AGGREGATORS_PER_OST} were used",
        HintBasis.MEASURED,
    )
    if is_small(request):
        why = f"A file of {format_bytes(request.file_size_bytes or 0)} is too small for more"
        code, basis = "file-too-small", HintBasis.RULE_OF_THUMB
    times = Message(
        code,
        f"aggregators are stripes times this: {layout.osts * each} on {request.nodes} nodes, "
        f"{each} for each OST. {why}",
    )
    source = f"{E2000}; {CRAY_MAN}"
    hints.append(Hint(HintKind.MPI_IO, "cray_cb_nodes_multiplier", str(each), times, basis, source))
    if each > 1:
        ahead = Message(
            "lockahead",
            f"lockahead: {each} aggregators of one OST lock their parts in advance and do not take "
            "locks from one another. Opening a file takes longer: 4 to 5 % of the write time of "
            "WRF's 103 files. Clients and servers must support it",
        )
        name = "cray_cb_write_lock_mode"
        hints.append(Hint(HintKind.MPI_IO, name, "2", ahead, HintBasis.MEASURED, source))
    hints += _striping_hints(request, layout, CRAY_MAN)
    return (*hints, *_sieving(), _check_hint(request.mpi))


def _romio(request: JobRequest, layout: StripeLayout) -> tuple[Hint, ...]:
    aggregators = min(layout.stripes, request.tasks)
    buffer = max(_COLLECTIVE_BUFFER_BYTES, layout.stripe_bytes)
    hints = [_collective(request, layout)]
    few = "" if aggregators == layout.stripes else (
        f" (there are only {request.tasks} tasks for {layout.stripes} stripes)"
    )  # fmt: skip
    per_stripe = Message(
        "aggregator-per-stripe",
        f"one aggregator per stripe: no other holds the lock of its stripe{few}",
    )
    basis = (
        (HintBasis.MEASURED, E2000)
        if layout.overstriped
        else (HintBasis.RULE_OF_THUMB, ROMIO_GUIDE)
    )
    spread = Message(
        "aggregators-spread", "spreads the aggregators over the nodes and their networks"
    )
    each = f"*:{-(-aggregators // request.nodes)}"
    of_stripes = Message(
        "buffer-of-stripes",
        "bytes an aggregator collects before it writes: a multiple of the stripe, so that writes "
        "align with stripes",
    )
    rule = (HintBasis.RULE_OF_THUMB, ROMIO_GUIDE)
    hints += [
        Hint(HintKind.MPI_IO, "cb_nodes", str(aggregators), per_stripe, *basis),
        Hint(HintKind.MPI_IO, "cb_config_list", each, spread, HintBasis.DOCUMENTED, ROMIO_GUIDE),
        Hint(HintKind.MPI_IO, "cb_buffer_size", str(buffer), of_stripes, *rule),
    ]
    hints += _striping_hints(request, layout, ROMIO_GUIDE)
    return (*hints, *_sieving(), _check_hint(Mpi.ROMIO))


def _striping_hints(request: JobRequest, layout: StripeLayout, source: str) -> list[Hint]:
    if layout.overstriped or layout.osts == request.osts:
        return []  # only lfs setstripe can express "several per OST" and "all OSTs"
    why = Message(
        "same-as-setstripe",
        "the same as lfs setstripe, for a file that the job creates itself; ignored for others",
    )
    values = {"striping_factor": layout.stripes, "striping_unit": layout.stripe_bytes}
    return [
        Hint(HintKind.MPI_IO, name, str(value), why, HintBasis.DOCUMENTED, source)
        for name, value in values.items()
    ]


def _openmpi(request: JobRequest, layout: StripeLayout) -> tuple[Hint, ...]:
    romio = [hint for hint in _romio(request, layout) if hint.kind is HintKind.MPI_IO]
    aggregators = min(layout.stripes, request.tasks)
    buffer = max(_OMPIO_BUFFER_BYTES, layout.stripe_bytes)
    mca = (
        ("io_ompio_num_aggregators", aggregators, OMPI_DOCS, "ompio-instead",
         "with --mca io ompio instead, which ignores ROMIO's hints; by default on Lustre each "
         "aggregator writes to one OST"),
        ("io_ompio_bytes_per_agg", buffer, OMPI_DOCS, "ompio-buffer",
         "OMPIO's collective buffer: 32 MiB unless a stripe is larger"),
        ("fs_lustre_stripe_size", layout.stripe_bytes, OMPI_CODE, "ompio-stripe-size",
         "bytes of a stripe with OMPIO. Its documentation swaps this and the next parameter; the "
         "code reads bytes here"),
        ("fs_lustre_stripe_width", layout.osts, OMPI_CODE, "ompio-stripe-count",
         "number of stripes with OMPIO"),
    )  # fmt: skip
    of_ompio = (
        Hint(HintKind.MCA, name, str(value), Message(code, why), HintBasis.DOCUMENTED, source)
        for name, value, source, code, why in mca
    )
    return (*romio, *_choice_of_openmpi(), *of_ompio)


def _choice_of_openmpi() -> tuple[Hint, ...]:
    chosen = Message(
        "romio-chosen",
        "ROMIO, the default on Lustre: romio341 in Open MPI 5, romio321 in 4. Without it ROMIO's "
        "hints have no effect",
    )
    driver = Message(
        "romio-driver-missing",
        "Open MPI's ROMIO is often built without its Lustre driver: striping hints are then "
        "silently ignored, and only lfs setstripe works. lfs getstripe FILE shows it",
    )
    command = "ompi_info --param io all --level 9"
    return (
        Hint(HintKind.MCA, "io", "^ompio", chosen, HintBasis.DOCUMENTED, OMPI_LUSTRE),
        Hint(HintKind.CHECK, command, "shows romio", driver, HintBasis.DOCUMENTED, OMPI_NO_LUSTRE),
    )


def _check_hint(mpi: Mpi) -> Hint:
    cray = mpi is Mpi.CRAY
    name = "MPICH_MPIIO_HINTS_DISPLAY" if cray else "ROMIO_PRINT_HINTS"
    why = Message(
        "hints-displayed",
        "prints the active hints of each file when it is opened; lfs getstripe FILE shows the "
        "stripes",
    )
    return Hint(
        HintKind.CHECK, name, "1", why, HintBasis.DOCUMENTED, CRAY_MAN if cray else ROMIO_GUIDE
    )


HINTS_FILE: Final = "romio-hints.txt"


def setstripe_argv(hints: Sequence[Hint], directory: str) -> tuple[str, ...]:
    """Return the command that gives new files in a directory the layout of these hints.

    Examples
    --------
    >>> from trimtab.explain.hint import JobRequest, advise
    >>> " ".join(setstripe_argv(advise(JobRequest(osts=8, nodes=2)), "/scratch/run"))
    'lfs setstripe -c 2 -S 1048576 /scratch/run'
    """
    values = {hint.name: hint.value for hint in hints if hint.kind is HintKind.LAYOUT}
    argv = ["lfs", "setstripe"]
    for name, option in (("stripe_count", "-c"), ("overstripe_count", "-C"), ("stripe_size", "-S")):
        if name in values:
            argv += [option, values[name]]
    return (*argv, directory)


def paste_text(request: JobRequest, hints: Sequence[Hint], directory: str) -> str:
    """Return lines for a job script: layout, then the settings its MPI-IO reads."""
    lines = [shell_text(setstripe_argv(hints, directory))]
    mpi_io = [(hint.name, hint.value) for hint in hints if hint.kind is HintKind.MPI_IO]
    checks = [hint for hint in hints if hint.kind is HintKind.CHECK and hint.name.isupper()]
    if request.mpi is Mpi.CRAY:
        joined = ":".join(f"{name}={value}" for name, value in mpi_io)
        lines.append(f'export MPICH_MPIIO_HINTS="*:{joined}"')
    elif mpi_io:
        lines.append(f"cat > {HINTS_FILE} <<'END'")
        lines += [f"{name} {value}" for name, value in mpi_io]
        lines += ["END", f'export ROMIO_HINTS="$PWD/{HINTS_FILE}"']
    if request.mpi is Mpi.OPENMPI:
        lines.append("# mpirun takes these along only with: mpirun -x ROMIO_HINTS")
    lines += _mca_lines(hints)
    lines += [f"export {hint.name}={hint.value}" for hint in checks]
    return "\n".join(lines) + "\n"


def _mca_lines(hints: Sequence[Hint]) -> list[str]:
    """Return the choice of Open MPI's ROMIO, with the OMPIO settings as a comment."""
    mca = [hint for hint in hints if hint.kind is HintKind.MCA]
    lines = [f"export OMPI_MCA_{hint.name}={hint.value}" for hint in mca if hint.name == "io"]
    others = [hint for hint in mca if hint.name != "io"]
    if others:
        lines.append("# with OMPIO instead (OMPI_MCA_io=ompio), in place of the hints file:")
        lines += [f"# export OMPI_MCA_{hint.name}={hint.value}" for hint in others]
    return lines


@dataclass(frozen=True, slots=True)
class HintsDocument:
    """``trimtab hints --json``; ``text`` is for a job script."""

    job: JobRequest
    hints: tuple[Hint, ...]
    setstripe: tuple[str, ...]
    text: str
