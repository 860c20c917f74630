"""The writing program's access to a machine: files, tools, log and stored state.

This source is sent to a server after those of `collector_tree`, `collector` and `write_table`, and
is as self-contained: Python 3.6, standard library, no other module of Trimtab.

::

    /var/lib/trimtab-act/FS.token       the highest fencing token seen on this machine
                         FS.before.*    the value before a target was closed, until it is opened
                         FS.pending.*   what is reverted unless it is confirmed in time
                         FS.lock        held from the precondition to the read-back
                         trim.lock      held while a target is trimmed, by fstrim too
"""

# ruff: noqa: PTH103, PTH104, PTH108, PTH116, PTH208
# As in the collector: importing pathlib takes longer than running all of this.

import contextlib
import errno
import fcntl
import json
import os
import re
import socket
import stat
import time

from trimtab.reach.lustre.collector import RunningTool, ToolJob, hanging, wait_for, write_all
from trimtab.reach.lustre.collector_tree import ServerTree, as_text
from trimtab.reach.lustre.write_table import SUDO_WORDS, NotInTable, shortened, tee_words

STATE_DIRECTORY = "/var/lib/trimtab-act"
WRITTEN = re.compile(r"/sys/(?:devices|class/block|fs/ldiskfs)/|/proc/fs/ldiskfs/")
KEPT_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}")
OUTPUT_LIMIT_BYTES = 1 << 16
SYSLOG_PRIORITY = 85
"""authpriv.notice, which sudo uses too."""
LOCK_TICK_S = 0.05


class WriterState:
    """The writing program's state on a machine: small files in its own directory."""

    def __init__(self, directory):
        self.directory = directory

    def prepare(self):
        """Create the directory; raise `OSError` if it cannot be used."""
        with contextlib.suppress(FileExistsError):
            os.makedirs(self.directory, 0o700)
        if os.lstat(self.directory).st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "belongs to another user", self.directory)
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.directory)

    def _path(self, name):
        if not KEPT_NAME.fullmatch(name):
            raise NotInTable("name-invalid", f"{shortened(name)} is not a name of stored state")
        return self.directory + "/" + name

    def load(self, name):
        """Return the text stored under a name, ``None`` if there is none."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            return as_text(os.read(descriptor, 1 << 16))
        finally:
            os.close(descriptor)

    def store(self, name, text):
        """Store a text under a name; it is on disk when this returns."""
        path = self._path(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path + ".new", flags, 0o600)
        try:
            write_all(descriptor, text.encode("ascii"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(path + ".new", path)
        self._sync()

    def remove(self, name):
        """Remove the text stored under a name."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))
            self._sync()

    def _sync(self):
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def names(self, beginning):
        """Return the names that start with ``beginning``."""
        return sorted(
            name
            for name in os.listdir(self.directory)
            if name.startswith(beginning) and not name.endswith(".new")
        )

    @contextlib.contextmanager
    def locked(self, name, wait_s):
        """Hold a lock inside the block; yield its descriptor, ``None`` if it is taken."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path(name), flags, 0o600)
        try:
            end_s = time.monotonic() + wait_s
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= end_s:
                        yield None
                        return
                    time.sleep(LOCK_TICK_S)
                else:
                    yield descriptor
                    return
        finally:
            os.close(descriptor)


class Fed(RunningTool):
    """A command with input, which holds a lock as long as it lives."""

    def __init__(self, argv, timeout_s, text, lock):
        RunningTool.__init__(self, {"argv": argv}, timeout_s, OUTPUT_LIMIT_BYTES)
        self.text = text
        self.lock = lock

    def input(self):
        """See `RunningTool`."""
        if self.lock is not None:
            os.set_inheritable(self.lock, True)
        if self.text is None:
            return RunningTool.input(self)
        reading, writing = os.pipe()
        write_all(writing, self.text.encode("ascii"))
        os.close(writing)
        return reading


class Doing(ToolJob):
    """A call that may hang in the kernel, run in a child; returns its value or errno."""

    def __init__(self, call, timeout_s):
        ToolJob.__init__(self, timeout_s)
        self.call = call
        self.result = b""

    def work(self, ends):
        """Make the call."""
        for number in (0, 1, 2):
            os.dup2(os.open("/dev/null", os.O_RDONLY), number)
        try:
            value, number = self.call(), 0
        except OSError as error:
            value, number = None, error.errno or errno.EIO
        write_all(ends["result"], json.dumps([value, number]).encode("ascii"))
        return 0

    def take(self, name, chunk):
        """Handle a chunk of the result."""
        self.result += chunk


def run_to_end(job, names):
    """Run a child until it has ended or was abandoned."""
    job.start(names)
    while not job.step(time.monotonic()):
        wait_for([job])


class Machine:
    """The machine that this program runs on."""

    def __init__(self, sudo=None):
        self.tree = ServerTree()
        self.state = WriterState(STATE_DIRECTORY)
        self.sudo = list(SUDO_WORDS) if sudo and os.geteuid() != 0 else []

    def identity(self):
        """Return the machine's host name and this program's user."""
        return {"host": os.uname().nodename, "euid": os.geteuid(), "started": time.time()}

    def monotonic(self):
        """Return seconds since boot, the same for all processes."""
        return time.monotonic()

    def boot(self):
        """Return the id of the current boot."""
        return self.text("/proc/sys/kernel/random/boot_id", 5.0).strip()

    def hanging(self, program):
        """Return how many processes of that name have been blocked in the kernel for minutes."""
        return hanging().get(program, 0)

    def _done(self, call, path, timeout_s):
        job = Doing(call, timeout_s)
        run_to_end(job, ["result"])
        if not job.result:
            raise TimeoutError(errno.ETIMEDOUT, f"did not answer in {timeout_s:g} s", path)
        value, number = json.loads(job.result.decode("ascii"))
        if number:
            raise OSError(number, os.strerror(number), path)
        return value

    def text(self, path, timeout_s):
        """Return the text of a file of ``/proc`` or ``/sys``."""
        return self._done(lambda: ServerTree().text(path), path, timeout_s)

    def real(self, path):
        """Return a path with every link resolved."""
        return self.tree.real(path)

    def names(self, path):
        """Return the names in a directory, none if it cannot be listed."""
        return ServerTree().names(path)

    def leads_to(self, mount_point, source, timeout_s):
        """Return what a mount point leads to now, and the device number of its source.

        Returns
        -------
        list
            The mount's own number in ``/proc/self/mountinfo``; ``major:minor`` according to stat;
            ``major:minor`` of the source. ``None`` for unknown ones.
        """
        return self._done(lambda: _leads_to(mount_point, source), mount_point, timeout_s)

    def run(self, argv, timeout_s, *, rights=False, text=None, lock=None):
        """Run a command and return its result, in the form of the collector's answers."""
        job = Fed((self.sudo if rights else []) + argv, timeout_s, text, lock)
        run_to_end(job, ["stdout", "stderr", "error"])
        return job.answer()

    def write(self, path, value, timeout_s):
        """Write a file of the table; return as `run`, with the errno as exit code."""
        if self.sudo:
            return self.run(tee_words(path), timeout_s, rights=True, text=value + "\n")
        job = Doing(lambda: self._write(path, value), timeout_s)
        run_to_end(job, ["result"])
        timed_out = not job.result
        number = errno.ETIMEDOUT if timed_out else json.loads(job.result.decode("ascii"))[1]
        return {
            "exit_code": None if timed_out else number,
            "stderr": os.strerror(number) if number else "",
            "timed_out": timed_out,
            "error": None,
        }

    def _write(self, path, value):
        directory, name = os.path.split(path)
        real = ServerTree().real(directory) + "/" + name
        if WRITTEN.match(real) is None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        flags = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(real, flags)
        try:
            os.write(descriptor, value.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)

    def log(self, text):
        """Send a line to the system's log; return whether it was accepted."""
        line = f"<{SYSLOG_PRIORITY}>trimtab[{os.getpid()}]: {text}"
        log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            log.settimeout(1.0)
            log.connect("/dev/log")
            log.send(line.encode("ascii", "replace")[:2000])
        except OSError:
            return False
        finally:
            log.close()
        return True

    def detach(self, work, lasts_s):
        """Run ``work(is_over)`` in a process that outlives this one and its connection.

        ``is_over()`` returns whether this one has ended.
        """
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(reading)
            os.waitpid(child, 0)
            return writing  # open as long as this process lives
        with contextlib.suppress(BaseException):
            os.setsid()
            if os.fork() == 0:
                _be_daemon(reading)
                os.set_blocking(reading, False)
                work(lambda: _is_closed(reading))
        os._exit(0)

    def sleep(self, seconds):
        """Sleep for that many seconds."""
        time.sleep(seconds)


def _leads_to(mount_point, source):
    # O_PATH only: a user may not open the directory of a Lustre target.
    descriptor = os.open(mount_point, os.O_PATH | os.O_CLOEXEC)
    info = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    mount = re.search(r"^mnt_id:\s*([0-9]+)$", as_text(os.read(info, 1 << 12)), re.MULTILINE)
    device = None
    with contextlib.suppress(OSError):  # a ZFS dataset, or a name that no longer exists
        status = os.stat(source)
        device = _number(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None
    return [mount and mount.group(1), _number(os.fstat(descriptor).st_dev), device]


def _number(device):
    return f"{os.major(device)}:{os.minor(device)}"


def _be_daemon(pipe):
    """Close all descriptors, and ignore signals that end a session."""
    import resource  # here, because only this process needs it
    import signal

    signal.alarm(0)
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    highest = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, highest)


def _is_closed(descriptor):
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False
