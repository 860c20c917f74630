"""Collects a server's files and command outputs into one line of JSON. Reads, never writes.

This source is sent to a server, after that of `collector_tree`, on the standard input of ``python3
-I -S -``; it is not installed there. So both are self-contained: Python 3.6, standard library, no
other module of Trimtab; the import of the first half is removed. The last line sent is ``main(<the
request, JSON in a string>)``.

::

    main -+- reader (a forked child: a file that hangs costs this child, not the answer)
          +- lctl get_param ...   } each in a session of its own, with its own deadline,
          +- nvme smart-log ...   } a few at a time
          +--> one line of JSON, then os._exit: no child is waited for
"""

# ruff: noqa: PTH119, PTH208
# Importing pathlib takes longer than running all of this.

import contextlib
import json
import mmap
import os
import re
import select
import signal
import sys
import time

from trimtab.reach.lustre.collector_tree import LISTED, ServerTree, as_text, read_to_end, records

FORMAT = 1
STDERR_LIMIT_BYTES = 1 << 16
EACH_LIMIT = 512
JOBS_AT_ONCE = 4
STALL_S = 3.0
"""A file of /proc or /sys is read in microseconds, on a busy server within a second."""
RESTARTS_LIMIT = 8
GRACE_S = 0.5
HUNG_S = 300.0
HUNG_LIMIT = 8
"""A tool that hangs in the kernel stays until the server restarts; one more every hour would become
thousands. With this many of one name hanging, no more are started."""
ALARM_S = 30
"""Time after the deadline at which the kernel kills a collector that is still running."""


def commands_of(request, tree, euid):
    """Return the commands to run, with ``each`` expanded and sudo prepended."""
    unfolded = []
    for requested in request.get("commands") or ():
        command = dict(requested, program=os.path.basename(requested["argv"][0]))
        before = list(request.get("sudo") or ()) if requested.get("sudo") and euid != 0 else []
        if not command.get("each"):
            unfolded.append(dict(command, argv=before + list(command["argv"])))
            continue
        wanted = re.compile(command.get("match") or ".*", re.DOTALL)
        matches = [
            path
            for path in tree.expand(command["each"])
            if wanted.fullmatch(os.path.basename(path)) and LISTED.match(path)
        ]
        for path in matches[:EACH_LIMIT]:
            words = {"{}": path, "{name}": os.path.basename(path)}
            argv = [words.get(word, word) for word in command["argv"]]
            unfolded.append(dict(command, argv=before + argv))
    return unfolded


class KeptLines:
    """Filters the lines of a command's output as it arrives, up to a size limit."""

    def __init__(self, command, limit_bytes):
        self.keep = re.compile(command["keep"]) if command.get("keep") else None
        self.first_line = None
        self.wants_first = bool(command.get("first_line"))
        self.limit_bytes = limit_bytes
        self.text = []
        self.kept_bytes = 0
        self.truncated = False
        self._rest = b""
        self._overlong = False

    def feed(self, chunk):
        """Add more output."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            # The end of a line whose start was dropped is not a line.
            if not self._overlong:
                self._line(line + b"\n")
            self._overlong = False
        if len(self._rest) > self.limit_bytes:
            self.truncated = self._overlong = True
            self._rest = b""

    def finish(self, whole):
        """Add the text after the last line feed, unless the command was stopped there."""
        if whole and self._rest and not self._overlong:
            self._line(self._rest)
        self._rest = b""

    def _line(self, content):
        text = as_text(content)
        if self.wants_first and self.first_line is None:
            self.first_line = text.rstrip("\n")
        if self.truncated or (self.keep is not None and not self.keep.search(text)):
            return
        self.kept_bytes += len(content)
        if self.kept_bytes > self.limit_bytes:
            self.truncated = True
            return
        self.text.append(text)


# Running -----------------------------------------------------------------------------------------


class ToolJob:
    """A forked child with pipes: starts, reads, stops and, at worst, abandons it."""

    def __init__(self, timeout_s):
        self.timeout_s = timeout_s
        self.pid = 0
        self.pipes = {}
        self.began_s = self.ended_s = 0.0
        self.over = False
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.timed_out = False
        self.stopping_s = None
        self.killed = False

    def start(self, names):
        """Fork; the child runs `work` with the write ends and never returns."""
        pairs = [(name, os.pipe()) for name in names]
        self.began_s = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            code = 126
            try:
                os.setsid()
                code = self.work({name: ends[1] for name, ends in pairs})
            finally:
                os._exit(code)
        for name, (reading, writing) in pairs:
            os.close(writing)
            os.set_blocking(reading, False)
            self.pipes[reading] = name

    def work(self, ends) -> int:
        """Do the child's work and return its exit code."""
        return 0

    def take(self, name, chunk):
        """Handle a chunk of the child's output."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of its output that count towards the answer's size limit for commands."""
        return 0

    def read(self, descriptor):
        """Read one pipe until it is empty for now."""
        while descriptor in self.pipes:
            try:
                chunk = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                os.close(descriptor)
                del self.pipes[descriptor]
                return
            self.take(self.pipes[descriptor], chunk)

    def step(self, now_s):
        """Check on the child; return whether it has ended or was abandoned."""
        if now_s - self.began_s >= self.timeout_s and self.stopping_s is None:
            self.timed_out = True
            self.stop(now_s)
        if self.stopping_s is not None and now_s - self.stopping_s >= GRACE_S and not self.killed:
            self.killed = True
            kill_session(self.pid)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            if self.stopping_s is None or now_s - self.stopping_s < 2 * GRACE_S:
                return False
        else:
            self.over = True
            if os.WIFSIGNALED(status):
                self.signal = os.WTERMSIG(status)
            else:
                self.exit_code = os.WEXITSTATUS(status)
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self.ended_s = now_s
        for descriptor in list(self.pipes):
            self.read(descriptor)
        self.leave()
        return True

    def stop(self, now_s):
        """Ask the child to end; `step` kills it if it does not."""
        self.stopping_s = now_s
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGTERM)

    def leave(self):
        """Close the pipes, even if other processes hold their write ends."""
        for descriptor in self.pipes:
            os.close(descriptor)
        self.pipes = {}


class RunningTool(ToolJob):
    """A command of the request."""

    def __init__(self, command, timeout_s, limit_bytes):
        ToolJob.__init__(self, timeout_s)
        self.command = command
        self.lines = KeptLines(command, limit_bytes)
        self.stderr = b""
        self.error = ""

    def work(self, ends):
        """Execute the command; if it cannot start, write the reason to a separate pipe."""
        try:
            os.dup2(self.input(), 0)
            os.dup2(ends["stdout"], 1)
            os.dup2(ends["stderr"], 2)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.chdir("/")
            os.execvpe(self.command["argv"][0], self.command["argv"], environment())
        except OSError as error:
            os.write(ends["error"], os.strerror(error.errno or 0).encode("ascii", "replace"))
        return 127

    def input(self):
        """Return a descriptor for the command's standard input: empty."""
        return os.open("/dev/null", os.O_RDONLY)

    def take(self, name, chunk):
        """Keep the requested lines of the output."""
        if name == "stdout":
            self.lines.feed(chunk)
            if self.lines.truncated and self.stopping_s is None:
                self.stop(time.monotonic())
        elif name == "stderr":
            self.stderr = (self.stderr + chunk)[:STDERR_LIMIT_BYTES]
        else:
            self.error += as_text(chunk)

    @property
    def kept_bytes(self) -> int:
        """See `ToolJob`."""
        return self.lines.kept_bytes

    def answer(self):
        """Return the command's result, for the answer."""
        self.lines.finish(whole=self.over and self.stopping_s is None)
        return {
            "key": self.command.get("key"),
            "argv": self.command["argv"],
            "stdout": "".join(self.lines.text),
            "stderr": as_text(self.stderr),
            "exit_code": None if self.error else self.exit_code,
            "signal": self.signal,
            "timed_out": self.timed_out,
            "truncated": self.lines.truncated,
            "elapsed_s": round(self.ended_s - self.began_s, 6),
            "first_line": self.lines.first_line,
            "error": self.error or None,
        }


class Reader(ToolJob):
    """The child that reads the files; restarted after a file that does not answer."""

    def __init__(self, request, tree, answer, timeout_s):
        ToolJob.__init__(self, timeout_s)
        self.request, self.tree, self.answer = request, tree, answer
        self.limit_bytes = request.get("limit_bytes") or (64 << 20)
        # The child's position (number and path), shared so that it is visible even if it hangs.
        self.place = mmap.mmap(-1, 8192)
        self.begin = 0
        self.restarts = 0
        self.moved: tuple[bytes | None, float] = (None, time.monotonic())
        self._rest = b""

    def work(self, ends):
        """Read everything and write a line of JSON for each."""
        signal.alarm(int(self.timeout_s) + ALARM_S)
        # Close it: a child that cannot be killed must not hold the answer's pipe open.
        for number in (0, 1, 2):
            os.dup2(os.open("/dev/null", os.O_RDONLY), number)
        for record in records(self.request, self.tree, self.begin, self.progress):
            write_all(ends["records"], json.dumps(record).encode("ascii") + b"\n")
        write_all(ends["records"], b'["end"]\n')
        return 0

    def progress(self, number, path):
        """Record the child's position."""
        name = path.encode("utf-8", "surrogateescape")[:4096]
        self.place[0:16] = b"%8d%8d" % (number, len(name))
        self.place[16 : 16 + len(name)] = name

    def take(self, name, chunk):
        """Add records to the answer."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            record = json.loads(line.decode("ascii"))
            if record == ["end"]:
                self.answer["read"] = True
            elif record[0] == "skipped":
                self.answer["skipped"].append(record[1:])
            elif len(line) > self.limit_bytes:
                self.answer["skipped"].append([record[1], "the answer reached its size limit"])
            else:
                self.limit_bytes -= len(line)
                self.answer[record[0]][record[1]] = record[2]

    def step(self, now_s):
        """As `ToolJob.step`, and restart the child if it hangs on a file."""
        place = bytes(self.place[0:16])
        if place != self.moved[0]:
            self.moved = (place, now_s)
        over = ToolJob.step(self, now_s)
        if self.answer["read"] or not (over or now_s - self.moved[1] >= STALL_S):
            return over
        number, length = (int(place[i : i + 8].strip(b"\0 ") or b"0") for i in (0, 8))
        path = as_text(bytes(self.place[16 : 16 + length]))
        if not over:
            kill_session(self.pid)
            for descriptor in list(self.pipes):
                self.read(descriptor)
            self.leave()
        late = self.timed_out or self.restarts >= RESTARTS_LIMIT
        waited = "did not answer in %g s" % (now_s - self.moved[1]) if not over else "was not read"
        self.answer["skipped"].append([path, f"{path} {waited}"])
        if late:
            self.answer["skipped"].append(["", f"files after {path} were not read in time"])
            return True
        self.restarts += 1
        self.begin, self._rest = number + 1, b""
        self.timeout_s -= now_s - self.began_s
        self.moved = (None, now_s)
        self.start(["records"])
        return False


def environment():
    """Return the environment of commands: C locale, UTC, and the PATH of a server's tools."""
    path = os.environ.get("PATH") or "/usr/bin:/bin"
    return dict(os.environ, LC_ALL="C", TZ="UTC", PATH=path + ":/usr/sbin:/sbin:/usr/local/sbin")


def kill_session(session):
    """Send SIGKILL to every process of a session that we may signal."""
    with contextlib.suppress(OSError):
        os.killpg(session, signal.SIGKILL)
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if os.getsid(int(name)) == session:
                    os.kill(int(name), signal.SIGKILL)


def hanging():
    """Count, by name, the processes that have been blocked in the kernel for minutes.

    Reads ``/proc/PID/stat``, which never blocks; reading the command line of a hanging process may
    hang too.
    """
    counts = {}
    tick = os.sysconf("SC_CLK_TCK")
    with contextlib.suppress(OSError, ValueError, IndexError):
        up_s = float(own_text("/proc/uptime").split()[0])
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                before, _, after = own_text("/proc/" + name + "/stat").rpartition(")")
                fields = after.split()
                # Lustre also waits in state I (idle), proc_pid_stat(5).
                if fields[0] in ("D", "I") and up_s - int(fields[19]) / tick >= HUNG_S:
                    program = before.partition("(")[2]
                    counts[program] = counts.get(program, 0) + 1
    return counts


def own_text(path):
    """Return the text of a short file, which need not be on the list of allowed ones."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return as_text(read_to_end(descriptor, 1 << 16) or b"")
    finally:
        os.close(descriptor)


def write_all(descriptor, content):
    """Write everything, also in several short writes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def run_jobs(request, tree, answer, end_s):
    """Run the reader and the commands, a few at a time, and add their output to the answer."""
    budget_bytes = request.get("limit_bytes") or (64 << 20)
    hung = hanging()
    running: list[ToolJob] = []
    own_name = os.path.basename(os.path.realpath(sys.executable or "python3"))
    if hung.get(own_name[:15], 0) < HUNG_LIMIT:
        running.append(Reader(request, tree, answer, max(0.1, end_s - time.monotonic())))
        running[0].start(["records"])
    else:
        answer["skipped"].append(["", f"{HUNG_LIMIT} or more {own_name} hang: no file was read"])
    waiting = commands_of(request, tree, os.geteuid())
    commands = []
    try:
        while waiting or running:
            now_s = time.monotonic()
            while waiting and len(running) < JOBS_AT_ONCE:
                command = waiting.pop(0)
                words = " ".join(command["argv"])
                many = hung.get(command["program"][:15], 0)
                if many >= HUNG_LIMIT:
                    why = f"{many} {command['program']} already hang there: no more are started"
                    answer["skipped"].append([words, why])
                    continue
                if now_s >= end_s:
                    answer["skipped"].append([words, f"{words[:200]} was not started in time"])
                    continue
                limit_bytes = min(command.get("limit_bytes") or budget_bytes, max(budget_bytes, 0))
                timeout_s = min(command.get("timeout_s") or end_s, end_s - now_s)
                job = RunningTool(command, timeout_s, limit_bytes)
                job.start(["stdout", "stderr", "error"])
                commands.append(job)
                running.append(job)
            wait_for(running)
            for job in list(running):
                if job.step(time.monotonic()):
                    running.remove(job)
                    budget_bytes -= job.kept_bytes
                    again = without_sudo(job, commands, request, answer)
                    if again is not None:
                        waiting.append(again)
    finally:
        # Even after a failure: keep what has arrived.
        answer["commands"] = [job.answer() for job in commands if job.ended_s]
        for job in running:
            kill_session(job.pid)


def without_sudo(job, commands, request, answer):
    """Return a command that sudo refused, to run without sudo; ``None`` for all others.

    sudo compares complete commands, so after an upgrade of one side only it refuses. Most of the
    request needs no rights: the site must not lose its view for that.
    """
    before = list(request.get("sudo") or ())
    if job not in commands or not before:
        return None
    end = job.answer()
    refused = end["exit_code"] == 1 and not end["stdout"] and end["stderr"].startswith("sudo:")
    if end["argv"][: len(before)] != before or not refused:
        return None
    commands.remove(job)
    words = " ".join(end["argv"])
    why = end["stderr"].splitlines()[0][:160]
    answer["skipped"].append([words, words[:60] + " ...: " + why + "; run without it"])
    return dict(job.command, argv=end["argv"][len(before) :])


def wait_for(jobs):
    """Wait briefly for output of any child, and handle it."""
    poller = select.poll()
    owners = {}
    for job in jobs:
        for descriptor in job.pipes:
            poller.register(descriptor, select.POLLIN)
            owners[descriptor] = job
    # A child that closed its pipes is about to end; check those with open pipes, too.
    silent = any(not job.pipes for job in jobs)
    for descriptor, _ in poller.poll(1 if silent else 20):
        owners[descriptor].read(descriptor)


def collect(request):
    """Return the answer to a request."""
    began_s = time.monotonic()
    answer = {
        "format": FORMAT,
        "host": os.uname().nodename,
        "euid": os.geteuid(),
        "started": round(time.time(), 6),
        "elapsed_s": 0.0,
        "files": {},
        "links": {},
        "directories": {},
        "times": {},
        "commands": [],
        "skipped": [],
        "read": False,
    }
    try:
        run_jobs(request, ServerTree(), answer, began_s + (request.get("deadline_s") or 20.0))
    except Exception as error:  # noqa: BLE001 (whatever it is, the rest must arrive)
        answer["skipped"].append(["", f"the collector failed: {type(error).__name__}: {error}"])
    del answer["read"]
    answer["elapsed_s"] = round(time.monotonic() - began_s, 6)
    answer["end"] = True
    return answer


def main(text):
    """Print the answer to a request in one line, and exit without waiting for any child."""
    request = json.loads(text)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(request.get("deadline_s") or 20) + ALARM_S)
    line = json.dumps(collect(request), separators=(",", ":"))
    with contextlib.suppress(BrokenPipeError):
        os.set_blocking(1, True)
        write_all(1, line.encode("ascii") + b"\n")
    os._exit(0)
