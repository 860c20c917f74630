"""Sources of the hints."""

from __future__ import annotations

from typing import Final

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
