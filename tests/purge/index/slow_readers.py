"""Readers of lists as their formats are documented: slow, obvious, and without Trimtab's code.

Each returns the rows of a list, how many records it refuses, and whether the list proves that it is
whole; ``None`` where nothing is a list of that format.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Final

ROOT: Final = b"/scratch"
DAY_S: Final = 86400
NS: Final = 10**9
Row = tuple[bytes, int, int, int, int, int]
"""Path beneath the root, owner, length, and times of access, modification and change in ns."""


@dataclass
class Slow:
    """What a slow reader makes of a list."""

    rows: list[Row] = field(default_factory=list)
    refused: int = 0
    proven: bool = False
    absolute: bool | None = None

    def take(self, path: bytes, numbers: tuple[int | None, ...]) -> None:
        """Take a record whose path is of the kind of the first, or refuse it."""
        if path and self.absolute is None:
            self.absolute = path.startswith(b"/")
        place = beneath(path)
        if place is None or None in numbers or path.startswith(b"/") != self.absolute:
            self.refused += 1
        elif place:
            self.rows.append((place, *numbers))  # type: ignore[arg-type]


def beneath(path: bytes) -> bytes | None:
    """Return a path relative to the root, empty for the root itself; ``None``: it cannot be."""
    if not path or b"\0" in path:
        return None
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if path.startswith(b"/"):
        if parts[:1] != [ROOT[1:]]:
            return None
        del parts[0]
    return None if b".." in parts else b"/".join(parts)


def number(text: bytes, bits: int) -> int | None:
    """Return digits as a number of so many bits."""
    return int(text) if re.fullmatch(rb"[0-9]+", text) and int(text) < 2**bits else None


def blocks(text: bytes) -> int | None:
    """Return a number of blocks as bytes."""
    many = number(text, 64)
    return None if many is None or many * 512 >= 2**64 else many * 512


def is_letter(text: bytes) -> bool:
    """Return whether this is one character, but no line feed."""
    try:
        return len(text.decode()) == 1 and text != b"\n"
    except UnicodeDecodeError:
        return False


def time_ns(text: bytes, *, side_by_side: bool) -> int | None:
    """Return seconds with decimal places; find prints negative seconds and nanoseconds apart."""
    match = re.fullmatch(rb"(-?)([0-9]+)(?:\.([0-9]{1,9})0*)?", text)
    if match is None or not -(2**63) <= int(match[1] + match[2]) < 2**63:
        return None
    rest = int((match[3] or b"0").ljust(9, b"0"))
    negative = bool(match[1]) and not side_by_side
    whole = int(match[1] + match[2]) * NS
    if not -(2**63) <= whole < 2**63:
        return 2**63 - 1 if whole > 0 else -(2**63)
    return max(-(2**63), min(2**63 - 1, whole + (-rest if negative else rest)))


def _late(times: list[int | None], latest_ns: int, *, closed: bool) -> bool:
    return any(time is not None and time > latest_ns for time in (times[-1:] if closed else times))


def slow_find(data: bytes, latest_ns: int, *, closed: bool) -> Slow | None:
    """Read what ``find -printf`` prints in the format of its script, or of an earlier one."""
    *records, rest = data.split(b"\0")
    slow = Slow(refused=bool(rest))
    headed = bool(records) and records[0].startswith(b"trimtab-list ")
    if headed:
        first = records.pop(0)
        slow.refused += not re.fullmatch(rb"trimtab-list [12] started=[0-9]{1,11}", first)
    if headed and records and re.fullmatch(rb"trimtab-end ended=[0-9]{1,11}", records[-1]):
        slow.proven = bool(records.pop() or True)
    slow.refused += headed and not slow.proven
    for record in records:
        parts = record.split(b"\t")
        if len(parts) < 13 + closed or (closed and parts[0] != parts[-1]):
            slow.refused += 1
            continue
        path = b"\t".join(parts[12 : -1 if closed else None])
        inode, kind, device = parts[:3] if closed else (parts[1], parts[2], parts[0])
        numbers = [number(text, 32) for text in (parts[4], parts[3], parts[5])]
        numbers += [number(text, 64) for text in (inode, device, parts[6])] + [blocks(parts[7])]
        times = [time_ns(text, side_by_side=True) for text in parts[8:11]]
        birth = re.fullmatch(rb"-?[0-9]*(\.-?[0-9]+)?", parts[11])
        if not birth:
            slow.refused += 1
            continue
        if not closed and b"\t" + ROOT + b"/" in path:
            slow.refused += 1
            continue
        wrong = None in numbers or not is_letter(kind) or _late(times, latest_ns, closed=closed)
        slow.take(path, (numbers[0] if not wrong else None, numbers[5], *times))
    return slow


_TABS: Final = 15


def slow_lfs(data: bytes, latest_ns: int) -> Slow | None:
    """Read what ``lfs find --printf`` prints in the format of its script, each record closed."""
    *lines, rest = data.split(b"\n")
    head = lines and re.fullmatch(
        rb"trimtab-list 2 started=[0-9]{1,11} token=([0-9a-fA-F]{16,64})", lines[0]
    )
    if not head:
        return None
    token = head[1] + b"\t"
    slow = Slow(refused=bool(rest))
    records: list[bytes] = []
    for line in lines[1:]:
        if line.startswith(token) or not records:
            records.append(line)
        else:
            records[-1] += b"\n" + line
    for record in records:
        if not record.startswith(token) or slow.proven:
            slow.refused += 1
            slow.proven = False
            continue
        text = record.removeprefix(token)
        if re.fullmatch(rb"trimtab-end ended=[0-9]{1,11}", text):
            slow.proven = True
            continue
        parts = text.split(b"\t")
        if (
            len(parts) < _TABS + 2
            or parts[0] != parts[-1]
            or token[:-1] in b"\t".join(parts[15:-1])
        ):
            slow.refused += 1
            continue
        if not parts[0]:
            continue  # the file was gone
        _lfs_record(slow, parts, latest_ns)
    slow.refused += not slow.proven
    return slow


def _lfs_record(slow: Slow, parts: list[bytes], latest_ns: int) -> None:
    fid = re.fullmatch(
        rb"\[?0x([0-9a-fA-F]{1,16}):0x[0-9a-fA-F]{1,8}:0x[0-9a-fA-F]{1,8}\]?", parts[0]
    )
    numbers = [number(text, 32) for text in (parts[4], parts[3], parts[5], parts[6])]
    numbers += [number(parts[7], 64), blocks(parts[8])]
    times = [time_ns(text, side_by_side=False) for text in parts[9:12]]
    loose = (
        (parts[1], rb"[^/]*"),  # of any bytes that a name may have
        (parts[12], rb"-?[0-9]*(\.-?[0-9]+)?"),
        (parts[13], rb"[0-9]*"),
        (parts[14], rb"[0-9,?\[\]]*"),
    )
    if not all(re.fullmatch(pattern, text) for text, pattern in loose):
        slow.refused += 1
        return
    known = fid and int(fid[1], 16) and is_letter(parts[2]) and None not in numbers
    wrong = not known or _late(times, latest_ns, closed=True)
    slow.take(b"\t".join(parts[15:-1]), (None if wrong else numbers[0], numbers[4], *times))


def slow_csv(data: bytes, latest_ns: int) -> Slow | None:
    """Read RFC 4180 with a first line ``ino,uid,size,atime,mtime,ctime,path``, times in s."""
    slow = Slow()
    columns = 7
    at = data.find(b"\n") + 1
    if data[:at] != b"ino,uid,size,atime,mtime,ctime,path\n":
        return None
    while at < len(data):
        begin, fields, wrong, ended = at, [], False, False
        while not ended:
            value, at, state = _csv_field(data, at)
            fields.append(value)
            wrong, ended = state == "wrong", state != "more"
        if wrong:
            ends = [end for end in (data.find(b"\n", at), data.find(b"\r", at)) if end >= 0]
            at = _behind_line_feed(data, min(ends)) if ends else len(data)
        if at >= len(data) and not data.endswith((b"\n", b"\r")):
            slow.refused += 1  # cut off
        elif not wrong and fields == [b""] and data[begin : begin + 1] in (b"\n", b"\r"):
            continue
        elif wrong or len(fields) != columns:
            slow.refused += 1
        else:
            numbers = [number(fields[0], 64), number(fields[1], 32), number(fields[2], 64)]
            times = [time_ns(text, side_by_side=False) for text in fields[3:6]]
            late = _late(times, latest_ns, closed=False)
            good = None not in numbers and not late
            slow.take(fields[6], (numbers[1] if good else None, numbers[2], *times))
    return slow


def _behind_line_feed(data: bytes, at: int) -> int:
    return at + (2 if data[at : at + 2] == b"\r\n" else 1)


def _csv_field(data: bytes, at: int) -> tuple[bytes, int, str]:
    """Return a field, what is behind it and the delimiter, and whether ``more`` follow."""
    value = b""
    if data[at : at + 1] == b'"':
        at += 1
        while True:
            end = data.find(b'"', at)
            if end < 0:
                return value, len(data), "wrong"
            value += data[at:end]
            at = end + 1
            if data[at : at + 1] != b'"':
                break
            value += b'"'
            at += 1
    else:
        while at < len(data) and data[at : at + 1] not in (b",", b"\n", b"\r"):
            value += data[at : at + 1]
            at += 1
    if at >= len(data):
        return value, at, "end"
    if data[at : at + 1] == b",":
        return value, at + 1, "more"
    if data[at : at + 1] in (b"\n", b"\r"):
        return value, _behind_line_feed(data, at), "end"
    return value, at, "wrong"


def slow_mfu(data: bytes, latest_ns: int) -> Slow | None:
    """Read version 4 of mpiFileUtils' lists."""
    if len(data) < 56 or data[:8] != struct.pack(">Q", 4):
        return None
    users, user_size, groups, group_size, files, characters = struct.unpack(">6Q", data[8:56])
    at = (
        56
        + users * (user_size + 8) * bool(user_size)
        + groups * (group_size + 8) * bool(group_size)
    )
    slow = Slow()
    size = characters + 80
    for _ in range(min(files, len(data) // size + 1)):
        if at + size > len(data):
            slow.refused += 1
            return slow
        path = data[at : at + characters].rstrip(b"\0")
        mode, uid, gid, *times, length = struct.unpack(">10Q", data[at + characters : at + size])
        at += size
        seconds = [time - 2**64 * (time >= 2**63) for time in times[::2]]
        rests = [time - 2**64 * (time >= 2**63) for time in times[1::2]]
        moments: list[int | None] = []
        for whole, rest in zip(seconds, rests, strict=True):
            known = max(-(2**63), min(2**63 - 1, whole * NS + rest)) if 0 <= rest < NS else None
            moments.append(known)
        wrong = uid >= 2**32 or gid >= 2**32 or mode >= 2**32
        wrong = wrong or _late(moments, latest_ns, closed=True)
        slow.take(path, (None if wrong else uid, length, *moments))
    slow.refused += at < len(data)
    return slow
