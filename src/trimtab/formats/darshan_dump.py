"""Print a Darshan log as JSON lines: ``python -m trimtab.formats.darshan_dump FILE``.

PyDarshan passes the log to a C library. A damaged or malicious log may crash or hang it, so it runs
in a separate process that the caller can end.

Prints one object a line: a header; the job; for each module (POSIX, MPI-IO, STDIO) its sums and
then its groups; ``{"end": true}``. A group is one process's I/O to all files with the same mount
and OSTs, or one file shared by several processes. File names are omitted: they are not needed and
are private.

The library reports errors only on its error output and then acts as if the records had ended. So
that output is captured, and a log with any error is refused entirely.

Sources: include/darshan-log-format.h, darshan-posix-log-format.h, darshan-lustre-log-format.h.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final, TextIO

from trimtab.base.error import Message, install_command
from trimtab.formats.darshan import SUMS

FORMAT_VERSION: Final = 1
MODULES: Final = {"POSIX": "POSIX", "MPI-IO": "MPIIO", "STDIO": "STDIO"}
"""Modules that count bytes and times of files, and the prefix of their counters."""
SHARED: Final = -1
"""The rank in records that several processes share."""

_EXECUTABLE_MAXIMUM: Final = 4096

_Group = dict[str, Any]


def main(path: str, out: TextIO) -> int:
    """Print the log at ``path``; return exit code 0, or 1 with the error in the last line."""
    # A damaged log may crash it: do not leave a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with _complaints() as complaints:
            for line in _lines(path):
                out.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
        problem = complaints[0] if complaints else None
    except ImportError:
        problem = f"PyDarshan is not installed: {install_command('darshan')}"
    # PyDarshan has no exceptions of its own: whatever it raises is about the log.
    except Exception as error:  # noqa: BLE001
        problem = Message(
            "darshan-log-unreadable",
            f"PyDarshan cannot read this log: {type(error).__name__}: {error}",
        )
    last = {"end": True} if problem is None else {"error": problem[:1000]}
    out.write(json.dumps(last, separators=(",", ":")) + "\n")
    out.flush()
    return 0 if problem is None else 1


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """Capture the C library's error output; the list is filled at the end."""
    complaints: list[str] = []
    with tempfile.TemporaryFile() as caught:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield complaints
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            caught.seek(0)
            text = caught.read(65_536).decode("utf-8", "replace")
            complaints += [line.strip() for line in text.splitlines() if "error" in line.lower()]


def _lines(path: str) -> Iterator[dict[str, Any]]:
    import darshan.backend.cffi_backend as library

    log = library.log_open(path)
    if not log["handle"]:
        raise ValueError("it cannot be opened")
    job = library.log_get_job(log)
    yield {
        "darshan_dump": FORMAT_VERSION,
        "log_version": job["log_ver"],
        "library_version": job["metadata"].get("lib_ver"),
        "reader_version": importlib.metadata.version("darshan"),
    }
    command, _, arguments = library.log_get_exe(log)[:_EXECUTABLE_MAXIMUM].partition(" ")
    yield {
        "job": {
            "id": job["jobid"],
            "processes": job["nprocs"],
            "start_s": job["start_time_sec"] + job["start_time_nsec"] / 1e9,
            "end_s": job["end_time_sec"] + job["end_time_nsec"] / 1e9,
            "elapsed_s": job["run_time"],
            "executable": command.rpartition("/")[2],
            "arguments": arguments,
        }
    }
    modules = library.log_get_modules(log)
    places = _Places(library, log, modules)
    for module, prefix in MODULES.items():
        if module in modules:
            yield from _module_lines(library, log, (module, prefix), places)
    library.log_close(log)


class _Places:
    """The location of each file: mount, type of file system, and OSTs."""

    def __init__(self, library: Any, log: Any, modules: dict[str, Any]) -> None:
        # A file belongs to the longest mount point that is a prefix of its name.
        self._mounts = sorted(library.log_get_mounts(log), key=lambda mount: -len(mount[0]))
        self._names: dict[int, str] = library.log_get_name_records(log)
        self._targets: dict[int, set[int]] = {}
        while "LUSTRE" in modules:
            record = library.log_get_record(log, "LUSTRE", dtype="dict")
            if record is None:
                break
            # PyDarshan before 3.5 has one layout per file, later versions have components.
            layouts = record.get("components", [record])
            held = self._targets.setdefault(record["id"], set())
            held.update(int(target) for layout in layouts for target in layout["ost_ids"])
        self._known: dict[str, tuple[str | None, str | None]] = {}

    def of(self, record: int) -> tuple[str | None, str | None, tuple[int, ...] | None]:
        """Return mount point, type and OSTs of a file, ``None`` for each one missing in the log."""
        name = self._names.get(record, "")
        directory = name.rpartition("/")[0]
        if directory not in self._known:
            self._known[directory] = self._mount_of(name)
        targets = self._targets.get(record)
        return (*self._known[directory], None if not targets else tuple(sorted(targets)))

    def _mount_of(self, name: str) -> tuple[str | None, str | None]:
        for point, kind in self._mounts:
            if name.startswith(point.rstrip("/") + "/"):
                return point, kind
        return None, None


def _module_lines(
    library: Any, log: Any, module: tuple[str, str], places: _Places
) -> Iterator[dict[str, Any]]:
    name, prefix = module
    groups: dict[Any, _Group] = {}
    sums: dict[str, Any] = dict.fromkeys(SUMS, 0)
    records = 0
    while (record := library.log_get_record(log, name, dtype="dict")) is not None:
        group = _group(record, prefix, places)
        records += 1
        for key in SUMS:
            sums[key] = _added(sums[key], group[key])
        if group["rank"] == SHARED:
            groups["shared", records] = group
            continue
        key = (group["rank"], group["mount"], group["type"], group["targets"])
        if key in groups:
            for part in ("files", *SUMS):
                groups[key][part] = _added(groups[key][part], group[part])
        else:
            groups[key] = group
    partial = bool(library.log_get_modules(log)[name].get("partial_flag"))
    yield {
        "module": name,
        "partial": partial,
        "records": records,
        "groups": len(groups),
        **sums,
    }
    yield from groups.values()


def _group(record: Any, prefix: str, places: _Places) -> _Group:
    """Return the group of one record: files of one process, or one shared file."""
    counters, times = record["counters"], record["fcounters"]
    mount, kind, targets = places.of(record["id"])
    group: _Group = {
        "rank": int(record["rank"]),
        "mount": mount,
        "type": kind,
        "targets": targets,
        "files": 1,
        "bytes_read": int(counters[f"{prefix}_BYTES_READ"]),
        "bytes_written": int(counters[f"{prefix}_BYTES_WRITTEN"]),
        "read_s": _seconds(times[f"{prefix}_F_READ_TIME"]),
        "write_s": _seconds(times[f"{prefix}_F_WRITE_TIME"]),
        "metadata_s": _seconds(times[f"{prefix}_F_META_TIME"]),
    }
    if group["rank"] == SHARED:
        for which in ("fastest", "slowest"):
            group[f"{which}_rank"] = int(counters[f"{prefix}_{which.upper()}_RANK"])
            group[f"{which}_s"] = _seconds(times[f"{prefix}_F_{which.upper()}_RANK_TIME"])
    return group


def _seconds(value: Any) -> float | None:
    """Return a time; ``None`` if invalid, so that only this figure is lost."""
    seconds = float(value)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _added(amount: Any, more: Any) -> Any:
    return None if amount is None or more is None else amount + more


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m trimtab.formats.darshan_dump FILE", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.stdout))
