"""Parameters and files of a fio run, from the options that it echoes since 2.3."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.measure.command_line import size_of
from trimtab.measure.fio.documents import Document
from trimtab.measure.plain import as_dict, as_list, version_numbers
from trimtab.model.run import Layer

NO_PARAMETERS: Final = frozenset(
    {
        *("name", "description", "filename", "directory", "filename_format", "opendir", "unlink"),
        *("group_reporting", "new_group", "stonewall", "numjobs", "percentile_list", "disk_util"),
        *("clat_percentiles", "lat_percentiles", "slat_percentiles", "unified_rw_reporting"),
        *("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "log_avg_msec"),
        *("per_job_logs", "log_offset", "log_hist_msec", "allow_file_create", "stats"),
    }
)
"""Options on place, time and reporting, which do not affect comparability."""
_SECONDS: Final = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DRIVE: Final = re.compile(
    r"/dev/(?:(?P<nvme>nvme[0-9]+(?:c[0-9]+)?n[0-9]+)(?:p[0-9]+)?|ng(?P<ng>[0-9]+n[0-9]+)"
    r"|(?P<sd>sd[a-z]+)[0-9]*|disk/by-(?:id|path)/(?P<by>[^/]*nvme[^/]*?)(?:-part[0-9]+)?)\Z"
)
_MD: Final = re.compile(r"/dev/md[0-9]+\Z")
_RAID: Final = re.compile(r"/dev/(?:md[^/]+|md/[^/]+|dm-[0-9]+|mapper/[^/]+)\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """The files or devices of jobs.

    Attributes
    ----------
    names
        Distinct names as given to fio; empty if it echoes none.
    drives
        Number of whole drives; ``None`` if unknown.
    devices
        Number of devices that are not single drives, such as RAID devices.
    """

    layer: Layer | None
    names: tuple[str, ...]
    drives: int | None
    devices: int | None


def options_of(document: Document, job: dict[str, Any]) -> dict[str, Any]:
    """Return the options of one job, including the global ones."""
    return {**document.options, **as_dict(job.get("job options"))}


def time_s(value: object) -> float | None:
    """Parse a duration as fio echoes it: ``60``, ``500ms``, ``5m``; in seconds."""
    match = re.fullmatch(r"([0-9]{1,12})(us|ms|s|m|h|d|)", str(value or "").lower())
    return None if match is None else int(match[1]) * _SECONDS[match[2]]


def is_set(options: dict[str, Any], name: str) -> bool:
    """Return whether a flag is certainly on.

    A flag without a value is echoed as ``""`` by 3.42, and not at all up to 3.36.
    """
    return name in options and str(options[name]) != "0"


def file_names(options: dict[str, Any]) -> tuple[str, ...]:
    """Return the names in ``filename``, separated by unescaped colons."""
    value = options.get("filename")
    if not isinstance(value, str):
        return ()
    return tuple(part.replace("\\:", ":") for part in re.split(r"(?<!\\):", value) if part)


def requested(options: Sequence[dict[str, Any]], *, complete: bool = True) -> dict[str, object]:
    """Return the parameters of jobs that ran together, as plain JSON values.

    Equivalents of fields of `trimtab.model.run.ProbeSpec` have the field's name; all others keep
    fio's name and spelling. If jobs differ in one, it is a list in the order of the jobs.

    Parameters
    ----------
    complete
        Whether a missing option has its default.
    """
    several = [_requested_of(values_of_job, complete=complete) for values_of_job in options]
    names = dict.fromkeys(name for values_of_job in several for name in values_of_job)
    merged: dict[str, object] = {}
    for name in names:
        values = list(dict.fromkeys(values_of_job.get(name) for values_of_job in several))
        merged[name] = values[0] if len(values) == 1 else values
    return merged


def _requested_of(options: dict[str, Any], *, complete: bool) -> dict[str, Any]:
    if not options:
        return {}
    requested_values: dict[str, Any] = dict(_DEFAULTS) if complete else {}
    for name in sorted(options.keys() - NO_PARAMETERS):
        ours, meaning = _MEANINGS.get(name, (name, str))
        value = is_set(options, name) if meaning is bool else meaning(str(options[name]))
        requested_values |= {name: str(options[name])} if value is None else {ours: value}
    return requested_values


def tasks_of(document: Document, job: dict[str, Any]) -> int | None:
    """Return the number of threads of a section, ``None`` if fio does not print it.

    Up to about 3.1 it does not echo ``numjobs`` of the global section.
    """
    options = options_of(document, job)
    is_old = version_numbers(str(document.value.get("fio version"))) < (3, 16)
    if not options or ("numjobs" not in options and document.options and is_old):
        return None
    return _whole(options.get("numjobs", "1"))


def place_of(document: Document, jobs: Sequence[dict[str, Any]]) -> Place:
    """Return the files or devices of jobs that ran together.

    Drives that no option names (see `sections_hidden`) are counted in fio's list of disks.
    """
    options = [options_of(document, job) for job in jobs]
    names = tuple(
        dict.fromkeys(name for options_of_job in options for name in file_names(options_of_job))
    )
    if not names:
        inside = [options_of_job.get("directory") for options_of_job in options]
        is_client = all(
            isinstance(options_of_job, str) and options_of_job.startswith("/")
            for options_of_job in inside
        )
        return Place("client" if is_client and inside else None, (), None, None)
    drives = {
        (job.get("hostname"), _drive(name))
        for job, options_of_job in zip(jobs, options, strict=True)
        for name in file_names(options_of_job)
    }
    raids = [name for name in names if _RAID.match(name)]
    if len(raids) == len(names):
        members = [name for name in _disks(document) if _drive(f"/dev/{name}") is not None]
        return Place("raid", names, len(members) or None, len(raids))
    if all(_drive(name) is not None for name in names):
        disks = _disks(document)
        if sections_hidden(document, options):
            are_drives = all(_drive(f"/dev/{name}") is not None for name in disks)
            return Place("drive", (), len(disks) if are_drives else None, None)
        return Place("drive", names, len(drives), None)
    on_a_mount = all(name.startswith("/") and not name.startswith("/dev/") for name in names)
    return Place("client" if on_a_mount else None, names, None, None)


def sections_hidden(document: Document, options: Sequence[dict[str, Any]]) -> bool:
    """Return whether disks took part that no echoed option names.

    With ``group_reporting`` fio echoes only the options of a group's last section.
    """
    devices = {name for options_of_job in options for name in file_names(options_of_job)}
    if devices and all(_MD.match(name) for name in devices):
        # The list includes the members of RAID devices.
        return sum(_MD.match(f"/dev/{name}") is not None for name in _disks(document)) > len(
            devices
        )
    if devices and all(_drive(name) is not None for name in devices):
        hosts = {str(job.get("hostname")) for job in document.jobs}
        return len(_disks(document)) > len({_drive(name) for name in devices}) * len(hosts)
    return False


def _disks(document: Document) -> list[str]:
    """Return the names in fio's list of disks."""
    disks = [as_dict(disk) for disk in as_list(document.value.get("disk_util"))]
    names = [(str(disk.get("hostname")), str(disk.get("name"))) for disk in disks]
    return [name for _, name in dict.fromkeys(names)]


def _drive(name: str) -> str | None:
    """Return the drive of a device file or partition."""
    match = _DRIVE.match(name)
    if match is None:
        return None
    return match["nvme"] or (match["ng"] and f"nvme{match['ng']}") or match["sd"] or match["by"]


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


_MEANINGS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "rw": ("rw", str),
    "iodepth": ("iodepth", _whole),
    "direct": ("direct", bool),
    "time_based": ("time_based", bool),
    "bs": ("transfer_size_bytes", size_of),
    "size": ("block_size_bytes", size_of),
    "runtime": ("duration_s", time_s),
    "ramp_time": ("ramp_s", time_s),
}
"""fio's name to ours, and the parser; unreadable values keep fio's name and text."""
_DEFAULTS: Final = {"rw": "read", "iodepth": 1, "direct": False}
