"""A purge from scan to report with real commands: a tree of old files, its places, its owners."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.command import Ended, forked
from tests.support.forked import Forked, fork

DAY_S = 86400
AGED = "tests.purge.command.aged:main"
AGO_S = 21 * DAY_S
"""When the file system was scanned: its notice period is over by now."""
OWNERS = (1, 2, 65534)
"""daemon, bin and nobody: accounts that every host has."""
NAMES = (
    b"plain", b"two words", b"new\nline", b"\xff\xfe", b"\x1b[2J", b"-rf", b"<b>bold", b'"quote',
)  # fmt: skip


@dataclass
class Walk:
    """The places of one purge.

    Attributes
    ----------
    root
        What is purged.
    private
        A directory of root's that nobody else can enter.
    public
        One that everybody can: for lists.
    core
        ``real``, or ``slow``: `tests.purge.command.slow_core`.
    """

    root: Path
    private: Path
    public: Path
    core: str = "slow"
    files: dict[bytes, int] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.public / "lists").mkdir(mode=0o755)
        (self.public / "etc").mkdir(mode=0o755)
        (self.public / "etc" / "roots").write_text(f"{self.root}\n")
        self.index, self.plan = self.private / "index", self.private / "plan"
        self.policy, self.place = self.private / "policy.toml", self.private / "place"
        self.stop = self.public / "etc" / "stop"
        self.environment = {"TRIMTAB_PURGE": str(self.place)}

    def write_policy(self, *lines: str, target: str = "1%", notice: str = "") -> None:
        """Write a policy that lets everything go that is 16 weeks old, by modification."""
        text = f"""
[policy]
name = "walk"
root = "{self.root}"
target = "{target}"
[age]
counted = ["mtime"]
[notice]
directory = "{self.public / "lists"}"
{notice}
[caps]
user = "unlimited"
file_system = "unlimited"
[guards]
allow_list = "{self.public / "etc" / "roots"}"
kill_switch = "{self.stop}"
settle = "0"
"""
        self.policy.write_text(text + "\n".join(lines) + "\n")

    def write_site(self, file: Path) -> None:
        """Write a site file for the root."""
        file.write_text(f'[site]\nname = "walk"\ndriver = "local"\npath = "{self.root}"\n')

    def make_files(self, count: int = 12, *, size_bytes: int = 64 * 1024) -> None:
        """Write files of 10 to 600 days, every owner the same."""
        now_s = time.time()
        for owner in OWNERS:
            top = os.fsencode(self.root) + b"/user %d" % owner
            Path(os.fsdecode(top)).mkdir()
            for number in range(count):
                path = top + b"/%b %d" % (NAMES[number % len(NAMES)], number)
                Path(os.fsdecode(path)).write_bytes(b"x" * size_bytes)
                os.chown(path, owner, owner)
                age_s = (10 + number * 590 // max(1, count - 1)) * DAY_S
                os.utime(path, (now_s - age_s, now_s - age_s))
                self.files[path] = age_s
        os.sync()

    def trimtab(self, *arguments: object, ago_s: float = 0.0) -> Ended:
        """Return how ``trimtab purge ...`` ended, by a clock that is so far behind."""
        slow = ("--slow-core",) if self.core == "slow" else ()
        words = (ago_s, "purge", *arguments, *slow)
        return forked(*words, environment=self.environment, program=AGED)

    def start(self, *arguments: object, ago_s: float = 0.0) -> Forked:
        """Start ``trimtab purge ...`` as a process; what it prints is added to `printed`."""
        with (self.private / "printed").open("ab") as out:
            return fork(
                ago_s,
                "purge",
                *arguments,
                stdout=out.fileno(),
                stderr=out.fileno(),
                environment=self.environment,
                program=AGED,
            )

    def printed(self) -> str:
        """Return the end of what started processes printed."""
        return (self.private / "printed").read_bytes()[-4096:].decode("utf-8", "replace")

    def good(self, *arguments: object, ago_s: float = 0.0) -> dict[str, Any]:
        """Return the document of a command that ended well; it is kept by its name."""
        ended = self.trimtab(*arguments, "--json", ago_s=ago_s)
        assert ended.code == 0, ended.stderr
        self.ended[str(arguments[0])] = ended
        return ended.document

    def scan(self) -> dict[str, Any]:
        """Scan, and say that it was three weeks ago."""
        document = self.good("scan", self.root, "--index", self.index)
        grow_old(self.index)
        return document

    def publish(self) -> None:
        """Plan, notify and arm, so that a run may delete now."""
        index = ("--index", self.index)
        self.good("plan", *index, "--policy", self.policy, "--out", self.plan, ago_s=AGO_S - 600)
        self.good("notify", self.plan, ago_s=AGO_S - 1200)
        self.good("arm", self.plan, ago_s=3 * DAY_S)

    def there(self) -> set[bytes]:
        """Return the paths of the files that are there, without what is set aside for runs."""
        top = os.fsencode(self.root)
        aside = top + b"/.trimtab-purge-"
        found = (d + b"/" + name for d, _, names in os.walk(top) for name in names)
        return {path for path in found if not path.startswith(aside)}


def grow_old(index: Path) -> None:
    """Say that a scan was so long ago that a notice period is over by now."""
    manifest = index / "manifest.json"
    written = json.loads(manifest.read_text())
    for name in ("started_ns", "ended_ns"):
        written[name] -= AGO_S * 10**9
    manifest.write_text(json.dumps(written))
