"""Sets of nodes and of Lustre targets, expanded to names that are safe in a command, and folded.

Node groups (``@oss``) come only from the site's and the user's ClusterShell configuration.
ClusterShell's own default also reads ``etc/clustershell`` of the Python installation. Its wheel
installs examples there (``oss: example4 example5``), which override the site's
``/etc/clustershell``: invented names would reach ssh and sudo. A configuration may also have
commands for a shell, so root uses only files that no other user can change.

Sets of targets (``OST[0000-000f],MDT0000``) are expanded here: the index in a target's name is
hexadecimal (OST000a follows OST0009), which ClusterShell's decimal node sets do not support.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError, visible
from trimtab.base.trusted_file import read_text, refuse_below_others, refuse_foreign

if TYPE_CHECKING:
    from ClusterShell.NodeUtils import GroupResolverConfig


_NOUN: Final = "the ClusterShell configuration"
_LISTS: Final = ("groupsdir", "confdir", "autodir")
"""Options of ``[Main]`` with directories of further group files (groups.conf(5))."""


def group_files() -> tuple[Path, ...]:
    """Return the files that may define groups, in ClusterShell's order: the last overrides.

    Root's is in root's own home, regardless of ``HOME`` under sudo.
    """
    import pwd

    root = os.geteuid() == 0
    home = Path(pwd.getpwuid(0).pw_dir) if root else Path("~").expanduser()
    places = [
        Path("/etc/clustershell"),
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "clustershell",
    ]
    if chosen := os.environ.get("CLUSTERSHELL_CFGDIR"):
        places.append(Path(chosen))
    return tuple(place.absolute() / "groups.conf" for place in places)


def site_groups() -> GroupResolverConfig:
    """Return the resolver of groups on this host.

    Raises
    ------
    UsageError
        As root: others can change a file that defines groups.
    configparser.Error, ValueError
        A file is not a valid configuration.
    """
    files = tuple(file for file in group_files() if os.path.exists(file))  # noqa: PTH110 - Path's raises
    if os.geteuid() == 0:
        for path in _defining(files):
            refuse_foreign(path, _NOUN)
            refuse_below_others(path, _NOUN)
    return _resolver(files)


@functools.cache
def _resolver(files: tuple[Path, ...]) -> GroupResolverConfig:
    """Return the resolver; cached, as ClusterShell's own: an answer is valid for its cache time."""
    from ClusterShell.NodeSet import ILLEGAL_GROUP_CHARS
    from ClusterShell.NodeUtils import (
        GroupResolverConfig,
        GroupResolverError,
        GroupResolverSourceError,
        GroupSourceNoUpcall,
    )

    class SiteGroups(GroupResolverConfig):
        """Resolver that refuses undefined groups, which ClusterShell treats as empty."""

        def group_nodes(self, group: str, namespace: str | None = None) -> list[str]:
            try:
                nodes: list[str] = super().group_nodes(group, namespace)
            except GroupResolverSourceError as error:
                source = f"source {namespace}" if namespace else "default source"
                raise GroupResolverError(f"no {source} of groups is configured") from error
            if not nodes and not self._is_defined(group, namespace):
                raise GroupResolverError(f"no group {group} is defined")
            return nodes

        def _is_defined(self, group: str, namespace: str | None) -> bool:
            try:
                return group in self.grouplist(namespace)
            except GroupSourceNoUpcall:
                return False

    resolver = SiteGroups([str(file) for file in files], illegal_chars=ILLEGAL_GROUP_CHARS)
    resolver.sources()  # reads the files: an unreadable one is not cached
    return resolver


def _defining(files: tuple[Path, ...]) -> Iterator[Path]:
    """Yield all files that define groups: the given ones, their neighbours, listed directories."""
    for file in files:
        yield file.parent
        yield from file.parent.rglob("*")
        for directory in _named_directories(file, files[-1].parent):
            yield directory
            yield from directory.glob("*")


def _named_directories(file: Path, configuration: Path) -> Iterator[Path]:
    import shlex
    from configparser import ConfigParser
    from string import Template

    parser = ConfigParser()
    parser.read_string(read_text(file, _NOUN), str(file))
    for name in _LISTS:
        for word in shlex.split(parser.get("Main", name, fallback="")):
            directory = Path(Template(word).safe_substitute(CFGDIR=str(configuration)))
            if directory.is_dir():
                yield directory


NODE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,254}")
"""Host names, IPv4 and IPv6 addresses; nothing special to ssh or a shell."""
NODES_MAXIMUM: Final = 10_000
"""More servers than any file system has; a typing error in a range could exhaust memory."""
_TEXT_MAX = 100_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"\s*([0-9]+)-([0-9]+)(?:/([0-9]+))?\s*")
_OPERATORS = frozenset("!&^@*")
_TEXT = re.compile(r"[A-Za-z0-9_.:,/!&^@*\[\]\s-]*")
_GROUP = re.compile(r"@(?:[A-Za-z0-9_][A-Za-z0-9_.-]*:)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\*)")
"""A group's name becomes part of a command of the site, which a shell runs."""
_HINT = 'write names or a ClusterShell node set: "oss[01-08],oss11"'
_GROUP_HINT = 'define the group in one of these files, or name the nodes: "oss[01-08],oss11"'


def unfold_nodes(text: str) -> tuple[str, ...]:
    """Expand a node set to names, each once, in the order of its parts.

    Groups (``@oss``) are those of the site's or the user's ClusterShell configuration on this
    host, never the Python package's examples (`trimtab.base.name_set`).

    Raises
    ------
    UsageError
        It is not a node set, a group is unknown, it is empty or too large, or a name could be
        mistaken for an option or has shell characters.

    Examples
    --------
    >>> unfold_nodes("oss[9-10],mds1")
    ('oss9', 'oss10', 'mds1')
    """
    import configparser

    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError
    from ClusterShell.RangeSet import RangeSetException

    failures = (NodeSetException, GroupResolverError, GroupSourceError, RangeSetException,
                configparser.Error, OSError, ValueError)  # fmt: skip
    _refuse_huge(text)
    _refuse_signs(text)
    by_group = "@" in text or "*" in text
    parts = [text] if _OPERATORS.intersection(text) else _parts(text)
    try:
        resolver = site_groups() if by_group else RESOLVER_NOGROUP
        names = [name for part in parts for name in NodeSet(part, resolver=resolver)]
    except failures as error:
        looked = _looked() if by_group else ""
        raise UsageError(
            f"{visible(text[:80])!r} is not a node set: {visible(str(error)[:120])}{looked}",
            code="node-set-invalid",
            hint=_GROUP_HINT if by_group else _HINT,
        ) from error
    if not names:
        looked, hint = (_looked(), _GROUP_HINT) if by_group else ("", _HINT)
        raise UsageError(
            f"{visible(text[:80])!r} has no nodes{looked}", code="node-set-empty", hint=hint
        )
    for name in names:
        check_node(name)
    return tuple(dict.fromkeys(names))


def fold_nodes(names: Sequence[str]) -> str:
    """Return the node set that `unfold_nodes` expands to the same names in the same order.

    Examples
    --------
    >>> fold_nodes(["oss1", "oss2", "oss3"]), fold_nodes(["oss2", "oss1"])
    ('oss[1-3]', 'oss2,oss1')
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    for name in names:
        check_node(name)
    folded = str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    return folded if unfold_nodes(folded) == tuple(names) else ",".join(names)


def check_node(name: str) -> None:
    """Refuse a name that cannot be a host's, or could be read as something else.

    Raises
    ------
    UsageError
        It starts with a dash or has anything but letters, digits, ``.``, ``_``, ``:`` and ``-``.
    """
    if not NODE_NAME.fullmatch(name):
        raise UsageError(
            f"{visible(name[:80])!r} is not a host name",
            code="node-name-invalid",
            hint="use letters, digits, '.', '_', ':' and '-', without a leading dash",
        )


def _parts(text: str) -> list[str]:
    """Split at commas outside brackets; a node set would sort the parts."""
    parts, depth, start = [], 0, 0
    for position, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    if not all(part.strip() for part in parts):
        raise UsageError(
            f"{visible(text[:80])!r} has nothing between two commas",
            code="node-set-invalid",
            hint=_HINT,
        )
    return parts


def _looked() -> str:
    files = ", ".join(visible(str(file)) for file in group_files())
    return f" (groups are read from {files})"


def _refuse_signs(text: str) -> None:
    """Refuse anything but names and operators, before a group is looked up."""
    references = re.split("[,!&^]", _BRACKETS.sub("0", text))
    groups = [reference.strip() for reference in references if "@" in reference]
    if not _TEXT.fullmatch(text) or not all(map(_GROUP.fullmatch, groups)):
        raise UsageError(
            f"{visible(text[:80])!r} is not a node set",
            code="node-set-invalid",
            hint=_HINT,
        )


def _refuse_huge(text: str) -> None:
    """Refuse huge sets before expanding; ClusterShell creates every name of a range."""
    if len(text) > _TEXT_MAX:
        raise UsageError(
            f"a node set of {len(text)} characters is too long",
            code="node-set-too-large",
            hint=_HINT,
        )
    total = 0
    for part in re.split(r",(?![^\[]*\])", text):
        count = 1
        for ranges in _BRACKETS.findall(part):
            count *= max(1, sum(_length(piece) for piece in ranges.split(",")))
        total += count
    if total > NODES_MAXIMUM:
        raise UsageError(
            f"{visible(text[:80])!r} has more than {NODES_MAXIMUM:,} nodes",
            code="node-set-too-large",
            hint=_HINT,
        )


def _length(piece: str) -> int:
    if len(piece) > 60:
        return NODES_MAXIMUM + 1
    piece_range = _RANGE.fullmatch(piece)
    if piece_range is None:
        return 1
    low, high, step = (int(digits or 1) for digits in piece_range.groups())
    return max(0, high - low) // max(1, step) + 1


_TARGET_HINT = 'write "OST[0000-0003],MDT0000"; the four digits are hexadecimal'
_PIECE = re.compile(r"(OST|MDT)(?:([0-9a-fA-F]{4})|\[([^\[\]]*)\])")
_NAME = re.compile(r"(OST|MDT)[0-9a-f]{4}")
_TARGET_RANGE = re.compile(r"([0-9a-fA-F]{4})(?:-([0-9a-fA-F]{4}))?")
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
                hint=_TARGET_HINT,
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
        match = _TARGET_RANGE.fullmatch(part.strip())
        if match is None:
            raise _no_targets(text)
        low = int(match[1], 16)
        high = int(match[2] or match[1], 16)
        if high < low:
            raise UsageError(
                f"{part.strip()!r} ends before it begins",
                code="target-range-reversed",
                hint=_TARGET_HINT,
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
        f"{visible(text[:80])!r} is not a set of targets",
        code="target-set-invalid",
        hint=_TARGET_HINT,
    )
