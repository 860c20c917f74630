"""fio: one process with threads or processes as tasks, on files or whole devices.

`results` reads the output of every version since 2.1, `normal` the human-readable form.

Notes
-----
Found by experiment with fio 3.33; the options of a probe follow from it:
- ``end_fsync=1`` is inside fio's own runtime: with an ``fsync`` made 3 s slower, a run of 2 s
  reports a runtime of 5.1 s, buffered and O_DIRECT alike. So its bandwidth is bytes over the time
  including the flush, and needs no correction.
- By default fio preallocates the whole file with ``fallocate``. A write that stops early then
leaves a file of full length whose unwritten rest reads without any device access.
  With ``fallocate=none`` a file ends where writing ended.
- A read beyond the end of a file would first extend it; ``readonly`` prevents that, so the caller
must pass the actual sizes.
- Buffers that are only "scrambled" (fio's default) hold no 4 KiB block twice; zlib leaves 92 to
  97 % of them. ``refill_buffers`` leaves 99.5 % but costs 4 times the CPU, which would measure the
  processor: it stays off.
- ``directory`` is split at colons, unless escaped.
- Without log files there are no bytes over time, so there is no timeline.
"""

from __future__ import annotations

import math
from typing import Final

from trimtab.errors import UsageError
from trimtab.measure.fio.results import FORMAT, parse, read
from trimtab.measure.phases import FILE_NAME, PhaseRequest, Phases, Version

__all__ = ["FORMAT", "PHASES", "command", "parse", "read", "version"]

_RESERVED_OPTIONS: Final = frozenset(
    {"name", "directory", "filename_format", "rw", "bs", "size", "numjobs", "thread", "ioengine"}
    | {"direct", "invalidate", "fallocate", "unlink", "time_based", "runtime", "end_fsync"}
    | {"readonly", "allow_file_create", "group_reporting", "percentile_list", "eta"}
    | {"output-format", "output", "filename", "readwrite", "blocksize", "bsrange", "bssplit"}
    | {"filesize", "io_size", "io_limit", "buffered", "opendir", "nrfiles", "loops", "stonewall"}
    | {"new_group", "clat_percentiles", "unlink_each_loop", "section", "minimal", "append-terse"}
    | {"exec_prerun", "exec_postrun", "trigger", "trigger-file", "trigger-remote", "client"}
    | {"server", "daemonize", "remote-config", "showcmd", "parse-only", "help", "version"}
)
"""Options that the command sets itself, or that would make it something other than a probe."""


version: Final = Version("fio", ("--version",), r"\Afio-([0-9]+\S*)\s*\Z", oldest="3.0")


def command(phase: PhaseRequest) -> tuple[str, ...]:
    """Return fio's command, which starts ``spec.tasks`` threads with one file each.

    Raises
    ------
    UsageError
        A shared file (its holes would be read as data), or a name that fio cannot use.
    """
    spec, directory = phase.spec, phase.directory
    if not spec.file_per_process:
        raise UsageError(
            "fio needs a file per task",
            code="shared-file-unsupported",
            hint="use --probe ior or --probe builtin for a shared file",
        )
    if "\\:" in directory:
        raise UsageError(
            f"fio cannot use {directory}: it reads \\: as a colon", code="directory-unusable"
        )
    argv = [phase.program, "--name=trimtab", f"--directory={directory.replace(':', chr(92) + ':')}"]
    argv += [f"--filename_format={FILE_NAME}.$jobnum", f"--rw={phase.access}"]
    argv += [f"--bs={spec.transfer_size_bytes}", f"--size={phase.file_bytes}"]
    argv += [f"--numjobs={spec.tasks}", "--thread", "--ioengine=psync"]
    argv += [f"--direct={int(spec.direct)}", "--invalidate=1", "--fallocate=none", "--unlink=0"]
    argv += ["--time_based", f"--runtime={math.ceil(spec.duration_s * 1000)}ms"]
    if phase.access == "write":
        argv.append(f"--end_fsync={int(spec.flush)}")
    else:
        argv += ["--readonly", "--allow_file_create=0"]
    argv += ["--group_reporting", "--percentile_list=50:90:99:99.9", "--eta=never"]
    return (*argv, "--output-format=json+")


PHASES: Final = Phases("fio", ("fio",), ("local",), command, parse, version, _RESERVED_OPTIONS)
