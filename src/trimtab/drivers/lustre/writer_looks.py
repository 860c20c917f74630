"""Checks of the writing program before and after a write: mounts, devices, values.

Part of the program sent to a server; see `writer`.
"""

# ruff: noqa: PTH119, PTH120

import errno
import os
import re

from trimtab.drivers.lustre.writes import NotInTable, as_read, get_words, recovery_name, shortened

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
