"""Derive the hints for a job: layout first, since everything else follows from the stripes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab.explain.hints.hint import (
    CRAY_MAN,
    E2000,
    OMPI_CODE,
    OMPI_DOCS,
    OMPI_LUSTRE,
    OMPI_NO_LUSTRE,
    ROMIO_GUIDE,
    Basis,
    Hint,
    JobRequest,
    Kind,
    Mpi,
)
from trimtab.explain.hints.layout import AGGREGATORS_PER_OST, MIB, Layout, is_small, layout_of
from trimtab.message import Message
from trimtab.units import format_bytes
from trimtab.visible import shell_text

_COLLECTIVE_BUFFER_BYTES: Final = 16 * MIB
_OMPIO_BUFFER_BYTES: Final = 32 * MIB


def advise(request: JobRequest) -> tuple[Hint, ...]:
    """Return the settings for the job, layout first; each hint with reason and source.

    Examples
    --------
    >>> from trimtab.explain.hints.hint import JobRequest
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
        Hint(Kind.MPI_IO, f"romio_cb_{access}", "disable", why, Basis.RULE_OF_THUMB, source)
        for access in ("write", "read")
    ]
    if request.mpi is Mpi.OPENMPI:
        return (*hints, *_choice_of_openmpi())
    return (*hints, _check_hint(request.mpi))


def _collective(request: JobRequest, layout: Layout) -> Hint:
    """Return whether writes are collected on aggregators first."""
    transfer = request.transfer_size_bytes
    if transfer is None or transfer < layout.stripe_bytes:
        why = Message(
            "small-writes-collected",
            "aggregators combine writes smaller than a stripe: for WRF that took a tenth of the "
            "time of independent writes. It requires collective calls",
        )
        return Hint(Kind.MPI_IO, "romio_cb_write", "enable", why, Basis.MEASURED, E2000)
    source = CRAY_MAN if request.mpi is Mpi.CRAY else ROMIO_GUIDE
    why = Message(
        "writes-fill-stripes",
        f"writes of {format_bytes(transfer)} fill stripes by themselves; the library collects "
        "them where they interleave",
    )
    return Hint(Kind.MPI_IO, "romio_cb_write", "automatic", why, Basis.RULE_OF_THUMB, source)


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
        Hint(Kind.MPI_IO, f"romio_ds_{access}", "disable", why, Basis.RULE_OF_THUMB, E2000)
        for access, why in reasons.items()
    ]


def _aggregators_per_ost(request: JobRequest, layout: Layout) -> int:
    """Return the number of aggregators per OST: one per node, up to the measured benefit.

    Measured with large files: a small one is written before more writers pay off.
    """
    if is_small(request):
        return 1
    return max(1, min(request.nodes // layout.osts, AGGREGATORS_PER_OST))


def _cray(request: JobRequest, layout: Layout) -> tuple[Hint, ...]:
    each = _aggregators_per_ost(request, layout)
    hints = [_collective(request, layout)]
    code, why, basis = (
        "several-aggregators",
        f"More than one per OST made WRF faster; {AGGREGATORS_PER_OST} were used",
        Basis.MEASURED,
    )
    if is_small(request):
        why = f"A file of {format_bytes(request.file_size_bytes or 0)} is too small for more"
        code, basis = "file-too-small", Basis.RULE_OF_THUMB
    times = Message(
        code,
        f"aggregators are stripes times this: {layout.osts * each} on {request.nodes} nodes, "
        f"{each} for each OST. {why}",
    )
    source = f"{E2000}; {CRAY_MAN}"
    hints.append(Hint(Kind.MPI_IO, "cray_cb_nodes_multiplier", str(each), times, basis, source))
    if each > 1:
        ahead = Message(
            "lockahead",
            f"lockahead: {each} aggregators of one OST lock their parts in advance and do not take "
            "locks from one another. Opening a file takes longer: 4 to 5 % of the write time of "
            "WRF's 103 files. Clients and servers must support it",
        )
        name = "cray_cb_write_lock_mode"
        hints.append(Hint(Kind.MPI_IO, name, "2", ahead, Basis.MEASURED, source))
    hints += _striping_hints(request, layout, CRAY_MAN)
    return (*hints, *_sieving(), _check_hint(request.mpi))


def _romio(request: JobRequest, layout: Layout) -> tuple[Hint, ...]:
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
    basis = (Basis.MEASURED, E2000) if layout.overstriped else (Basis.RULE_OF_THUMB, ROMIO_GUIDE)
    spread = Message(
        "aggregators-spread", "spreads the aggregators over the nodes and their networks"
    )
    each = f"*:{-(-aggregators // request.nodes)}"
    of_stripes = Message(
        "buffer-of-stripes",
        "bytes an aggregator collects before it writes: a multiple of the stripe, so that writes "
        "align with stripes",
    )
    rule = (Basis.RULE_OF_THUMB, ROMIO_GUIDE)
    hints += [
        Hint(Kind.MPI_IO, "cb_nodes", str(aggregators), per_stripe, *basis),
        Hint(Kind.MPI_IO, "cb_config_list", each, spread, Basis.DOCUMENTED, ROMIO_GUIDE),
        Hint(Kind.MPI_IO, "cb_buffer_size", str(buffer), of_stripes, *rule),
    ]
    hints += _striping_hints(request, layout, ROMIO_GUIDE)
    return (*hints, *_sieving(), _check_hint(Mpi.ROMIO))


def _striping_hints(request: JobRequest, layout: Layout, source: str) -> list[Hint]:
    if layout.overstriped or layout.osts == request.osts:
        return []  # only lfs setstripe can express "several per OST" and "all OSTs"
    why = Message(
        "same-as-setstripe",
        "the same as lfs setstripe, for a file that the job creates itself; ignored for others",
    )
    values = {"striping_factor": layout.stripes, "striping_unit": layout.stripe_bytes}
    return [
        Hint(Kind.MPI_IO, name, str(value), why, Basis.DOCUMENTED, source)
        for name, value in values.items()
    ]


def _openmpi(request: JobRequest, layout: Layout) -> tuple[Hint, ...]:
    romio = [hint for hint in _romio(request, layout) if hint.kind is Kind.MPI_IO]
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
        Hint(Kind.MCA, name, str(value), Message(code, why), Basis.DOCUMENTED, source)
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
        Hint(Kind.MCA, "io", "^ompio", chosen, Basis.DOCUMENTED, OMPI_LUSTRE),
        Hint(Kind.CHECK, command, "shows romio", driver, Basis.DOCUMENTED, OMPI_NO_LUSTRE),
    )


def _check_hint(mpi: Mpi) -> Hint:
    cray = mpi is Mpi.CRAY
    name = "MPICH_MPIIO_HINTS_DISPLAY" if cray else "ROMIO_PRINT_HINTS"
    why = Message(
        "hints-displayed",
        "prints the active hints of each file when it is opened; lfs getstripe FILE shows the "
        "stripes",
    )
    return Hint(Kind.CHECK, name, "1", why, Basis.DOCUMENTED, CRAY_MAN if cray else ROMIO_GUIDE)


HINTS_FILE: Final = "romio-hints.txt"


def setstripe_argv(hints: Sequence[Hint], directory: str) -> tuple[str, ...]:
    """Return the command that gives new files in a directory the layout of these hints.

    Examples
    --------
    >>> from trimtab.explain.hints import JobRequest, advise
    >>> " ".join(setstripe_argv(advise(JobRequest(osts=8, nodes=2)), "/scratch/run"))
    'lfs setstripe -c 2 -S 1048576 /scratch/run'
    """
    values = {hint.name: hint.value for hint in hints if hint.kind is Kind.LAYOUT}
    argv = ["lfs", "setstripe"]
    for name, option in (("stripe_count", "-c"), ("overstripe_count", "-C"), ("stripe_size", "-S")):
        if name in values:
            argv += [option, values[name]]
    return (*argv, directory)


def paste_text(request: JobRequest, hints: Sequence[Hint], directory: str) -> str:
    """Return lines for a job script: layout, then the settings its MPI-IO reads."""
    lines = [shell_text(setstripe_argv(hints, directory))]
    mpi_io = [(hint.name, hint.value) for hint in hints if hint.kind is Kind.MPI_IO]
    checks = [hint for hint in hints if hint.kind is Kind.CHECK and hint.name.isupper()]
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
    mca = [hint for hint in hints if hint.kind is Kind.MCA]
    lines = [f"export OMPI_MCA_{hint.name}={hint.value}" for hint in mca if hint.name == "io"]
    others = [hint for hint in mca if hint.name != "io"]
    if others:
        lines.append("# with OMPIO instead (OMPI_MCA_io=ompio), in place of the hints file:")
        lines += [f"# export OMPI_MCA_{hint.name}={hint.value}" for hint in others]
    return lines
