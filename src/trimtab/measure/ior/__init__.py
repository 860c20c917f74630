"""IOR, the parallel file system benchmark of the field: its command, and what it prints.

`running` makes the command, `lines` takes an output apart into the values of `printed`,
`parameters` says what was asked, `results` what came of each repetition, `reading` what it proves.
"""

from typing import Final

from trimtab.measure.ior.reading import FORMAT, parse, read
from trimtab.measure.ior.running import RESERVED_OPTIONS, command, version
from trimtab.measure.phases import Phases

__all__ = ["FORMAT", "PHASES", "command", "parse", "read", "version"]

PHASES: Final = Phases("ior", ("ior",), ("mpi", "slurm"), command, parse, version, RESERVED_OPTIONS)
