"""Recorded shell lines, run on a fake Lustre: enough of a shell for what was recorded."""

from __future__ import annotations

import re
import shlex

from tests.fake_lustre.state import KIB, FakeLustre, Output

_DF_LINE = re.compile(r"^\w+-((?:OST|MDT)[0-9a-f]{4})_UUID +(\d+) +(\d+) +(\d+) ", re.MULTILINE)


def replay(state: FakeLustre, line: str) -> Output:
    """Return what a line prints: commands with ``;``, ``timeout``, ``| grep``, ``echo rc=$?``."""
    whole = Output()
    code = 0
    for text in line.split(";"):
        command, _, wanted = text.strip().partition(" | grep ")
        together = command.endswith("2>&1")
        argv = shlex.split(command.removesuffix("2>&1"))
        if argv[:1] == ["timeout"]:
            argv = argv[2:]
        if not argv or argv[0] in ("sleep", "date", "dd", "stat", "mkdir", "rm"):
            continue
        if argv == ["echo", "rc=$?"]:
            whole.stdout += f"rc={code}\n"
            continue
        output = state.run(None, argv)
        code = whole.exit_code = output.exit_code
        kept = output.stdout.splitlines(keepends=True)
        whole.stdout += output.stderr if together else ""
        whole.stdout += "".join(one for one in kept if wanted.strip('"') in one)
        whole.stderr += "" if together else output.stderr
    return whole


def fill_as(state: FakeLustre, text: str, *, inodes: bool = False) -> None:
    """Let every target be as full as the last ``lfs df`` of a recording says."""
    for name, total, used, available in _DF_LINE.findall(text):
        target = state.target(name)
        if inodes:
            target.inodes_total, target.inodes_used = int(total), int(used)
        elif target.capacity_bytes == int(total) * KIB:
            target.used_bytes = int(used) * KIB
            target.reserved_bytes = (int(total) - int(used) - int(available)) * KIB


def masked(text: str) -> str:
    """Return a text with what differs between two boots put out of sight."""
    text = re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"ffff8[0-9a-f]{11}", "<client>", text)
    text = re.sub(r"(prealloc_(?:next|last)_id)=\d+", r"\1=<id>", text)
    text = re.sub(r"(prealloc_(?:next|last)_seq)=0x[0-9a-f]+", r"\1=<id>", text)
    text = re.sub(r"(snapshot_time|elapsed_time|start_time)(:?) +[\d.]+", r"\1\2 <time>", text)
    text = re.sub(r"\d+\.\d{9}", "<time>", text)
    return text
