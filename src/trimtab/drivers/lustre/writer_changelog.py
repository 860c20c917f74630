"""Registers and removes the changelog user of an MDT, in the writing program.

Part of the program sent to a server; see `writer`. The output of ``lctl`` is not trusted: the MDT's
list of users is read before and after. Its lines, as recorded::

    current_index: 8
    ID                            index (idle) mask
    cl1                               0 (185)
    cl2-trimtab                       0 (184) mask=MARK,CREAT,...
"""

import re

from trimtab.drivers.lustre.writer_looks import (
    READ_TIMEOUT_S,
    End,
    check_recovery,
    complaint_of,
    mount_here,
)
from trimtab.drivers.lustre.writes import (
    CHANGELOG_USER,
    NotInTable,
    changelog_parameter,
    deregister_words,
    get_words,
    mdt_service,
    register_words,
    shortened,
)

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
