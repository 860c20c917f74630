"""Parses the kernel log for errors that no Lustre counter reports. Pure.

Lustre neither counts nor reports bad checksums and targets that turned read-only: only the server's
kernel log shows them. It is a ring buffer, so its contents are a lower bound; they cover everything
since boot only if its first line is the kernel's first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CHECKSUM: Final = re.compile(r"BAD (?:WRITE|READ) CHECKSUM")
_READ_ONLY: Final = re.compile(
    r"(?:LDISKFS|EXT4)-fs \(([\w!.-]{1,64})\): [Rr]emounting filesystem read-only"
)
_MOUNTED: Final = re.compile(r"(?:LDISKFS|EXT4)-fs \(([\w!.-]{1,64})\): mounted filesystem")
_ABORTED: Final = re.compile(r"Aborting journal on device ([\w!.-]{1,64}?)(?:-[0-9]+)?\.?(?:\s|\Z)")
_SKIPPED: Final = re.compile(
    r"(Lustre(?:Error)?: .{0,200})Skipped ([0-9]{1,9}) previous similar message"
)
# The first second after boot: "[    0.000000]", with or without a level before it.
_BOOT: Final = re.compile(r"[^\[]{0,40}\[ *0\.0{6}\]|.{0,80}\bLinux version [0-9]")
_TIMED: Final = re.compile(r"[^\[]{0,40}\[[^\]]{1,40}\] |[0-9]{4}-[0-9]{2}-[0-9]{2}T")
_LINE_CHARACTERS_MAXIMUM: Final = 4096


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Errors found in a kernel log.

    Attributes
    ----------
    begins_at_boot
        Whether the ring has lost nothing since boot.
    bad_checksums
        Transfers with a wrong checksum, including those that Lustre reports as "skipped".
    read_only
        Devices that ldiskfs or ext4 made read-only, or whose journal aborted, and that were not
        remounted since, in order: they no longer write, whatever their flags claim. A filtered log
        must keep the lines "mounted filesystem".
    """

    begins_at_boot: bool
    bad_checksums: int
    read_only: tuple[str, ...]


def parse_kernel_log(text: str) -> KernelLog:
    """Parse the output of ``dmesg``, complete or filtered.

    A last line without a line feed was cut but still counts, as each line is printed once.
    """
    lines = [line[:_LINE_CHARACTERS_MAXIMUM] for line in text.split("\n") if line.strip()]
    begins_at_boot = bool(lines) and _BOOT.match(lines[0]) is not None
    if len(lines) > 1 and lines[0] == lines[1] and _TIMED.match(lines[0]):
        # A filter that always keeps the first line may print it twice.
        del lines[0]
    read_only: dict[str, None] = {}
    counts = {"checksum": 0, "other": 0}
    last, before = "other", ""
    for line in lines:
        if skipped := _SKIPPED.search(line):
            # Printed right after the next message of the same kind, from the same place in the
            # code.
            counts[last if skipped[1] in before else "other"] += int(skipped[2])
            last = "other"
            continue
        last, before = "other", line
        if _CHECKSUM.search(line):
            last = "checksum"
        elif match := _READ_ONLY.search(line) or _ABORTED.search(line):
            read_only.setdefault(match[1])
        elif match := _MOUNTED.search(line):
            read_only.pop(match[1], None)
        counts[last] += 1
    return KernelLog(
        begins_at_boot=begins_at_boot,
        bad_checksums=counts["checksum"],
        read_only=tuple(read_only),
    )
