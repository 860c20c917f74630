"""File layout and MPI-IO hints for a job, each with its reason and source.

`advise` is pure: it knows the sizes of the job and of the file system, nothing else. `Basis` says
whether a hint is measured, documented or a rule of thumb.
"""

from trimtab.explain.hints.advice import advise, paste_text, setstripe_argv
from trimtab.explain.hints.hint import Basis, Hint, JobRequest, Kind, Mpi

__all__ = ["Basis", "Hint", "JobRequest", "Kind", "Mpi", "advise", "paste_text", "setstripe_argv"]
