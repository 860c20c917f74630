"""fio's JSON documents: the line of each number, and the parameters and files of the jobs.

fio prints one object at its end, and with ``--status-interval`` one per interval. Its error
messages come before it on the same stream. An object starts with ``{`` at the start of a line; its
content is indented. Since 2.3 it echoes the options of the jobs, from which their parameters come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Final

from trimtab.base.error import Message
from trimtab.base.plain import as_dict, as_list, size_of, version_numbers
from trimtab.base.run import Access, Layer

_EDGES: Final = re.compile(
    r"^(?:(?P<opens>\{)[ \t\r]*$|(?P<closes>\}))"
    r'|(?P<line>\{[ \t]*"fio version".*)|(?P<behind>\{)[ \t\r]*\n(?=[ \t]*"fio version")',
    re.MULTILINE,
)
"""Start and end of an object, or an object that another program put on one line.

An object that starts with fio's version may follow other text on its line.
"""
_NO_NUMBER: Final = re.compile(r'(?<=")( ?: ?)(?:-?nan|-?inf)(?=[,\s}])')
"""Forms of NaN and infinity as C prints them, which JSON does not have."""
_ODD_MAXIMUM: Final = 1000
"""Maximum of unmatched starts and ends: a text with more is not fio's output."""
_COMPLAINT: Final = re.compile(r"^fio:.*", re.MULTILINE)
_SAID_MAXIMUM: Final = 200
"""Error lines that are kept; further ones repeat them, except one about a signal."""
_KEY: Final = re.compile(r'\s*"([^"\\]{1,60})" ?: ?')
_LINES_LEFT_OUT: Final = frozenset({"bins", "job options", "global options", "disk_util"})


@dataclass(frozen=True)
class FioDocument:
    """One JSON object of fio.

    Attributes
    ----------
    value
        The decoded object.
    text
        Its text in the output.
    first_line
        Its first line in the output, from 1.
    mixed
        Names of numbers that occur twice with different values: two mixed outputs.
    """

    echoes_options: ClassVar[bool] = True
    """Whether an option missing in a job's list was certainly not given."""
    value: dict[str, Any]
    text: str
    first_line: int
    mixed: tuple[str, ...] = ()

    def doubt(self, job: int, access: Access) -> Message | None:
        """Return a reason to doubt a job's figures that does not follow from their values."""
        return None

    @cached_property
    def jobs(self) -> list[dict[str, Any]]:
        """Its jobs or groups of jobs, the units of fio's figures; of all hosts of a client."""
        listed = as_list(self.value.get("client_stats" if self.is_of_client else "jobs"))
        jobs = [job for job in listed if isinstance(job, dict)]
        if self.is_of_client and len(jobs) > 1 and jobs[-1].get("jobname") == "All clients":
            jobs.pop()  # the total of the others
        return jobs

    @property
    def is_of_client(self) -> bool:
        """Whether ``fio --client`` printed it, for servers on other hosts."""
        return "client_stats" in self.value

    @cached_property
    def options(self) -> dict[str, Any]:
        """The global options, which fio echoes since 2.3."""
        return as_dict(self.value.get("global options"))

    def line_of(self, job: int, *path: str) -> int:
        """Return the line of a job's number, given its path: ``write``, ``clat_ns``, ``mean``.

        For a number without its own line, returns that of the enclosing object.
        """
        while path:
            line = self._lines.get((job, *path))
            if line is not None:
                return line
            path = path[:-1]
        return self.first_line

    @cached_property
    def _lines(self) -> dict[tuple[int | str, ...], int]:
        """Job and path of keys to line, built in one pass."""
        lines: dict[tuple[int | str, ...], int] = {}
        job, path, left_out = -1, [], 0
        for number, line in enumerate(self.text.split("\n"), start=self.first_line):
            stripped = line.strip()
            match = None if left_out else _KEY.match(line)
            key = match[1] if match else ""
            if key == "jobname":
                job, path = job + 1, []
            elif key and job >= 0:
                lines.setdefault((job, *path, key), number)
            if stripped.endswith("{"):
                if left_out or key in _LINES_LEFT_OUT:
                    left_out += 1
                else:
                    path.append(key)
            elif stripped.startswith("}"):
                if left_out:
                    left_out -= 1
                elif path:
                    path.pop()
        return lines


@dataclass(frozen=True, slots=True)
class Output:
    """A parsed output of fio.

    Attributes
    ----------
    documents
        Its complete JSON objects, in order.
    complaints
        The error lines before each of them, and one more list: those after the last.
    unfinished
        Whether the last object is incomplete.
    """

    documents: list[FioDocument] = field(default_factory=list)
    complaints: list[list[str]] = field(default_factory=list)
    unfinished: bool = False


def take_apart(text: str) -> Output:
    """Return the JSON objects and error lines of an output. Never raises.

    Takes time linear in the length of the text: no part is decoded twice.
    """
    text = _NO_NUMBER.sub(r"\1null", text)
    output = Output()
    broken, position, line, counted = 0, 0, 1, 0
    for start, end in _segments(text):
        if broken > _ODD_MAXIMUM:
            break
        # An object on one line may be followed by other text.
        document = None if end is None else _decoded(text[start:end])
        if end is None or document is None:
            broken += 1
            continue
        line, counted = line + text.count("\n", counted, start), start
        value, mixed = document
        output.complaints.append(list(_complaints(text[position:start])))
        output.documents.append(FioDocument(value, text[start:end], line, mixed))
        position = end
    output.complaints.append(list(_complaints(text[position:])))
    return Output(output.documents, output.complaints, broken > 0)


def _segments(text: str) -> Iterator[tuple[int, int | None]]:
    """Yield start and end of each object at the start of a line; no end if incomplete."""
    begin: int | None = None
    odd = 0
    for edge in _EDGES.finditer(text):
        if odd > _ODD_MAXIMUM:
            return
        if edge["closes"] is not None:
            if begin is not None:
                yield begin, edge.end()
            else:
                odd += 1
            begin = None
            continue
        if begin is not None:
            odd += 1
            yield begin, None
        begin = None if edge["line"] is not None else edge.start()
        if begin is None:
            yield edge.start(), edge.end()
    if begin is not None:
        yield begin, None


def _decoded(text: str) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Decode an object, and return which of its numbers occur twice with other values."""
    twice: list[str] = []
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _object(pairs, twice))
    try:
        value, _ = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "fio version" not in value:
        return None
    return value, tuple(dict.fromkeys(twice))


def _object(pairs: list[tuple[str, Any]], twice: list[str]) -> dict[str, Any]:
    """Build an object, and note names that occur twice with different values."""
    value = dict(pairs)
    if len(value) != len(pairs):
        # fio 2 pads its percentiles with "0.00" : 0; options are strings and may repeat.
        twice += [
            key
            for key, member in pairs
            if key != "0.00" and not isinstance(member, str) and member != value[key]
        ]
    return value


def _complaints(text: str) -> Iterator[str]:
    for number, complaint in enumerate(islice(_COMPLAINT.finditer(text), 100 * _SAID_MAXIMUM)):
        if number < _SAID_MAXIMUM or "terminating on signal" in complaint[0]:
            yield complaint[0].rstrip("\r")


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
class FioPlace:
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


def options_of(document: FioDocument, job: dict[str, Any]) -> dict[str, Any]:
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

    Equivalents of fields of `trimtab.base.run.ProbeSpec` have the field's name; all others keep
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


def tasks_of(document: FioDocument, job: dict[str, Any]) -> int | None:
    """Return the number of threads of a section, ``None`` if fio does not print it.

    Up to about 3.1 it does not echo ``numjobs`` of the global section.
    """
    options = options_of(document, job)
    is_old = version_numbers(str(document.value.get("fio version"))) < (3, 16)
    if not options or ("numjobs" not in options and document.options and is_old):
        return None
    return _whole(options.get("numjobs", "1"))


def place_of(document: FioDocument, jobs: Sequence[dict[str, Any]]) -> FioPlace:
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
        return FioPlace("client" if is_client and inside else None, (), None, None)
    drives = {
        (job.get("hostname"), _drive(name))
        for job, options_of_job in zip(jobs, options, strict=True)
        for name in file_names(options_of_job)
    }
    raids = [name for name in names if _RAID.match(name)]
    if len(raids) == len(names):
        members = [name for name in _disks(document) if _drive(f"/dev/{name}") is not None]
        return FioPlace("raid", names, len(members) or None, len(raids))
    if all(_drive(name) is not None for name in names):
        disks = _disks(document)
        if sections_hidden(document, options):
            are_drives = all(_drive(f"/dev/{name}") is not None for name in disks)
            return FioPlace("drive", (), len(disks) if are_drives else None, None)
        return FioPlace("drive", names, len(drives), None)
    on_a_mount = all(name.startswith("/") and not name.startswith("/dev/") for name in names)
    return FioPlace("client" if on_a_mount else None, names, None, None)


def sections_hidden(document: FioDocument, options: Sequence[dict[str, Any]]) -> bool:
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


def _disks(document: FioDocument) -> list[str]:
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
