"""Writes on a server what `write_table` allows, and reports each instruction.

This source is sent to a server after those of `collector_tree`, `collector`, `write_table`,
`writer_machine` and `writer_order`, on the standard input of ``python3 -I -S - [ROOT [STATE]]``. It
is as self-contained: Python 3.6, standard library. The last line sent is ``act(<the request, JSON
in a string>)``.

::

    hello --> for each instruction, under the lock:
              fencing token, mounted here?, in recovery?, the expected old value?
              the old value is stored, a line in the log, "begun"
              written, read back, a line in the log, "ended"
          --> over

Every line is flushed before the step it announces: in a cut answer, instructions that "ended" have
a known result, all others do not. If a line cannot be written the program stops; after an
instruction that failed the rest is skipped.
"""

import contextlib
import json
import os
import re
import signal

from trimtab.reach.lustre.collector import write_all
from trimtab.reach.lustre.collector_tree import PathRefused
from trimtab.reach.lustre.write_table import (
    FIELDS,
    SUDO_WORDS,
    NotInTable,
    as_read,
    check_value,
    is_same,
    name_of,
    set_words,
    shortened,
)
from trimtab.reach.lustre.writer_machine import Machine
from trimtab.reach.lustre.writer_order import (
    End,
    check_place,
    complaint_of,
    do_changelog,
    do_permanent,
    do_trim,
    read_now,
)

ACT_FORMAT = 1
LOCK_WAIT_S = 10.0
WRITE_TIMEOUT_S = 15.0
GUARD_TICK_S = 0.5
INSTRUCTIONS_LIMIT = 4096
ALARM_AFTER_S = 60
LONGEST_S = 7 * 86400

_ID = "[0-9a-f-]{8,64}"
_WHO = "[A-Za-z0-9@._-]{1,80}"


class Cut(Exception):
    """The reader of the answer is gone."""


# Setting -----------------------------------------------------------------------------------------


def write_setting(machine, setting, value):
    """Write a value of the table and return the result."""
    row, name = setting
    check_value(row, value)
    if row.kind == "file":
        return machine.write(name, value, WRITE_TIMEOUT_S)
    if machine.hanging("lctl"):
        raise End("skipped", "tool-hangs", "an lctl already hangs here: no other is started")
    return machine.run(set_words(row, name, value), WRITE_TIMEOUT_S, rights=True)


def outcome_of(machine, setting, value, before, result):
    """Return the result of a write: from the value read back, then from the tool's output."""
    row, name = setting
    complaint = complaint_of(result)
    failed = result["exit_code"] != 0
    try:
        current = read_now(machine, setting)
    except (End, NotInTable) as reason:
        code = "write-hangs" if result["timed_out"] else "read-back-failed"
        return End("unknown", code, "{}; {}".format(complaint or "written", reason))
    if result["timed_out"]:
        # The write may still happen, whatever the value is now.
        return End("unknown", "write-hangs", f"{name}: {complaint}", found=current)
    if failed and current == before:
        return _refused(complaint, current, result)
    if is_same(row, current, value):
        return End("done", "done", complaint, found=current)
    text = f"{name} was set to {value} but reads {current}"
    text = ": ".join(filter(None, (text, complaint)))
    return End("not-stored", "setting-not-kept", text, found=current)


def _refused(complaint, current, result):
    denied = "Permission denied" in complaint or "not permitted" in complaint
    denied = denied or complaint.startswith("sudo:")
    if "Read-only" in complaint:
        code = "target-read-only"
    elif result.get("error"):
        code = "tool-missing"
    else:
        code = "permission-denied" if denied else "setting-value-refused"
    return End("refused", code, complaint or "it was refused without a message", found=current)


def do_set(acting, n, instruction):
    """Carry out ``set``: write one value, storing the old one if requested."""
    machine, request = acting.machine, acting.request
    setting = row, name = own_name(request, instruction)
    value, before = instruction.get("value"), instruction.get("before")
    check_value(row, value)
    check_place(machine, row, instruction["fields"], instruction.get("place") or {})
    current = read_now(machine, setting)
    if before is not None and row.back != "moving" and current != as_read(row, before):
        text = f"{name} is {current}, but was {before} when the change was planned"
        raise End("changed", "changed-by-others", text, found=current)
    acting.supersede(name)
    if row.back != "moving" and value != "-1" and is_same(row, current, value):
        raise End("done", "already", "", found=current, wrote=False)
    if instruction.get("keep"):
        check_value(row, current)
        machine.state.store(kept_name(request, name), json.dumps({"before": current}))
    # An old value that is never written (checksums off) cannot be restored either.
    armed = request.get("dead_man_s") is not None and row.back != "moving"
    armed = armed and row.grammar.takes(current)
    if armed:
        acting.arm(instruction, setting, current, value)
    end = write_and_tell(acting, n, setting, current, value)
    end.answer["armed"] = armed and end.answer["outcome"] != "refused"
    raise end


def do_restore(acting, n, instruction):
    """Carry out ``restore``: the value stored when a target was closed, else the default.

    Does nothing if the target is not closed.
    """
    machine, request = acting.machine, acting.request
    setting = row, name = own_name(request, instruction)
    closed, value = instruction.get("closed"), instruction.get("default")
    record = kept_name(request, name)
    with contextlib.suppress(ValueError, KeyError, TypeError, NotInTable):
        before = json.loads(machine.state.load(record) or "{}")["before"]
        check_value(row, before)
        value = before
    check_value(row, value)
    check_place(machine, row, instruction["fields"], instruction.get("place") or {})
    current = read_now(machine, setting)
    if current != closed:
        machine.state.remove(record)
        raise End("done", "already", "", found=current, wrote=False)
    acting.supersede(name)
    end = write_and_tell(acting, n, setting, current, value)
    if end.answer["outcome"] == "done":
        machine.state.remove(record)
    raise end


def own_name(request, instruction):
    """Return row and name of an instruction's setting, checking its file system."""
    row, name = name_of(instruction.get("row"), instruction.get("fields"))
    if instruction["fields"].get("fs", request["file_system"]) != request["file_system"]:
        raise NotInTable("name-invalid", f"{name} belongs to another file system")
    return row, name


def kept_name(request, name):
    """Return the file name of the value stored before closing."""
    return "{}.before.{}".format(request["file_system"], name)


def write_and_tell(acting, n, setting, current, value):
    """Write, between two lines in the log, and return the result."""
    name = setting[1]
    text = f"{name} {current} -> {value}"
    acting.announce(n, "begun " + text)
    result = write_setting(acting.machine, setting, value)
    end = outcome_of(acting.machine, setting, value, current, result)
    acting.log("{} {}{}".format(end.answer["outcome"], text, f" ({end})" if str(end) else ""))
    if end.answer["outcome"] == "refused":
        acting.supersede(name)
    elif end.answer["outcome"] == "not-stored":
        acting.now_reads(name, end.answer["found"])
    return end


# Reverting by itself -----------------------------------------------------------------------------


def do_confirm(acting, n, instruction):
    """Carry out ``confirm``: a change stays; ``skipped`` if it was already reverted."""
    state, name = acting.machine.state, acting.pending_name(instruction.get("id"))
    text = state.load(name)
    if text is None:
        raise End("skipped", "nothing-pending", "no change here waits for this confirmation")
    record = json.loads(text)
    if record["token"] != acting.request["token"]:
        raise End("refused", "fenced", "it was started under token {}".format(record["token"]))
    setting = row, full_name = name_of(record["row"], record["fields"])
    current = read_now(acting.machine, setting)
    state.remove(name)
    if not is_same(row, current, record["value"]):
        text = f"{full_name} is now {current}"
        raise End("changed", "changed-by-others", text, found=current)
    acting.log(f"confirmed {full_name} {current}")
    raise End("done", "done", "", found=current)


def guard(machine, file_system, is_over):
    """Revert overdue changes until none is pending and the writing program has ended."""
    while True:
        ended = is_over()
        if not put_back_due(machine, file_system) and ended:
            return
        machine.sleep(GUARD_TICK_S)


def put_back_due(machine, file_system):
    """Revert the changes not confirmed in time; return how many are still pending."""
    pending = 0
    for name in machine.state.names(file_system + ".pending."):
        with machine.state.locked(file_system + ".lock", LOCK_WAIT_S) as lock:
            text = machine.state.load(name)
            if text is None:
                continue
            record = json.loads(text)
            if record["boot"] != machine.boot():
                machine.state.remove(name)  # a restart lost the settings
            elif lock is None or machine.monotonic() < record["due_s"]:
                pending += 1
            else:
                put_back(machine, record)
                machine.state.remove(name)
    return pending


def put_back(machine, record):
    """Restore one old value, if the current one is still the one that was written."""
    about = "dead-man {}: {}".format(record["who"], record["name"])
    try:
        setting = name_of(record["row"], record["fields"])
        current = read_now(machine, setting)
        if not is_same(setting[0], current, record["value"]):
            machine.log(f"{about} reads {current}: left as it is")
            return
        machine.log("{} {} -> {}, not confirmed".format(about, current, record["before"]))
        result = write_setting(machine, setting, record["before"])
        end = outcome_of(machine, setting, record["before"], current, result)
        machine.log("{}: {} {}".format(about, end.answer["outcome"], end))
    except (End, NotInTable, OSError, PathRefused) as error:
        machine.log(f"{about}: not put back: {str(error)[:200]}")


# All of them -------------------------------------------------------------------------------------

_UNDER_LOCK = {
    "set": do_set,
    "restore": do_restore,
    "confirm": do_confirm,
    "changelog": do_changelog,
    "permanent": lambda acting, n, instruction: do_permanent(
        acting, n, instruction, own_name(acting.request, instruction)
    ),
}


class Acting:
    """A request in progress."""

    def __init__(self, request, machine, emit):
        self.request = request
        self.machine = machine
        self.emit = emit
        self.begun_s = machine.monotonic()
        self.guarded = None

    def left_s(self):
        """Return the time left, at least a moment."""
        spent_s = self.machine.monotonic() - self.begun_s
        return max(0.1, self.request["deadline_s"] - spent_s)

    def is_late(self):
        """Return whether the request's deadline has passed."""
        return self.machine.monotonic() - self.begun_s >= self.request["deadline_s"]

    def log(self, text):
        """Write to the system's log; the answer says whether every line was accepted."""
        about = "{file_system} token {token} {who}: ".format(**self.request)
        return self.machine.log(about + text)

    def announce(self, n, text):
        """Announce a write, in the log and in the answer."""
        self.emit({"n": n, "begun": True, "logged": self.log(text)})

    def check_fence(self):
        """End the instruction if a later token was seen; store its own if that is later."""
        state, name = self.machine.state, self.request["file_system"] + ".token"
        text = state.load(name)
        if text is not None and not re.fullmatch("[0-9]{1,18}\n?", text):
            raise End("refused", "fence-unreadable", "the token stored here is not a number")
        highest = int(text or 0)
        if self.request["token"] < highest:
            text = f"token {self.request['token']} is too old: {highest} was used here"
            raise End("refused", "fenced", text)
        if self.request["token"] > highest:
            state.store(name, str(self.request["token"]) + "\n")

    def pending_name(self, identifier):
        """Return the file name of a change that waits for confirmation."""
        if not isinstance(identifier, str) or not re.fullmatch(_ID, identifier):
            raise NotInTable("name-invalid", f"{shortened(identifier)} is not an id")
        return "{}.pending.{}".format(self.request["file_system"], identifier)

    def _pending(self, name):
        state = self.machine.state
        for pending in state.names(self.request["file_system"] + ".pending."):
            record = json.loads(state.load(pending) or "{}")
            if record.get("name") == name:
                yield pending, record

    def supersede(self, name):
        """Cancel the pending revert of a setting that is about to be written again."""
        for pending, _ in list(self._pending(name)):
            self.machine.state.remove(pending)

    def now_reads(self, name, value):
        """Record the value stored instead of the one written: that is the one to revert."""
        for pending, record in list(self._pending(name)):
            self.machine.state.store(pending, json.dumps(dict(record, value=value)))

    def arm(self, instruction, setting, before, value):
        """Store what to revert, and make sure that a process will do it."""
        machine, wait_s = self.machine, self.request["dead_man_s"]
        _, name = setting
        pending = self.pending_name(instruction.get("id"))
        record = {
            "row": instruction["row"],
            "fields": instruction["fields"],
            "name": name,
            "before": before,
            "value": value,
            "token": self.request["token"],
            "who": self.request["who"],
            "boot": machine.boot(),
            "due_s": machine.monotonic() + wait_s,
        }
        machine.state.store(pending, json.dumps(record))
        if self.guarded is None:
            name = self.request["file_system"]
            self.guarded = machine.detach(lambda is_over: guard(machine, name, is_over), wait_s)

    def end_of(self, n, instruction):
        """Carry out one instruction and return its end."""
        try:
            self._begin(n, instruction)
        except End as end:
            return end.answer
        except NotInTable as refusal:
            return {"outcome": "refused", "code": refusal.code, "detail": str(refusal)}
        except (OSError, PathRefused) as error:
            return {"outcome": "skipped", "code": "machine-unreadable", "detail": str(error)}
        raise AssertionError("an instruction must end with a result")

    def _begin(self, n, instruction):
        action = instruction.get("do") if isinstance(instruction, dict) else None
        if action not in _UNDER_LOCK and action != "trim":
            raise NotInTable("action-unknown", f"{shortened(action)} is not an action")
        place = instruction.get("place") or {}
        service = place.get("service") if isinstance(place, dict) else 0
        # The token belongs to one file system and says nothing about another's targets.
        prefix = self.request["file_system"] + "-"
        if service is not None and not (isinstance(service, str) and service.startswith(prefix)):
            raise NotInTable("name-invalid", f"{shortened(service)} belongs to another file system")
        if self.is_late():
            raise End("skipped", "deadline", "the deadline has passed")
        wait_s = min(LOCK_WAIT_S, self.left_s())
        with self.machine.state.locked(self.request["file_system"] + ".lock", wait_s) as lock:
            if lock is None:
                raise End("skipped", "busy", "another change is in progress here")
            self.check_fence()
            if action in _UNDER_LOCK:
                _UNDER_LOCK[action](self, n, instruction)
        do_trim(self, n, instruction)


def check_request(request):
    """Raise `NotInTable` for a malformed request."""
    for name, form in (("file_system", FIELDS["fs"]), ("who", _WHO)):
        if not isinstance(request.get(name), str) or not re.fullmatch(form, request[name]):
            raise NotInTable(
                "request-invalid", f"{shortened(request.get(name))} is not a valid {name}"
            )
    token = request.get("token")
    if isinstance(token, bool) or not isinstance(token, int) or not 0 < token < 10**18:
        raise NotInTable("request-invalid", f"{shortened(token)} is not a token")
    if request.get("sudo") not in (None, SUDO_WORDS):
        raise NotInTable("request-invalid", "only sudo -n may precede commands")
    if request.get("format") != ACT_FORMAT:
        raise NotInTable(
            "request-invalid", f"{shortened(request.get('format'))} is not the supported format"
        )
    # Without a dead-man a change stays.
    for seconds in (request.get("deadline_s"), request.get("dead_man_s") or 1):
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not (number and 0 < seconds <= LONGEST_S):
            raise NotInTable("request-invalid", f"{shortened(seconds)} is not a number of seconds")
    instructions = request.get("instructions")
    if not isinstance(instructions, list) or len(instructions) > INSTRUCTIONS_LIMIT:
        raise NotInTable("request-invalid", "instructions must be a list of limited length")


def carry_out(request, machine, emit):
    """Carry out a request; every line of the answer goes through ``emit``."""
    emit(dict(machine.identity(), act=ACT_FORMAT))
    try:
        check_request(request)
        machine.state.prepare()
    except NotInTable as refusal:
        emit({"over": True, "refused": refusal.code, "detail": str(refusal)})
        return
    except OSError as error:
        detail = f"{machine.state.directory}: {error.strerror}"
        emit({"over": True, "refused": "state-not-writable", "detail": detail})
        return
    acting = Acting(request, machine, emit)
    for n, instruction in enumerate(request["instructions"]):
        answer = acting.end_of(n, instruction)
        emit(dict(answer, n=n, ended=True))
        if answer["outcome"] != "done" and not request.get("go_on"):
            break
    emit({"over": True})


def _print(line):
    try:
        write_all(1, json.dumps(line, sort_keys=True).encode("ascii") + b"\n")
    except OSError as error:
        raise Cut from error


def act(text):
    """Carry out a request, JSON in a string, and end."""
    request = json.loads(text)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(TypeError, ValueError):
        signal.alarm(int(request.get("deadline_s") or 20) + ALARM_AFTER_S)
    machine = Machine(request.get("sudo"))
    os.set_blocking(1, True)
    with contextlib.suppress(Cut):
        carry_out(request, machine, _print)
    os._exit(0)
