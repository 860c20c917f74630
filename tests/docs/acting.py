"""What sudoers and the page on safety must hold, from `trimtab.reach.lustre.write_table`.

``python -m tests.docs.acting sudoers`` prints deploy/sudoers.d/trimtab-act, ``... table`` the
table of docs/act-safety.md.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from typing import Final

from trimtab.reach.lustre.write_table import (
    BY_KEY,
    LIST_PERMANENT,
    PERMANENT,
    ROWS,
    Row,
    deregister_words,
    register_words,
    trim_words,
)

PERMANENT_UNDO = "the previous permanent value, which the action stores; none if there was none"
PERMANENT_WHY = "for every mount to come; only what the site file lists as permanent"
CHANGELOG_UNDO = "`trimtab purge follow SITE --deregister`"
CHANGELOG_WHY = "an MDT records changes, and keeps them until its users have cleared them"
TRIM_WHY = "tells the flash beneath a target which blocks are free, a range at a time"
TRIM_UNDO = "nothing to undo: blocks of files are not touched"
PATHS: Final = {"lctl": "/usr/sbin/lctl", "fstrim": "/usr/sbin/fstrim", "tee": "/usr/bin/tee"}
MOUNT_POINT_LETTERS: Final = 16
_HEX: Final = "[0-9a-f]"
_LETTER: Final = "[A-Za-z0-9_-]"
_FIELDS: Final = {
    "fs": ("FSNAME",),
    "ost": (f"OST{_HEX * 4}",),
    "mdt": (f"MDT{_HEX * 4}",),
    "client": (_HEX * 16,),
    "device": (
        *(f"{kind}{'[0-9]' * digits}" for kind in ("dm-", "md") for digits in (1, 2, 3)),
        *(f"nvme{'[0-9]' * first}n{'[0-9]' * last}" for last in (1, 2) for first in (1, 2, 3)),
        *("sd[a-z]", "sd[a-z][a-z]", "vd[a-z]"),
    ),
}
"""Forms that sudoers can tell; a loop device is a test's, and a test is root."""

HEAD: Final = """\
# What Trimtab may change as root on a Lustre server or client: these commands, nothing else.
# Reading is another file, sudoers.d/trimtab. Install it only where Trimtab shall act, with the
# name of the file system and the directory below which its targets are mounted:
#
#     sed -e 's/FSNAME/scratch/g' -e 's|/MOUNTS/|/mnt/lustre/|g' trimtab-act > ready
#     install -m 0440 -o root -g root ready /etc/sudoers.d/trimtab-act && visudo -c
#     install -d -m 0700 -o trimtab /var/lib/trimtab-act
#
# The text is generated from the table of writes in Trimtab's own source and held against it by a
# test. deploy/README.md says what each alias is for. Take away what the site does not want.
"""
TAIL: Final = """
# ssh gives no terminal, and none is needed.
Defaults:trimtab !requiretty

trimtab ALL = (root) NOPASSWD: {aliases}
"""
_ALIASES: Final = {
    "RECOVERY": "Whether a target is in recovery: then nothing is changed.",
    "CREATION": "Close OSTs to new files, and open them.",
    "PLACEMENT": "How an MDT chooses OSTs.",
    "PERMANENT": "The same for every mount to come, on the MGS alone; and what is stored there.",
    "CHANGELOG": "Register the changelog user of an MDT, remove it, read who is registered.\n"
    "# By its name, which an MDT gives to one user alone: numbers would be others' too.",
    "CLIENT": "Settings of a client.",
    "LDISKFS": "Settings of the block allocator, and its goal. tee does not limit the value; the\n"
    "# program on the server does.",
    "QUEUE": "Settings of block devices. As above.",
    "TRIM": "Trim a range of a target. Numbers have one length, so that no option fits in between.",
}


def _alias(row: Row) -> str:
    tree = row.key.split("/")[0]
    names = {"osp": "CREATION", "obdfilter": "CREATION", "lod": "PLACEMENT", "queue": "QUEUE"}
    return names.get(tree, "LDISKFS" if tree == "ldiskfs" else "CLIENT")


def names(row: Row) -> Iterator[str]:
    """Yield the patterns of the names that a row may be written under."""
    fields = re.findall(r"\{([a-z]+)\}", row.name)
    for forms in itertools.product(*(_FIELDS[field] for field in fields)):
        yield row.name.format(**dict(zip(fields, forms, strict=True)))


def _values(row: Row) -> Iterator[str]:
    grammar = row.grammar
    if grammar.limits is None:
        yield from grammar.text.split(" or ")
        return
    yield from grammar.words
    for numbers in number_patterns(*grammar.limits):
        yield numbers
        if row.back == "percent":
            yield numbers + "%"


def number_patterns(low: int, high: int) -> Iterator[str]:
    """Yield the patterns that match the decimal numbers from ``low`` to ``high`` and nothing else.

    sudo before 1.9.10, as in RHEL 8 (1.9.5), knows no regular expressions: a range is written as
    the patterns of its digits.
    """
    for digits in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (digits - 1) if digits > 1 else 0)
        yield from _digit_patterns(str(first), str(min(high, 10**digits - 1)))


def _digit_patterns(first: str, last: str) -> Iterator[str]:
    """Yield the patterns of the numbers between two of as many digits."""
    rest = len(first) - 1
    if first[1:] == "0" * rest and last[1:] == "9" * rest:
        digit = first[0] if first[0] == last[0] else f"[{first[0]}-{last[0]}]"
        yield digit + "[0-9]" * rest
    elif first[0] == last[0]:
        yield from (first[0] + pattern for pattern in _digit_patterns(first[1:], last[1:]))
    elif first[1:] != "0" * rest:
        yield from _digit_patterns(first, first[0] + "9" * rest)
        yield from _digit_patterns(f"{int(first[0]) + 1}{'0' * rest}", last)
    else:
        yield from _digit_patterns(first, f"{int(last[0]) - 1}{'9' * rest}")
        yield from _digit_patterns(last[0] + "0" * rest, last)


def _commands(row: Row) -> Iterator[str]:
    for name in names(row):
        if row.kind == "file":
            yield f"{PATHS['tee']} {name}"
            continue
        for value in _values(row):
            yield f"{PATHS['lctl']} set_param {name}\\={value}"


def wanted() -> dict[str, list[str]]:
    """Return for each alias the commands that sudoers must hold, and no more."""
    commands: dict[str, list[str]] = {name: [] for name in _ALIASES}
    for tree, kind in (("obdfilter", "ost"), ("mdt", "mdt")):
        name = f"{tree}.FSNAME-{_FIELDS[kind][0]}.recovery_status"
        commands["RECOVERY"].append(f"{PATHS['lctl']} get_param -n {name}")
    for row in ROWS:
        commands[_alias(row)] += _commands(row)
    commands["PERMANENT"].append(" ".join([PATHS["lctl"], *LIST_PERMANENT[1:]]))
    for row in map(BY_KEY.__getitem__, PERMANENT):
        for name in names(row):
            start = f"{PATHS['lctl']} set_param -P"
            commands["PERMANENT"].append(f"{start} -d {name}")
            commands["PERMANENT"] += [f"{start} {name}\\={value}" for value in _values(row)]
    mdt = {"fs": "scratch", "mdt": "MDT0000"}
    device = f"{PATHS['lctl']} --device FSNAME-{_FIELDS['mdt'][0]}"
    commands["CHANGELOG"] = [
        *(
            f"{PATHS['lctl']} get_param -n mdd.FSNAME-{_FIELDS['mdt'][0]}.{leaf}"
            for leaf in ("changelog_users", "changelog_current_mask")
        ),
        *(" ".join((device, *words(mdt)[3:])) for words in (register_words, deregister_words)),
    ]
    argv = trim_words("/MOUNTS/x", 0, 1)
    number = "0x[0-3]" + _HEX * 15
    for letters in range(1, MOUNT_POINT_LETTERS + 1):
        words = [PATHS["fstrim"], *argv[1:]]
        words[2] = words[4] = number
        words[-1] = "/MOUNTS/" + _LETTER * letters
        commands["TRIM"].append(" ".join(words))
    return {f"TRIMTAB_ACT_{name}": found for name, found in commands.items()}


def sudoers() -> str:
    """Return the whole file."""
    parts = [HEAD]
    for (name, commands), comment in zip(wanted().items(), _ALIASES.values(), strict=True):
        parts.append(
            f"# {comment}\nCmnd_Alias {name} = \\\n    " + ", \\\n    ".join(commands) + "\n"
        )
    parts.append(TAIL.format(aliases=", ".join(wanted())).lstrip("\n"))
    return "\n".join(parts)


def table() -> str:
    """Return the table of everything that may be written."""
    lines = ["| what | values | right | what undoes it | why |", "|---|---|---|---|---|"]
    for row in ROWS:
        right = (
            "root, or `sudo lctl set_param`" if row.kind == "parameter" else "root, or `sudo tee`"
        )
        name = re.sub(r"\{([a-z]+)\}", lambda match: match[1].upper(), row.name)
        values = row.grammar.text
        lines.append(f"| `{name}` | {values} | {right} | {row.undo} | {row.why} |")
    names = ", ".join(f"`{BY_KEY[key].name.rpartition('.')[2]}`" for key in PERMANENT)
    lines.append(
        f"| {names} of `lod.FS-MDT-mdtlov`, permanently | as above, or none "
        f"| root, or `sudo lctl set_param -P`, on the MGS | {PERMANENT_UNDO} | {PERMANENT_WHY} |"
    )
    lines.append(
        "| `changelog_register`, `changelog_deregister` of an MDT | the user `trimtab` "
        f"| root, or `sudo lctl --device` | {CHANGELOG_UNDO} | {CHANGELOG_WHY} |"
    )
    lines.append(
        "| free blocks of a target | a range of bytes | root, or `sudo fstrim` "
        f"| {TRIM_UNDO} | {TRIM_WHY} |"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print({"sudoers": sudoers, "table": table}[sys.argv[1]](), end="")
