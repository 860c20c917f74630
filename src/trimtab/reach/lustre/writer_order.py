"""Checks around each write of the writing program, and three orders: permanent, trim, changelog.

This source is sent to a server after that of `writer_machine` and before that of `writer`, and is
as self-contained: Python 3.6, standard library, no other module of Trimtab.

The output of ``lctl set_param -P`` does not show what is stored, so the MGS's own log is read
before and after. Its lines, as recorded::

    - { index: 2, event: set_param, device: scratch, parameter: NAME, value: VALUE }

A target is trimmed range by range, within a deadline.

To register or remove the changelog user of an MDT, the MDT's list of users is read before and
after: the output of ``lctl`` is not trusted. Its lines, as recorded::

    current_index: 8
    ID                            index (idle) mask
    cl1                               0 (185)
    cl2-trimtab                       0 (184) mask=MARK,CREAT,...
"""

import contextlib
import errno
import os
import re

from trimtab.reach.lustre.write_table import (
    CHANGELOG_USER,
    LIMIT_BYTES,
    LIST_PERMANENT,
    NotInTable,
    as_read,
    changelog_parameter,
    deregister_words,
    get_words,
    mdt_service,
    permanent_words,
    recovery_name,
    register_words,
    shortened,
    trim_words,
)

# ruff: noqa: PTH119, PTH120


READ_TIMEOUT_S = 5.0

_NUMBER = "[0-9]{1,6}:[0-9]{1,8}"
_RECOVERING = re.compile(r"status:\s*(RECOVERING|WAITING[A-Z_]*)")


class End(Exception):
    """Ends an instruction, with its outcome and reason."""

    def __init__(self, outcome, code, detail, **more):
        Exception.__init__(self, detail)
        self.answer = dict(more, outcome=outcome, code=code, detail=detail)


def mounts_of(machine):
    """Yield the mounts of the machine."""
    for line in machine.text("/proc/self/mountinfo", READ_TIMEOUT_S).splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) >= 6 and len(rest) >= 3:
            yield {
                "id": fields[0],
                "number": fields[2],
                "point": re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), fields[4]),
                "type": rest[0],
                "source": rest[1],
                "options": fields[5].split(",") + rest[2].split(","),
            }


def mount_here(machine, place):
    """Return the only mount of a target on this machine; else end the instruction.

    A target is identified by its service (``svname=``), a local file system by its device number.
    """
    service, number = place.get("service"), place.get("number")
    if service is None:
        if not re.fullmatch(_NUMBER, str(number)):
            raise NotInTable("name-invalid", f"{shortened(number)} is not a device number")
        mounts = [mount for mount in mounts_of(machine) if mount["number"] == number]
        # Bind mounts of the same file system are equivalent: any one will do.
        mounts = mounts[:1]
    else:
        option = "svname=" + service
        mounts = [m for m in mounts_of(machine) if m["type"] == "lustre" and option in m["options"]]
    label = service or number
    if not mounts:
        raise End("skipped", "target-not-here", f"{label} is not mounted here")
    if len(mounts) > 1:
        raise End("skipped", "target-mounted-twice", f"{label} is mounted here more than once")
    check_reached(machine, mounts[0], label)
    return mounts[0]


def check_reached(machine, mount, label):
    """End the instruction if the mount's path leads to another mount or device.

    The mount's own number decides, as another mount may hide it. Up to Lustre 2.15 stat of a
    server's mount returns the number in the mount table, since 2.16 that of the target's device
    (``server_getattr``); anything else is not the target.
    """
    point, source = mount["point"], mount["source"]
    number, seen, device = machine.leads_to(point, source, READ_TIMEOUT_S)
    if number != mount["id"]:
        text = f"another mount hides {label} at {point}: see findmnt {point}"
        raise End("skipped", "mount-changed", text)
    if seen not in (mount["number"], device):
        text = f"{point} is on device {seen}, but {label} on {mount['number']}"
        text += f" or {device} ({source:.80})" if device else f": {source:.80} is no block device"
        raise End("skipped", "mount-changed", text)


def kernel_name(machine, source):
    """Return the kernel name of a mount's device."""
    if not source.startswith("/dev/"):
        raise End("skipped", "no-device", f"{source:.80} is not a block device")
    return os.path.basename(machine.real(source))


def devices_under(machine, device):
    """Return a device and all devices beneath it; for a partition, its disk."""
    names, waiting = [], [device]
    while waiting and len(names) < 256:
        name = waiting.pop(0)
        if name in names:
            continue
        names.append(name)
        directory = machine.real("/sys/class/block/" + name)
        waiting += machine.names(directory + "/slaves")
        if "partition" in machine.names(directory):
            waiting.append(os.path.basename(os.path.dirname(directory)))
    return names


def check_recovery(machine, service):
    """End the instruction if a target is in recovery, or if that is unknown."""
    name = recovery_name(service)
    result = machine.run(get_words(name), READ_TIMEOUT_S, rights=True)
    if result["exit_code"] != 0 or "status:" not in result["stdout"]:
        why = complaint_of(result) or "it printed nothing"
        if why.startswith("sudo:"):
            raise End("refused", "permission-denied", why)
        raise End("skipped", "recovery-unknown", f"unknown whether {service} is in recovery: {why}")
    if _RECOVERING.search(result["stdout"]):
        raise End("skipped", "in-recovery", f"{service} is in recovery")


def check_place(machine, row, fields, place):
    """Return the mount of a row's setting (``None`` for a client's), or end the instruction."""
    if row.service == "client":
        return None
    service = place.get("service")
    if row.service in ("ost", "mdt"):
        wanted = fields["fs"] + "-" + fields[row.service]
        if service != wanted:
            raise NotInTable("name-invalid", f"{row.key} is a setting of {wanted}")
    mount = mount_here(machine, place)
    if service is not None:
        check_recovery(machine, service)
    if "device" in fields:
        device = kernel_name(machine, mount["source"])
        devices = [device] if row.key.startswith("ldiskfs/") else devices_under(machine, device)
        if fields["device"] not in devices:
            text = "{} is not beneath {}".format(fields["device"], service or place.get("number"))
            raise End("skipped", "device-not-beneath", text)
    return mount


def read_now(machine, setting):
    """Return the current value of a setting, or end the instruction if it cannot be read."""
    row, name = setting
    if row.kind == "file":
        try:
            return as_read(row, machine.text(name, READ_TIMEOUT_S))
        except OSError as error:
            missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            code = "setting-missing" if missing else "setting-unreadable"
            raise End("skipped", code, f"{name}: {error.strerror}") from error
    result = machine.run(get_words(name), READ_TIMEOUT_S)
    if result["exit_code"] == 0 and result["stdout"].strip() and not result["timed_out"]:
        return as_read(row, result["stdout"])
    why = complaint_of(result) or "it printed nothing"
    missing = "No such file" in result["stderr"]
    raise End("skipped", "setting-missing" if missing else "setting-unreadable", why)


def complaint_of(result):
    """Return a failed command's error message; empty if it has none."""
    if result["timed_out"]:
        return "it timed out"
    if result.get("error"):
        return result["error"]
    lines = [line for line in result["stderr"].splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


PERMANENT_TIMEOUT_S = 15.0
NEVER_SET = "OBD_IOC_LLOG_PRINT failed: No such file or directory"
_ENTRY = re.compile(r"- \{.* event: set_param,.* parameter: ([!-~]+), value: ([ -~]*) \}")


def permanent_now(machine, setting):
    """Return the permanent value of a parameter, empty if none; end without an MGS.

    The MGS creates its log with the first ``set_param -P``: before, the log does not exist
    (recorded), while a server without an MGS has no such device.
    """
    row, name = setting
    result = machine.run(LIST_PERMANENT, READ_TIMEOUT_S, rights=True)
    complaint = complaint_of(result)
    if result["timed_out"]:
        raise End("skipped", "permanent-unreadable", f"the log of the MGS: {complaint}")
    if is_denied(complaint):
        raise End("refused", "permission-denied", complaint)
    if result["exit_code"] == errno.ENOENT and complaint.endswith(NEVER_SET):
        return ""
    if result["exit_code"] != 0:
        raise End("skipped", "mgs-not-here", complaint or "there is no MGS here")
    value = ""
    for line in result["stdout"].splitlines():
        match = _ENTRY.fullmatch(line.strip())
        if match is not None and match.group(1) == name:
            value = as_read(row, match.group(2))
    return value


def is_denied(complaint):
    """Return whether sudo or the MGS denied permission."""
    return complaint.startswith("sudo:") or complaint.endswith("Permission denied")


def do_permanent(acting, n, instruction, setting):
    """Carry out ``permanent``: a value of the table, or none (``null``), for future mounts.

    The answer has the previous permanent value, for the revert.
    """
    machine, value = acting.machine, instruction.get("value")
    row, name = setting
    words = permanent_words(row, name, value)
    wanted = "" if value is None else as_read(row, value)
    current = permanent_now(machine, setting)
    if current == wanted:
        raise End("done", "already", "", found=current, before=current, wrote=False)
    text = "permanent {} {} -> {}".format(name, current or "none", wanted or "none")
    acting.announce(n, "begun " + text)
    result = machine.run(words, PERMANENT_TIMEOUT_S, rights=True)
    end = _end(machine, setting, (current, wanted), result)
    acting.log("{} {}".format(end.answer["outcome"], text))
    raise end


def _end(machine, setting, values, result):
    """Return the result, from the MGS's current log."""
    current, wanted = values
    complaint = complaint_of(result)
    try:
        stored = permanent_now(machine, setting)
    except End as reason:
        return End("unknown", "read-back-failed", str(reason), before=current)
    known = {"found": stored, "before": current}
    if result["timed_out"]:
        return End("unknown", "write-hangs", complaint, **known)
    if stored == wanted:
        return End("done", "done", complaint, **known)
    if stored == current and result["exit_code"] != 0:
        code = "permission-denied" if is_denied(complaint) else "setting-value-refused"
        return End("refused", code, complaint or "it was refused without a message", **known)
    text = f"the MGS has {stored or 'no value'} for {setting[1]}"
    return End("not-stored", "setting-not-kept", text, **known)


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


REGISTER_TIMEOUT_S = 30.0
"""A registration waits for the MDT's journal; if it takes longer, it hangs."""
_USER_LINE = re.compile(
    r"(cl[1-9][0-9]{0,8}(?:-[A-Za-z0-9_.-]{1,15})?)\s+[0-9]+ \([0-9]+\)(?: .*)?"
)
_MASK_WORD = "[A-Z]{2,8}"


def _read(machine, fields, leaf):
    name = changelog_parameter(fields, leaf)
    result = machine.run(get_words(name), READ_TIMEOUT_S, rights=True)
    complaint = complaint_of(result)
    if complaint.startswith("sudo:"):
        raise End("refused", "permission-denied", complaint)
    if result["timed_out"] or result["exit_code"] != 0:
        raise End("skipped", "changelog-users-unreadable", complaint or f"{name} prints nothing")
    return result["stdout"]


def changelog_user_now(machine, fields):
    """Return Trimtab's changelog user on an MDT, empty if there is none."""
    lines = [line.strip() for line in _read(machine, fields, "changelog_users").splitlines()]
    lines = [line for line in lines if line]
    if len(lines) < 2 or not lines[0].startswith("current_index:") or lines[1][:3] != "ID ":
        text = shortened(" ".join(lines))
        raise End("skipped", "changelog-users-unreadable", f"not a list of changelog users: {text}")
    ours = []
    for line in lines[2:]:
        match = _USER_LINE.fullmatch(line)
        if match is None:
            text = f"not a changelog user: {shortened(line)}"
            raise End("skipped", "changelog-users-unreadable", text)
        if match.group(1).partition("-")[2] == CHANGELOG_USER:
            ours.append(match.group(1))
    if len(ours) > 1:
        text = "several changelog users have our name: {}".format(", ".join(ours))
        raise End("skipped", "changelog-user-ambiguous", text)
    return ours[0] if ours else ""


def do_changelog(acting, n, instruction):
    """Carry out ``changelog``: register the user, or remove it if ``registered`` is false."""
    machine, registered = acting.machine, instruction.get("registered")
    fields, needed = instruction.get("fields"), instruction.get("needed")
    service = mdt_service(fields)
    if not isinstance(registered, bool) or not isinstance(needed, list):
        raise NotInTable("request-invalid", "registered must be true or false")
    if not all(isinstance(word, str) and re.fullmatch(_MASK_WORD, word) for word in needed):
        raise NotInTable("request-invalid", f"{shortened(needed)} is not a list of record types")
    if (instruction.get("place") or {}).get("service") != service:
        raise NotInTable("name-invalid", f"the changelog belongs to {service}")
    if fields["fs"] != acting.request["file_system"]:
        raise NotInTable("name-invalid", f"{service} belongs to another file system")
    mount_here(machine, {"service": service})
    check_recovery(machine, service)
    current = changelog_user_now(machine, fields)
    if bool(current) is registered:
        raise End("done", "already", "", found=current, wrote=False)
    if current != instruction.get("before"):
        text = "it now has {}".format(current or "no changelog user")
        raise End("changed", "changed-by-others", text, found=current)
    words = register_words(fields) if registered else deregister_words(fields)
    text = " ".join(words)
    acting.announce(n, "begun " + text)
    result = machine.run(words, REGISTER_TIMEOUT_S, rights=True)
    end = _registration_end(machine, fields, instruction, current, result)
    acting.log("{} {}".format(end.answer["outcome"], text))
    raise end


def _registration_end(machine, fields, instruction, before, result):
    """Return the result, from the MDT's current list of users."""
    complaint = complaint_of(result)
    if result["timed_out"]:
        # Ask nothing more of an MDT that hangs.
        return End("unknown", "write-hangs", complaint)
    try:
        current = changelog_user_now(machine, fields)
        mask = set(_read(machine, fields, "changelog_current_mask").split())
    except End as reason:
        return End("unknown", "read-back-failed", str(reason))
    if bool(current) is not instruction["registered"]:
        if result["exit_code"] == 0:
            text = "the MDT still has {}".format(current or "no such user")
            return End("not-stored", "setting-not-kept", text, found=current)
        denied = complaint.startswith("sudo:") or "ermission denied" in complaint
        code = "permission-denied" if denied else "changelog-user-refused"
        return End("refused", code, complaint or "it was refused without a message", found=before)
    missing = sorted(set(instruction["needed"]) - mask) if current else []
    if missing:
        text = "{} is registered, but records of {} are not written: lctl set_param {}={}".format(
            current,
            ", ".join(missing),
            changelog_parameter(fields, "changelog_users").replace("_users", "_mask"),
            " ".join("+" + word for word in missing),
        )
        return End("not-stored", "changelog-mask-short", text, found=current)
    return End("done", "done", complaint, found=current)
