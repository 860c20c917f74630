"""Sets a permanent parameter on the MGS, in the writing program.

Part of the program sent to a server; see `writer`. The output of ``lctl set_param -P`` does not
show what is stored, so the MGS's own log is read before and after. Its lines, as recorded::

    - { index: 2, event: set_param, device: scratch, parameter: NAME, value: VALUE }
"""

import errno
import re

from trimtab.drivers.lustre.writer_looks import READ_TIMEOUT_S, End, complaint_of
from trimtab.drivers.lustre.writes import LIST_PERMANENT, as_read, permanent_words

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
