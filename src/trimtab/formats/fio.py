"""fio: one process with threads or processes as tasks, on files or whole devices.

The output of every version since 2.1 is read: `trimtab.formats.fio_document` parses its JSON,
`trimtab.formats.fio_normal` the human-readable form, `trimtab.formats.fio_figure` the figures.

Jobs that ran at the same time are one run: their bytes over the longest of their times. Jobs
separated by ``stonewall`` ran one after another and are separate results. ``new_group`` alone only
separates the figures. Without log files there are no bytes over time, so there is no timeline.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trimtab.base.error import DataError, Message, UsageError
from trimtab.base.plain import as_dict, as_number, as_whole, present
from trimtab.base.run import RawOutput
from trimtab.formats.fio_document import (
    FioDocument,
    Output,
    is_set,
    options_of,
    place_of,
    requested,
    sections_hidden,
    take_apart,
    tasks_of,
    time_s,
)
from trimtab.formats.fio_figure import moving, read_jobs, read_operations, read_targets, total
from trimtab.formats.fio_normal import NormalDocument, normal_documents
from trimtab.formats.measurement import (
    ACCESSES,
    Mark,
    Measurement,
    MeasurementDraft,
    OutputFile,
    OutputFormat,
    beginning,
    missing,
    tail,
    with_reason,
)
from trimtab.formats.phase import FILE_NAME, PhaseRequest, Phases, Version

_STILL_RUNNING_S: Final = 2**31 - 1
"""fio's ``eta`` without an estimate."""
_EARLIER: Final = Message(
    "earlier-part-read", "fio did not finish its output: using an earlier part of it"
)
_SIGNAL: Final = "terminating on signal"


def parse(output: RawOutput, *, repetition: int = 0, ordinal: int | None = None) -> Measurement:
    """Parse an output of fio, JSON or JSON+. Never raises.

    Several jobs count as one run: their bytes over the longest of their times.

    Parameters
    ----------
    repetition
        Number of the repetition; an output of fio has one.
    ordinal
        Ordinal of this raw output in the run, for the samples.
    """
    draft = _draft(ordinal)
    text = output.stdout.decode("utf-8", "replace")
    stderr = output.stderr.decode("utf-8", "replace")
    printed = take_apart(text)
    complaints = [*(line for lines in printed.complaints for line in lines), *stderr.splitlines()]
    draft.warnings += [tail(line) for line in complaints if line.strip()]
    integrity_lost = False
    if printed.documents:
        document = printed.documents[-1]
        integrity_lost = read_jobs(draft, document, range(len(document.jobs)), repetition)
        _note_order(draft, document)
        if printed.unfinished:
            draft.problems.append(_EARLIER)
    _note_problems(draft, output, text, bool(printed.documents))
    return draft.finished(integrity_lost=integrity_lost)


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the runs in an output file; see `trimtab.formats.measurement`.

    All jobs that ran at the same time are one run, named after the first. With
    ``--status-interval`` the last state counts; consecutive outputs are separate runs.
    """
    text = source.text
    printed = _with_normal(take_apart(text) if '"fio version"' in text else Output(), text)
    if not printed.documents:
        if '"fio version"' not in text:
            raise _no_result(text)
        return (parse(source.raw_output(), ordinal=0),)
    drafts: list[MeasurementDraft] = []
    executions = list(_executions(printed))
    for document, complaints in executions:
        runs = _runs(document)
        for run, following in zip(runs or [[]], [*runs[1:], []], strict=True):
            draft = _run(document, run, is_last=_is_last(document, run, following))
            _note_said(draft, complaints)
            drafts.append(draft)
    if printed.unfinished:
        drafts[-1].problems.append(_EARLIER)
    _name(drafts)
    return tuple(draft.finished() for draft in drafts)


def _with_normal(printed: Output, text: str) -> Output:
    """Add the normal outputs, unless they duplicate the JSON."""
    documents = [
        document
        for document in normal_documents(text)
        if not any(document.is_in(other) for other in printed.documents)
    ]
    if not documents:
        return printed
    if printed.documents:
        complaints = [*printed.complaints[:-1], *([] for _ in documents), printed.complaints[-1]]
        return Output([*printed.documents, *documents], complaints, printed.unfinished)
    lines_before: list[list[str]] = [[] for _ in range(len(documents) + 1)]
    starts = [document.first_line for document in documents]
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("fio: "):
            lines_before[bisect_left(starts, number)].append(line.rstrip("\r"))
    return Output([*documents], lines_before)


def recognises(source: OutputFile) -> bool:
    """Return whether a file is an output of fio, including those without JSON."""
    head = source.head
    return any(word in head for word in _WORDS) and _IS_FIO.search(head) is not None


_TERSE: Final = re.compile(r"^[2-5];fio-[0-9]", re.MULTILINE)
_NORMAL: Final = re.compile(r"^(?:fio-[0-9.]+\S*\r?$|\S.*: \(g=[0-9]+\): rw=)", re.MULTILINE)
_IS_FIO: Final = re.compile(
    r'^(?:[^{\n]{0,400}\{?\s{0,20}"fio version"\s{0,9}:\s{0,9}"fio-|[2-5];fio-[0-9]|fio: [a-z]'
    r"|fio-[0-9]\S*\r?\nStarting |\S[^\n]{0,200}: \(g=[0-9]+\): rw="
    r"|\S[^\n]{0,200}: \(groupid=[0-9]+, jobs=[0-9]+\): err=)",
    re.MULTILINE,
)
_WORDS: Final = ("fio", ": (g")
"""Every match of it contains one of these: a fast way to rule it out."""
_BEGINNING: Final = re.compile(
    rb'^(?:[^{\n]{0,400}\{\s{0,20}"fio version"\s{0,9}:\s{0,9}"fio-'
    rb"|\S[^\n]{0,200}: \(g=[0-9]+\): rw=)",
    re.MULTILINE,
)
FORMAT: Final = OutputFormat(
    "fio", recognises, read, beginning=Mark((b'"fio version"', b"): rw="), _BEGINNING)
)


def _no_result(text: str) -> DataError:
    hint = "run fio with --output-format=json or json+"
    if match := _TERSE.search(text):
        line = text.count("\n", 0, match.start()) + 1
        problem = "this is fio's terse output, which lacks required figures"
        return DataError(problem, code="output-format-unsupported", line=line, hint=hint)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("fio:"):
            return DataError(f"fio printed no result: {tail(line)}", code="no-result", line=number)
    if match := _NORMAL.search(text):
        line = text.count("\n", 0, match.start()) + 1
        return DataError("fio printed no result", code="no-result", line=line)
    problem = f"this is not the JSON output of fio: {beginning(text) or 'it is empty'}"
    return DataError(problem, code="not-this-format", line=1)


def _executions(printed: Output) -> Iterator[tuple[FioDocument, list[str]]]:
    """Yield the last document of each execution of fio, with its error lines."""
    complaints: list[str] = []
    for index, document in enumerate(printed.documents):
        complaints = complaints + printed.complaints[index]
        following = printed.documents[index + 1 : index + 2]
        if following and _continues(document, following[0]):
            continue
        yield document, complaints if following else complaints + printed.complaints[-1]
        complaints = []


def _continues(document: FioDocument, following: FioDocument) -> bool:
    """Return whether one document is a later state of the same execution."""
    if len(document.jobs) != len(following.jobs):
        return False
    if any(document.value.get(key) != following.value.get(key) for key in _SAME_OF_ALL):
        return False
    begins = _begin(document), _begin(following)
    # Both times are truncated to seconds, one of them after adding almost one.
    if None not in begins and abs(begins[1] - begins[0]) > timedelta(seconds=2):  # type: ignore[operator]
        return False
    return all(map(_grew, document.jobs, following.jobs))


_SAME_OF_ALL: Final = ("fio version", "global options", "execution")
_SAME_OF_A_JOB: Final = ("jobname", "groupid", "job options")


def _grew(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Return whether a job is the same, with no fewer bytes and no shorter runtime."""
    if any(earlier.get(key) != later.get(key) for key in _SAME_OF_A_JOB):
        return False
    return all(
        (as_number(as_dict(earlier.get(access)).get(key)) or 0)
        <= (as_number(as_dict(later.get(access)).get(key)) or 0)
        for access in ACCESSES
        for key in ("io_bytes", "runtime")
    )


def _runs(document: FioDocument) -> list[list[int]]:
    """Return the jobs of a document by run.

    Servers of a client start together and do not wait for one another between groups: with several
    groups each server's jobs are separate runs.
    """
    runs: list[list[int]] = []
    before: object = None
    order = list(enumerate(document.jobs))
    if len({job.get("groupid") for job in document.jobs}) > 1:
        servers = list(dict.fromkeys(map(_server, document.jobs)))
        order.sort(key=lambda entry: servers.index(_server(entry[1])))
    for index, job in order:
        group = job.get("groupid")
        options = options_of(document, job)
        beside = is_set(options, "new_group") and not is_set(options, "stonewall")
        if runs and (group == before or beside):
            runs[-1].append(index)
        else:
            runs.append([index])
        before = group
    return runs


def _server(job: dict[str, Any]) -> tuple[object, object]:
    return job.get("hostname"), job.get("port")


def _note_hosts(draft: MeasurementDraft, document: FioDocument, run: Sequence[int]) -> None:
    """Note the servers of a client; a result of one among several is named after it."""
    jobs = [document.jobs[index] for index in run]
    hosts = list(dict.fromkeys(str(job["hostname"]) for job in jobs if "hostname" in job))
    if not hosts:
        return
    draft.reported["hosts"] = hosts
    draft.host = hosts[0] if len(hosts) == 1 else None
    group = jobs[0].get("groupid")
    if draft.host and len(jobs) < sum(job.get("groupid") == group for job in document.jobs):
        draft.name = f"{draft.host}: {draft.name}"


def _is_last(document: FioDocument, run: Sequence[int], following: Sequence[int]) -> bool:
    """Return whether this is the last group of jobs; each server counts from 0."""
    if not run or not following:
        return True
    group, after = (as_whole(document.jobs[at[0]].get("groupid")) for at in (run, following))
    return isinstance(document, NormalDocument) and (after or 0) < (group or 0)


def _run(document: FioDocument, run: Sequence[int], *, is_last: bool) -> MeasurementDraft:
    draft = _draft(0)
    integrity_lost = read_jobs(draft, document, run, 0)
    options = [options_of(document, document.jobs[index]) for index in run]
    hidden = sections_hidden(document, options)
    jobs = [document.jobs[index] for index in run]
    place = place_of(document, jobs)
    names = list(dict.fromkeys(str(job.get("jobname")) for job in jobs))
    draft.name = names[0] if names else None
    draft.layer = place.layer
    draft.requested |= requested(options) if any(options) else {"job_names": names}
    draft.reported |= {"job_names": names, "latency": "completion"}
    draft.reported |= present({"drives": place.drives, "devices": place.devices})
    if hidden:
        text = "group_reporting merged sections; fio names only the last one's devices"
        draft.warnings.add("sections-merged", text)
        draft.phases = [replace(phase, tasks=None) for phase in draft.phases]
    elif place.names:
        draft.reported["file_names"] = list(place.names)
    _note_hosts(draft, document, run)
    tasks = next((phase.tasks for phase in draft.phases), None)
    if tasks is not None:
        draft.reported["tasks"] = tasks
    for access in ACCESSES:
        entries = moving(document, run, access)
        if entries:
            read_operations(draft, entries, None)
            read_targets(draft, entries, hidden=hidden)
    if isinstance(document, NormalDocument):
        _note_normal(draft, document, options, tasks)
    _note_times(draft, document, run, is_last=is_last)
    _note_end(draft, document, options)
    _note_others(draft, document, run)
    if integrity_lost or document.mixed:
        reason = Message("outputs-mixed", "two outputs are mixed")
        if integrity_lost:
            reason = Message("data-corrupt", "data read is not what was written")
        _disbelieve(draft, reason, targets_too=True)
    return draft


def _note_normal(
    draft: MeasurementDraft,
    document: NormalDocument,
    options: Sequence[dict[str, Any]],
    tasks: int | None,
) -> None:
    """Note the parameters in fio's normal output, and which it lacks."""
    printed = requested(options, complete=False)
    draft.requested = present(
        {**printed, "job_names": draft.reported["job_names"], "tasks": tasks, "output": "normal"}
    )
    reason = "fio's normal output lacks size, runtime, direct and files of the jobs"
    draft.missing.append(missing("parameters", "options-not-printed", reason))
    if len(_runs(document)) > 1:
        text = "fio's normal output does not show whether groups of jobs ran at the same time"
        draft.warnings.add("groups-in-one-output", text)


def _draft(ordinal: int | None) -> MeasurementDraft:
    draft = MeasurementDraft("fio", ordinal)
    reason = "fio writes bytes over time only to log files"
    draft.missing.append(missing("timeline", "no-timeline", reason))
    return draft


def _note_said(draft: MeasurementDraft, complaints: Sequence[str]) -> None:
    draft.warnings += [tail(line) for line in complaints]
    draft.problems += [tail(line) for line in complaints if _SIGNAL in line]


def _note_times(
    draft: MeasurementDraft, document: FioDocument, run: Sequence[int], *, is_last: bool
) -> None:
    """Note start and end: ``timestamp`` is the end, when fio prints."""
    longest_s = max((phase.elapsed_s or 0.0 for phase in draft.phases), default=0.0)
    if is_last and not document.is_of_client:  # a client's is its own start
        draft.ended = _end(document, run)
    starts = [_moment(document.jobs[index].get("job_start"), 1e-3) for index in run]
    known = [start for start in starts if start is not None]
    options = [options_of(document, document.jobs[index]) for index in run]
    own_clock = any("job_start_clock_id" in options_of_job for options_of_job in options)
    if known and len(known) == len(run) and not own_clock:
        draft.began = min(known)
        if max(known) - min(known) > timedelta(seconds=max(0.1 * longest_s, 1.0)):
            _note_apart(draft, "its jobs did not run at the same time, as fio's job_start shows")
    elif draft.ended is not None and longest_s:
        draft.began = draft.ended - timedelta(seconds=longest_s)
    else:
        draft.began = _begin(document)
    delayed = any(
        is_set(options_of_job, name)
        for options_of_job in options
        for name in ("startdelay", "start_delay")
    )
    several = len(run) > 1 or any(tasks_of(document, document.jobs[index]) != 1 for index in run)
    if delayed and several:
        _note_apart(draft, "its jobs began at different times, as startdelay asked")


def _note_order(draft: MeasurementDraft, document: FioDocument) -> None:
    if len(_runs(document)) > 1:
        _note_apart(draft, "its jobs ran one after another: they are not one result")


def _note_apart(draft: MeasurementDraft, text: str) -> None:
    _disbelieve(draft, Message("jobs-not-simultaneous", text))


def _disbelieve(draft: MeasurementDraft, reason: str, *, targets_too: bool = False) -> None:
    """Mark the total figures as not credible; those of single files and devices stay."""
    draft.phases = [replace(phase, reason=phase.reason or reason) for phase in draft.phases]
    draft.latencies = [
        with_reason(sample, reason) if sample.target is None or targets_too else sample
        for sample in draft.latencies
    ]


def _note_end(
    draft: MeasurementDraft, document: FioDocument, options: Sequence[dict[str, Any]]
) -> None:
    """Note signs that the run had not ended when fio printed."""
    for job in document.jobs:
        eta_s = as_whole(job.get("eta"))
        if eta_s is not None and 0 < eta_s < _STILL_RUNNING_S:
            draft.problems.add("run-unfinished", "fio was still running when it printed this")
    limits = {"number_ios", "io_size", "io_limit", "steadystate", "ss"}
    requested = [
        time_s(options_of_job.get("runtime"))
        for options_of_job in options
        if is_set(options_of_job, "time_based") and not limits & options_of_job.keys()
    ]
    requested_s = max(filter(None, requested), default=0.0)
    longest_s = max((phase.elapsed_s or 0.0 for phase in draft.phases), default=0.0)
    if draft.phases and longest_s < 0.99 * requested_s:
        draft.problems.add("ended-early", f"fio ran {longest_s:g} s of {requested_s:g} s")


def _note_others(draft: MeasurementDraft, document: FioDocument, run: Sequence[int]) -> None:
    """Note what has no metric: trimmed bytes, and reads and writes reported as one."""
    trims = [as_dict(document.jobs[index].get("trim")) for index in run]
    trimmed = total(as_number(trim.get("io_bytes", 0)) for trim in trims)
    if trimmed:
        draft.reported["trimmed_bytes"] = trimmed
        reason = "there is no metric for fio's trims"
        draft.missing.append(missing("trim rate", "no-metric", reason))
    if any("mixed" in document.jobs[index] for index in run) and not draft.phases:
        text = "fio reported reads and writes as one (unified_rw_reporting)"
        draft.problems.add("reads-writes-unified", text)
    if not draft.phases and not draft.problems and trimmed:
        draft.problems.add("only-trimmed", "fio only trimmed")
    elif not draft.phases and not draft.problems:
        draft.problems.add("no-bytes", "fio moved no bytes")


def _end(document: FioDocument, run: Sequence[int] = ()) -> datetime | None:
    """Return when fio printed jobs, by default the last."""
    if isinstance(document, NormalDocument):
        last = run[-1] if run else len(document.jobs) - 1
        return document.printed_at.get(last)
    in_ms = _moment(document.value.get("timestamp_ms"), 1e-3)
    return _moment(document.value.get("timestamp"), 1.0) if in_ms is None else in_ms


def _begin(document: FioDocument) -> datetime | None:
    """Return fio's start within two seconds: the time of printing minus its runtime."""
    ended = _end(document)
    if document.is_of_client:
        return ended
    elapsed = [as_number(job.get("elapsed")) for job in document.jobs]
    known = [seconds for seconds in elapsed if seconds is not None and seconds < 1e9]
    return None if ended is None or not known else ended - timedelta(seconds=max(known))


def _moment(value: object, unit_s: float) -> datetime | None:
    """Convert a number of units since 1970 to UTC, if plausible."""
    number = as_whole(value)
    if number is None or not 1e9 <= number * unit_s <= 1e10:
        return None
    return datetime.fromtimestamp(number * unit_s, UTC)


def _name(drafts: Sequence[MeasurementDraft]) -> None:
    """Number results with the same name."""
    seen: dict[str | None, int] = {}
    for draft in drafts:
        name = draft.name
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            draft.name = f"{name} {seen[name]}"


def _note_problems(draft: MeasurementDraft, output: RawOutput, text: str, whole: bool) -> None:
    draft.problems += [warning for warning in draft.warnings if _SIGNAL in warning]
    if output.truncated:
        draft.problems.add("output-cut", "the output was cut at its limit")
    # stderr has the error, stdout the place in fio's source.
    complaints = [
        tail(line)
        for line in output.stderr.decode("utf-8", "replace").splitlines()
        if line.startswith("fio:")
    ]
    if not whole:
        if not text.strip():
            draft.problems.add("nothing-printed", "fio printed nothing")
        elif '"fio version"' in text:
            draft.problems.add("output-unfinished", "fio did not finish its output")
        elif not complaints:
            problem = f"this is not the JSON output of fio: {beginning(text)}"
            draft.problems.add("not-this-format", problem)
        draft.problems += complaints[:1]
    elif not draft.phases and not draft.problems:
        draft.problems += [Message("no-bytes", "fio moved no bytes"), *complaints[:1]]
    draft.note_exit("fio", output)


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

    Notes
    -----
    Found by experiment with fio 3.33:

    - ``end_fsync=1`` is inside fio's own runtime: with an ``fsync`` made 3 s slower, a run of 2 s
      reports a runtime of 5.1 s, buffered and O_DIRECT alike. So its bandwidth is bytes over the
      time including the flush, and needs no correction.
    - By default fio preallocates the whole file with ``fallocate``. A write that stops early then
      leaves a file of full length whose unwritten rest reads without any device access. With
      ``fallocate=none`` a file ends where writing ended.
    - A read beyond the end of a file would first extend it; ``readonly`` prevents that, so the
      caller must pass the actual sizes.
    - Buffers that are only "scrambled" (fio's default) hold no 4 KiB block twice; zlib leaves 92 to
      97 % of them. ``refill_buffers`` leaves 99.5 % but costs 4 times the CPU, which would measure
      the processor: it stays off.
    - ``directory`` is split at colons, unless escaped.
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
