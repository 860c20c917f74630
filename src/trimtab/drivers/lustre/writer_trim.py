"""Trims a target range by range, within a deadline, in the writing program.

Part of the program sent to a server; see `writer`.
"""

import contextlib
import re

from trimtab.drivers.lustre.writer_looks import (
    READ_TIMEOUT_S,
    End,
    check_recovery,
    complaint_of,
    kernel_name,
    mount_here,
)
from trimtab.drivers.lustre.writes import LIMIT_BYTES, NotInTable, shortened, trim_words

TRIM_TIMEOUT_S = 3600.0

_TRIMMED = re.compile(r"\(([0-9]{1,20}) bytes\) trimmed")


def do_trim(acting, n, instruction):
    """Carry out ``trim``: one range after the other, reporting each."""
    with acting.machine.state.locked("trim.lock", 0.0) as lock:
        if lock is None:
            raise End("skipped", "trim-under-way", "another trim is running on this machine")
        trim_ranges(acting, n, instruction, lock)


def trim_ranges(acting, n, instruction, lock):
    """Trim range after range until the end or the deadline."""
    machine, place = acting.machine, instruction.get("place") or {}
    start, end, step = (_size(instruction, name) for name in ("start", "end", "range_bytes"))
    device = check_trim(machine, place)
    size_bytes = int(machine.text(f"/sys/class/block/{device}/size", READ_TIMEOUT_S)) * 512
    end = size_bytes if end is None else min(end, size_bytes)
    start = start or 0
    if start >= end:
        raise End("refused", "range-invalid", f"{start} is beyond the last byte, {end}")
    total = 0
    while start < end:
        if acting.is_late():
            raise End(
                "done", "deadline", "the deadline has passed", found=str(total), next_start=start
            )
        acting.check_fence()
        length = min(step or end - start, end - start)
        mount = mount_here(machine, place)
        argv = trim_words(mount["point"], start, length)
        acting.announce(n, "begun {}".format(" ".join(argv)))
        timeout_s = min(instruction.get("timeout_s") or TRIM_TIMEOUT_S, acting.left_s())
        result = machine.run(argv, timeout_s, rights=True, lock=lock)
        match = _TRIMMED.search(result["stdout"])
        if result["exit_code"] != 0 or result["timed_out"] or match is None:
            failure = trim_failure(result, start, total)
            acting.log("{} {}".format(failure.answer["outcome"], " ".join(argv)))
            raise failure
        trimmed = int(match.group(1))
        total += trimmed
        acting.log(f"done {' '.join(argv)}: {trimmed} bytes")
        acting.emit({"n": n, "range": [start, length, trimmed]})
        start += length
    raise End("done", "done", "", found=str(total), next_start=None)


def _size(instruction, name):
    value = instruction.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LIMIT_BYTES:
        raise NotInTable("range-invalid", f"{shortened(value)} is not a valid {name}")
    if name == "range_bytes" and not value:
        raise NotInTable("range-invalid", "a range must have at least one byte")
    return value


def check_trim(machine, place):
    """Return the device of a target that may be trimmed now, or end the instruction."""
    mount = mount_here(machine, place)
    if place.get("service") is not None:
        check_recovery(machine, place["service"])
    if "ro" in mount["options"]:
        raise End("skipped", "target-read-only", "{} is mounted read-only".format(mount["point"]))
    device = kernel_name(machine, mount["source"])
    kind = "ext4" if place.get("service") is None else "ldiskfs"
    # A target with an aborted journal still shows rw, and fstrim on it exits with 0.
    with contextlib.suppress(FileNotFoundError):
        errors = machine.text(f"/sys/fs/{kind}/{device}/errors_count", READ_TIMEOUT_S)
        if int(errors or 0):
            text = f"{device} has recorded {errors.strip()} errors: check it first (e2fsck)"
            raise End("skipped", "target-has-errors", text)
    return device


def trim_failure(result, start, total):
    """Return the result for a range that fstrim did not trim."""
    complaint = complaint_of(result) or "fstrim printed no number of bytes"
    outcome, code = "failed", "trim-failed"
    if result["timed_out"]:
        outcome, code = "unknown", "trim-hangs"
    elif result.get("error"):
        outcome, code = "refused", "tool-missing"
    else:
        for words, word_code in (
            ("not supported", "discard-unsupported"),
            ("Invalid argument", "range-invalid"),
            ("Permission denied", "permission-denied"),
            ("not permitted", "permission-denied"),
            ("sudo:", "permission-denied"),
            ("No such file", "mount-changed"),
        ):
            if words in complaint:
                outcome, code = "refused", word_code
                break
    return End(outcome, code, complaint, found=str(total), next_start=start)
