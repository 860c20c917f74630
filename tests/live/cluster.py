"""The file system as ``lctl``, ``lfs`` and the kernel show it: the witness of every row.

Nothing here imports Trimtab. Commands run as root on this client and, over ssh, on the servers.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.live.running import Wrong

_SERVICE: Final = re.compile(r"svname=([A-Za-z0-9_-]{1,8}-(?:OST|MDT)[0-9a-f]{4})")
_SETTABLE: Final = re.compile(r"^(\S+)=$", re.MULTILINE)
_STARTED: Final = 900.0
"""Seconds that a server may take to come back, and its clients to recover."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """A target where a server has mounted it: ``OST0001``, its device and its directory."""

    name: str
    server: str
    device: str
    point: str

    @property
    def index(self) -> int:
        """The number in its name."""
        return int(self.name[3:], 16)


def servers_of(nodes: str) -> list[str]:
    """Return the names in a node set of one bracket: ``oss[1-2]``, ``oss1,oss2``."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", nodes):
        beginning, _, numbers = part.rstrip("]").partition("[")
        for piece in numbers.split(",") if numbers else ():
            first, _, last = piece.partition("-")
            places = range(int(first), int(last or first) + 1)
            names += [f"{beginning}{number:0{len(first)}d}" for number in places]
        names += [] if numbers else [beginning]
    return names


class Cluster:
    """A Lustre: its client here, and its servers behind ``ssh``.

    Parameters
    ----------
    ssh
        Words to which ``HOST COMMAND`` is appended; the command runs as root.
    """

    def __init__(self, name: str, path: Path, servers: Sequence[str], ssh: Sequence[str]) -> None:
        self.name = name
        self.path = path
        self.servers = tuple(dict.fromkeys(servers))
        self._ssh = tuple(ssh)
        self.second_client: str | None = None
        self.home: Mapping[str, Mounted] = {}

    # ---- commands -------------------------------------------------------------------------------

    def here(self, *argv: str, timeout_s: float = 120.0, code: int | None = 0) -> str:
        """Return what a command prints on this client; raise where it ends with another code."""
        return self._run(argv, argv, timeout_s, code)

    def forget(self) -> None:
        """Make this client ask again for attributes: those that it kept can be a second old."""
        self.here("lctl", "set_param", "ldlm.namespaces.*-mdc-*.lru_size=clear")
        self.here("sysctl", "-qw", "vm.drop_caches=3")

    def on(self, server: str, *argv: str, timeout_s: float = 120.0, code: int | None = 0) -> str:
        """Return what a command prints on a server, as root."""
        return self._run(self.words_on(server, argv), argv, timeout_s, code)

    def words_on(self, node: str | None, argv: Sequence[str]) -> list[str]:
        """Return the words that run a command on a node, ``None``: here."""
        return list(argv) if node is None else [*self._ssh, node, shlex.join(argv)]

    def _run(
        self, argv: Sequence[str], words: Sequence[str], timeout_s: float, code: int | None
    ) -> str:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout_s,
            check=False,
        )
        if code is not None and done.returncode != code:
            raise Wrong(
                f"the witness could not {shlex.join(words)[:200]}: exit code {done.returncode}: "
                f"{done.stderr.strip()[-300:]}"
            )
        return done.stdout

    def until(self, holds: Callable[[], object], text: str, timeout_s: float = _STARTED) -> None:
        """Wait until something holds; raise `Wrong` with a text when it never does."""
        end_s = time.monotonic() + timeout_s
        while True:
            try:
                if holds():
                    return
            except (Wrong, subprocess.TimeoutExpired):
                pass
            if time.monotonic() > end_s:
                raise Wrong(f"{text}, not in {timeout_s:.0f} s")
            time.sleep(3.0)

    # ---- targets --------------------------------------------------------------------------------

    def mounted(self) -> dict[str, Mounted]:
        """Return every target that a server has mounted now."""
        targets = {}
        for server in self.servers:
            for line in self.on(server, "cat", "/proc/self/mountinfo").splitlines():
                before, _, after = line.partition(" - ")
                kind, source, options = after.split(" ", 2)
                service = _SERVICE.search(options)
                if kind == "lustre" and service and service[1].startswith(f"{self.name}-"):
                    name = service[1].rpartition("-")[2]
                    targets[name] = Mounted(name, server, source, before.split()[4])
        return targets

    def target(self, name: str) -> Mounted:
        """Return a target where it was mounted at the start of the run."""
        return self.home[name]

    @property
    def osts(self) -> list[Mounted]:
        """The OSTs, by their index."""
        return self._of("OST")

    @property
    def mdts(self) -> list[Mounted]:
        """The MDTs, by their index."""
        return self._of("MDT")

    def _of(self, kind: str) -> list[Mounted]:
        targets = (one for one in self.home.values() if one.name.startswith(kind))
        return sorted(targets, key=lambda one: one.index)

    def forget_other_stores(self) -> None:
        """Let a new store act here: machines refuse one whose tokens are below those they saw."""
        token = f"/var/lib/trimtab-act/{self.name}.token"
        for server in self.servers:
            self.on(server, "rm", "-f", token)
        self.here("rm", "-f", token)

    def put_back(self) -> None:
        """Mount every target that is not mounted, and wait until this client reaches all."""
        lacking = set(self.home) - set(self.mounted())
        for name in sorted(lacking):
            self.start(name)
        self.wait_for_client()

    def stop(self, name: str) -> None:
        """Unmount a target on its server."""
        target = self.target(name)
        self.on(target.server, "umount", target.point, timeout_s=_STARTED)

    def start(self, name: str) -> None:
        """Mount a target on its server."""
        target = self.target(name)
        words = ("mount", "-t", "lustre", target.device, target.point)
        self.on(target.server, *words, timeout_s=_STARTED)

    def wait_for_client(self) -> None:
        """Wait until this client is connected to every target."""

        def connected() -> bool:
            states = self.here("lctl", "get_param", "-n", "osc.*.state", "mdc.*.state")
            current = re.findall(r"current_state: (\w+)", states)
            return len(current) == len(self.home) and set(current) <= {"FULL", "IDLE"}

        self.until(connected, "this client reaches every target again")

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Have a target unmounted inside the block."""
        self.stop(name)
        try:
            yield
        finally:
            self.start(name)
            self.wait_for_client()

    @contextmanager
    def filled(self, name: str, fullness: float) -> Iterator[Path]:
        """Have an OST as full as that inside the block, by one file that is allocated there."""
        directory = self.path / ".live-fill"
        directory.mkdir(exist_ok=True)
        file = directory / name
        if file.exists():  # of a run that was killed
            file.unlink()
            self.until(lambda: self.fullness(name) < fullness / 2, f"{name} is empty", 300.0)
        self.until(lambda: self.placed_on(file, name), f"{name} takes new files", 300.0)
        try:
            time.sleep(5.0)  # what a server tells of its space is a moment old
            used, available = self.space()[name]
            size = int(((used + available) * fullness - used) // 1024 * 1024)
            self.here("fallocate", "-l", str(size), str(file), timeout_s=600.0)
            self.until(
                lambda: self.fullness(name) > fullness - 0.02,
                f"{name} is as full as it was made",
                60.0,
            )
            yield file
        finally:
            file.unlink(missing_ok=True)
            self.until(lambda: self.fullness(name) < fullness / 2, f"{name} is empty again", 300.0)

    def placed_on(self, file: Path, name: str) -> bool:
        """Make a new file of one stripe on an OST; return whether that is where it is.

        On one that takes no new files an explicit index leads elsewhere, without an error.
        """
        file.unlink(missing_ok=True)
        index = str(self.target(name).index)
        self.here("lfs", "setstripe", "-c", "1", "-i", index, str(file))
        return self.stripes(file) == [name]

    @contextmanager
    def read_only(self, name: str) -> Iterator[None]:
        """Have ldiskfs turn a target read-only inside the block, as after a bad block.

        Afterwards its server is reset, the target checked with ``e2fsck`` and mounted.
        """
        target = self.target(name)
        device = self.block_device(target)
        self.write_file(
            target.server, f"/sys/fs/ldiskfs/{device}/trigger_fs_error", "made by a test"
        )
        try:
            yield
        finally:
            self.crash(target.server)
            self.on(target.server, "umount", target.point, timeout_s=_STARTED, code=None)
            self.on(target.server, "e2fsck", "-fy", target.device, timeout_s=_STARTED, code=None)
            self.put_back()

    def crash(self, server: str) -> None:
        """Reset a server without warning, and wait until all its targets are mounted again."""
        boot = self.boot_of(server)
        with suppress(Wrong, subprocess.TimeoutExpired):  # the connection ends with the machine
            self.write_file(server, "/proc/sysrq-trigger", "b", timeout_s=20.0)
        self.until(lambda: self.boot_of(server) != boot, f"{server} has started again")
        served = {name for name, target in self.home.items() if target.server == server}
        try:
            text = f"{server} has mounted its targets"
            self.until(lambda: served <= set(self.mounted()), text, 180.0)
        except Wrong:
            self.put_back()

    def boot_of(self, server: str) -> str:
        """Return what names this start of a server."""
        path = "/proc/sys/kernel/random/boot_id"
        return self.on(server, "cat", path, timeout_s=30.0).strip()

    def write_file(self, server: str, path: str, value: str, timeout_s: float = 60.0) -> None:
        """Write a value into a file of a server."""
        script = 'printf "%s\\n" "$2" > "$1"'
        self.on(server, "sh", "-c", script, "sh", path, value, timeout_s=timeout_s)

    def block_device(self, target: Mounted) -> str:
        """Return the kernel's name of a target's device."""
        return self.on(target.server, "readlink", "-f", target.device).strip().rpartition("/")[2]

    @contextmanager
    def days_ago(self, days: int) -> Iterator[None]:
        """Have the clocks of all nodes so many days back inside the block.

        A client gives a file its times, and an MDS stamps the time of change when it is closed.
        """
        self._turn_clocks(-days)
        try:
            yield
        finally:
            self._turn_clocks(days)

    def _turn_clocks(self, days: int) -> None:
        code = f"import time; time.clock_settime(time.CLOCK_REALTIME, time.time() + {days * 86400})"
        for server in self.servers:
            self.on(server, "python3", "-c", code)
        self.here("python3", "-c", code)

    # ---- what tools say -------------------------------------------------------------------------

    def versions(self) -> dict[str, str]:
        """Return the versions of Lustre and the kernel on the client and its servers."""
        nodes: list[str | None] = [None, *self.servers]
        lustre = {self.parameter(node, "version").split()[-1] for node in nodes}
        kernel = {
            (self.here("uname", "-r") if node is None else self.on(node, "uname", "-r")).strip()
            for node in nodes
        }
        return {"lustre": ", ".join(sorted(lustre)), "kernel": ", ".join(sorted(kernel))}

    def space(self) -> dict[str, tuple[int, int]]:
        """Return used and available bytes of each target, by ``lfs df``."""
        text = self.here("lfs", "df", "-l", str(self.path), timeout_s=300.0, code=None)
        rows = re.findall(rf"^{self.name}-(\w+)_UUID +\d+ +(\d+) +(\d+)", text, re.MULTILINE)
        return {name: (int(used) * 1024, int(free) * 1024) for name, used, free in rows}

    def fullness(self, name: str) -> float:
        """Return used / (used + available) of a target."""
        used, available = self.space()[name]
        return used / (used + available)

    def parameter(self, server: str | None, name: str) -> str:
        """Return one parameter's value, ``None``: of this client."""
        words = ("lctl", "get_param", "-n", name)
        return (self.here(*words) if server is None else self.on(server, *words)).strip()

    def set_parameter(self, server: str, name: str, value: str) -> None:
        """Set a parameter on a server."""
        self.on(server, "lctl", "set_param", f"{name}={value}")

    def settings(self, server: str | None) -> dict[str, str]:
        """Return every settable parameter of one line, and those of queues and ldiskfs."""
        script = (
            "lctl list_param -RF '*' 2>/dev/null | sed -n 's/=$//p' |"
            " xargs lctl get_param 2>/dev/null;"
            " for file in /sys/class/block/*/queue/* /sys/fs/ldiskfs/*/*"
            " /proc/fs/ldiskfs/*/prealloc_table; do"
            ' [ -f "$file" ] && read -r value < "$file" && printf "%s=%s\\n" "$file" "$value";'
            " done 2>/dev/null"
        )
        words = ("sh", "-c", script)
        text = self._run(self.words_on(server, words), words, 600.0, None)
        lines = text.splitlines()
        return {
            name: value
            for line, following in zip(lines, [*lines[1:], ""], strict=True)
            for name, equals, value in [line.partition("=")]
            # A value of several lines is a statistic, not a setting.
            if equals and value and " " not in name and ("=" in following or not following)
        }

    def echo_devices(self) -> list[str]:
        """Return the lines of ``lctl dl`` of echo devices, on all servers."""
        lists = (self.on(server, "lctl", "dl") for server in self.servers)
        return [line for text in lists for line in text.splitlines() if " echo" in line]

    def stripes(self, path: Path) -> list[str]:
        """Return the OSTs that a file has objects on, by ``lfs getstripe``."""
        text = self.here("lfs", "getstripe", "-y", str(path))
        return [f"OST{int(index):04x}" for index in re.findall(r"l_ost_idx: (\d+)", text)]

    def discarded_bytes(self, target: Mounted) -> int:
        """Return what was discarded on a target's device since its server started."""
        path = f"/sys/class/block/{self.block_device(target)}/stat"
        return int(self.on(target.server, "cat", path).split()[13]) * 512
