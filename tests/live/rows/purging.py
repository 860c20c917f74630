"""A purge whose files change between its plan and its run, and that is killed on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.live.listing import walk
from tests.live.running import capability, require
from tests.live.subject import Subject

UNTOUCHED: Final = 80
EACH: Final = 3
KILLED_AFTER_S: Final = (10.0, 20.0, 40.0, 80.0)
_OWNER: Final = 2001

POLICY: Final = """\
[policy]
name = "live"
root = "{root}"
target = "0.01%"
[age]
minimum = "30d"
[notice]
period = "0s"
directory = "{lists}"
[caps]
user = "unlimited"
file_system = "unlimited"
[arming]
kind = "delay"
delay = "0s"
[guards]
allow_list = "{state}/roots"
kill_switch = "{state}/stop"
settle = "15m"
"""


def _shell(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _replace(file: Path) -> None:
    other = file.with_name(file.name + ".new")
    other.write_bytes(b"another file")
    other.replace(file)


def _recreate(file: Path) -> None:
    file.unlink()
    file.write_bytes(b"made again")


def _swap_for_link(file: Path) -> None:
    file.rename(file.with_name(file.name + ".was"))
    file.symlink_to(file.name + ".was")


def _move(file: Path, *directories: str) -> None:
    """Move a file into the first of the directories that it is not in: onto itself is no move."""
    own = file.parent.name
    file.rename(file.parent.parent / next(x for x in directories if x != own) / file.name)


def _rename_directory(file: Path) -> None:
    own = file.parent / f"dir {file.name}"
    own.mkdir()
    file.rename(own / file.name)


def _touch(file: Path) -> None:
    os.utime(file)


def _old_times(file: Path) -> None:
    os.utime(file, (1_500_000_000, 1_500_000_000))


def _append(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"more")


def _write_in_place(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"other")


def _exchange(file: Path) -> None:
    partner = file.with_name(file.name + ".partner")
    partner.write_bytes(b"partner")
    spare = file.with_name(file.name + ".spare")
    file.rename(spare)
    partner.rename(file)
    spare.rename(partner)


KINDS: Final[dict[str, Callable[[Path], object]]] = {
    "touched": _touch,
    "given old times": _old_times,
    "appended": _append,
    "written in place": _write_in_place,
    "truncated": lambda file: os.truncate(file, 10),
    "extended": lambda file: os.truncate(file, 10**6),
    "emptied": lambda file: os.truncate(file, 0),
    "renamed": lambda file: file.rename(file.with_name(file.name + ".moved")),
    "renamed twice": lambda file: file.rename(file.with_name(".x")).rename(
        file.with_name(file.name + " twice")
    ),
    "moved up": lambda file: file.rename(file.parent.parent / file.name),
    "moved to another MDT": lambda file: _move(file, "mdt0", "mdt1"),
    "moved into a striped directory": lambda file: _move(file, "striped", "mdt0"),
    "moved into a new directory": _rename_directory,
    "linked": lambda file: os.link(file, file.with_name(file.name + ".link")),
    "linked elsewhere": lambda file: os.link(file, file.parent.parent / (file.name + ".link")),
    "given to another user": lambda file: os.chown(file, 2002, -1),
    "given to another group": lambda file: os.chown(file, -1, 2002),
    "given to root": lambda file: os.chown(file, 0, 0),
    "mode changed": lambda file: file.chmod(0o640),
    "attribute set": lambda file: os.setxattr(file, "trusted.live", b"1"),
    "access list set": lambda file: _shell("setfacl", "-m", "u:2002:r", str(file)),
    "replaced by name": _replace,
    "made again": _recreate,
    "exchanged": _exchange,
    "swapped for a link": _swap_for_link,
    "swapped for a directory": lambda file: (file.unlink(), file.mkdir()),
    "swapped for a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "deleted": lambda file: file.unlink(),
    "immutable": lambda file: _shell("chattr", "+i", str(file)),
    "append only": lambda file: _shell("chattr", "+a", str(file)),
    "migrated to another OST": lambda file: _shell("lfs", "migrate", "-c", "2", str(file)),
    "mirrored": lambda file: _shell("lfs", "mirror", "extend", "-N", str(file)),
    "project set": lambda file: _shell("lfs", "project", "-p", "4711", str(file)),
    "copied over": lambda file: shutil.copyfile("/etc/hostname", file),
    "layout given anew": lambda file: _shell("lfs", "migrate", "-S", "1M", str(file)),
    "hole punched": lambda file: _shell("fallocate", "-p", "-o", "0", "-l", "4096", str(file)),
    "allocated further": lambda file: _shell("fallocate", "-l", "1M", str(file)),
    "written and truncated back": lambda file: (_append(file), os.truncate(file, 100)),
    "renamed there and back": lambda file: file.rename(file.with_name(file.name + ".away")).rename(
        file
    ),
}
"""What happens to files between plan and run; none of these may then be deleted.

``open`` by this client and by another come on top."""

_GONE: Final = {
    *("deleted", "swapped for a directory", "swapped for a pipe", "made again", "replaced by name"),
}


def old_files(subject: Subject, place: Path) -> dict[str, list[Path]]:
    """Make files that nobody used for 200 days, some for each kind of change."""
    cluster = subject.cluster
    mdts = len(cluster.mdts)
    for index in range(mdts):
        cluster.here("lfs", "mkdir", "-i", str(index), str(place / f"mdt{index}"))
    cluster.here("lfs", "mkdir", "-c", str(mdts), str(place / "striped"))
    directories = [place / "mdt0", place / f"mdt{mdts - 1}", place / "striped"]
    made: dict[str, list[Path]] = {"untouched": []}
    with cluster.days_ago(200):
        names = [("untouched", number) for number in range(UNTOUCHED)]
        names += [
            (kind, number) for kind in (*KINDS, "open", "open elsewhere") for number in range(EACH)
        ]
        for kind, number in names:
            file = directories[number % len(directories)] / f"{kind} {number}"
            file.write_bytes(os.urandom(65536 * (1 + number % 5)))
            os.chown(file, _OWNER, _OWNER)
            made.setdefault(kind, []).append(file)
        os.sync()
    return made


def armed_plan(subject: Subject, root: Path) -> tuple[Path, dict]:
    """Scan, plan, notify and arm; return the plan's directory and document."""
    state = subject.state
    lists = Path("/run/trimtab-live-lists")  # users have to be able to enter it
    for place in (state / "purge-index", state / "purge-plan", lists):
        subject.cluster.here("rm", "-rf", str(place))
    lists.mkdir(mode=0o755)
    (state / "roots").write_text(f"{root}\n")
    policy = state / "policy.toml"
    policy.write_text(POLICY.format(root=root, state=state, lists=lists))
    index, plan = state / "purge-index", state / "purge-plan"
    words = ("--sizes", "exact", "--with", "project,layout")
    subject.trimtab("purge", "scan", str(root), "--index", str(index), *words)
    words = ("--policy", str(policy), "--out", str(plan), "--site", subject.site("plain"))
    document = subject.json("purge", "plan", "--index", str(index), *words)
    published = subject.json("purge", "notify", str(plan), "--accept-unknown")
    subject.trimtab("purge", "arm", str(plan), SUDO_UID="2002", SUDO_USER="bob")
    # Users are told a round time, and until then nothing goes.
    not_before = datetime.fromisoformat(published["not_before"])
    time.sleep(max((not_before - datetime.now(UTC)).total_seconds() + 1.0, 0.0))
    return plan, document


def inodes(root: Path) -> dict[int, int]:
    """Return allocated bytes of each regular file below a directory, by inode number."""
    return {
        status.st_ino: status.st_blocks * 512
        for _, status in walk(root)
        if status.st_mode & 0o170000 == 0o100000
    }


@capability("purge: forty kinds of change, two clients, kill -9", "inode numbers by lstat, lfs df")
def purge(subject: Subject) -> str:
    """Unused files go; whatever happened to a file between plan and run keeps it."""
    cluster = subject.cluster
    root = subject.place("purged")
    made = old_files(subject, root)
    plan, document = armed_plan(subject, root)
    total = sum(len(files) for files in made.values())
    require(document["files"] == total, f"the plan has {document['files']} of {total} files")
    numbers = {file: file.lstat().st_ino for files in made.values() for file in files}
    opened = [file.open("rb") for file in made["open"]]
    failed = changed(made)
    elsewhere = open_elsewhere(subject, made.pop("open elsewhere"))
    try:
        run = ("purge", "run", str(plan), "--apply", "--site", subject.site("plain"))
        kills = sum(subject.killed_after(after_s, *run) is None for after_s in KILLED_AFTER_S)
        answer = subject.trimtab(*run, "--json", code=(0, 3))
    finally:
        for file in opened:
            file.close()
        elsewhere.communicate()  # the end of its input ends it, also on another machine
    left = inodes(root)
    untouched = {numbers[file] for file in made["untouched"]}
    kept = {
        kind: [file for file in files if numbers[file] not in left]
        for kind, files in made.items()
        if kind != "untouched" and kind not in _GONE
    }
    wrong = {kind: [str(file) for file in files] for kind, files in kept.items() if files}
    require(not wrong, f"deleted although changed: {wrong}")
    spared = untouched & set(left)
    run_document = answer.document
    text = f"{len(spared)} untouched files are still there: {run_document['outcomes']}"
    require(not spared, text)
    subject.cluster.here("chattr", "-R", "-ia", str(root), code=None)
    return (
        f"{UNTOUCHED} of {UNTOUCHED} unused files deleted, none of {total - UNTOUCHED} others; "
        f"{kills} kills; "
        f"{len(KINDS) + 2 - len(failed)} kinds"
        + (f" ({', '.join(failed)} not possible here)" if failed else "")
        + f"; space {cluster.fullness(cluster.osts[0].name):.2%}"
    )


def changed(made: dict[str, list[Path]]) -> list[str]:
    """Change the files of each kind; return the kinds that cannot be done here."""
    failed = []
    for kind, change in KINDS.items():
        try:
            for file in made[kind]:
                change(file)
        except (OSError, subprocess.CalledProcessError):
            failed.append(kind)
            made.pop(kind)
    return failed


def open_elsewhere(subject: Subject, files: list[Path]) -> subprocess.Popen[bytes]:
    """Have another client hold files open, or this one in another process."""
    script = (
        "import sys\nopened = [open(name) for name in sys.argv[1:]]\n"
        "print('open', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen(
        subject.cluster.words_on(
            subject.cluster.second_client, ["python3", "-c", script, *map(str, files)]
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    require(process.stdout.readline().strip() == b"open", "another client could not open the files")
    return process
