"""The request for advice, and a hint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.message import Message

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


class Kind(StrEnum):
    """Where a hint is set."""

    LAYOUT = "layout"
    """``lfs setstripe`` on the directory, before the job."""
    MPI_IO = "mpi-io"
    """An MPI-IO hint, by environment, file or program."""
    MCA = "mca"
    """A parameter of Open MPI."""
    CHECK = "check"
    """Shows whether the other hints took effect."""


class Basis(StrEnum):
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

    kind: Kind
    name: str
    value: str
    reason: Message
    basis: Basis
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
