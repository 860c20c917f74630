"""Folds and expands target names: ``OST[0000-000f],MDT0000``.

The index in a target's name is hexadecimal (OST000a follows OST0009), which ClusterShell's decimal
node sets do not support.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trimtab.errors import UsageError
from trimtab.visible import visible

_HINT = 'write "OST[0000-0003],MDT0000"; the four digits are hexadecimal'
_PIECE = re.compile(r"(OST|MDT)(?:([0-9a-fA-F]{4})|\[([^\[\]]*)\])")
_NAME = re.compile(r"(OST|MDT)[0-9a-f]{4}")
_RANGE = re.compile(r"([0-9a-fA-F]{4})(?:-([0-9a-fA-F]{4}))?")
_BETWEEN = re.compile(r"\s*,\s*")


def ost_name(index: int) -> str:
    """Return Lustre's name of an OST, without the file system's: its index is hexadecimal.

    >>> ost_name(18)
    'OST0012'
    """
    return f"OST{index:04x}"


def mdt_name(index: int) -> str:
    """Return Lustre's name of an MDT, like `ost_name`."""
    return f"MDT{index:04x}"


def unfold_targets(text: str) -> tuple[str, ...]:
    """Expand a set of targets, in order, with lower-case digits as in Lustre.

    Raises
    ------
    UsageError
        It is not a set of target names, or repeats one.

    Examples
    --------
    >>> unfold_targets("OST[0009-000b],MDT0000")
    ('OST0009', 'OST000a', 'OST000b', 'MDT0000')
    """
    names: dict[str, None] = {}  # in order
    position = 0
    text = text.strip()
    while True:
        piece = _PIECE.match(text, position)
        if piece is None:
            raise _no_targets(text)
        kind, index, ranges = piece.groups()
        for number in _numbers(index or ranges, text):
            name = f"{kind}{number:04x}"
            if name in names:
                raise UsageError(
                    f"{visible(text[:80])!r} names {name} twice", code="target-repeated"
                )
            names[name] = None
        if piece.end() == len(text):
            break
        between = _BETWEEN.match(text, piece.end())
        if between is None:
            raise _no_targets(text)
        position = between.end()
    return tuple(names)


def fold_targets(names: Iterable[str]) -> str:
    """Return the shortest text that `unfold_targets` expands to the same set, MDTs first.

    Examples
    --------
    >>> fold_targets(["OST000a", "OST0009", "MDT0000", "OST0001"])
    'MDT0000,OST[0001,0009-000a]'
    """
    numbers: dict[str, list[int]] = {"MDT": [], "OST": []}
    for name in sorted(set(names)):
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{visible(name[:80])!r} is not a target name",
                code="target-name-invalid",
                hint=_HINT,
            )
        numbers[name[:3]].append(int(name[3:], 16))
    return ",".join(_folded(kind, indices) for kind, indices in numbers.items() if indices)


def fold_names(names: Iterable[str]) -> str:
    """Format names for people: target names folded, others as a list.

    Examples
    --------
    >>> fold_names(["OST0002", "OST0001", "/scratch"])
    'OST[0001-0002], /scratch'
    """
    known = dict.fromkeys(names)
    targets = [name for name in known if _NAME.fullmatch(name)]
    others = [name for name in known if not _NAME.fullmatch(name)]
    return ", ".join(([fold_targets(targets)] if targets else []) + others)


def _numbers(ranges: str, text: str) -> Iterator[int]:
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _no_targets(text)
        low = int(match[1], 16)
        high = int(match[2] or match[1], 16)
        if high < low:
            raise UsageError(
                f"{part.strip()!r} ends before it begins", code="target-range-reversed", hint=_HINT
            )
        yield from range(low, high + 1)


def _folded(kind: str, indices: list[int]) -> str:
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    texts = [f"{a:04x}" if a == b else f"{a:04x}-{b:04x}" for a, b in runs]
    alone = len(texts) == 1 and len(texts[0]) == 4
    return f"{kind}{texts[0]}" if alone else f"{kind}[{','.join(texts)}]"


def _no_targets(text: str) -> UsageError:
    return UsageError(
        f"{visible(text[:80])!r} is not a set of targets", code="target-set-invalid", hint=_HINT
    )
