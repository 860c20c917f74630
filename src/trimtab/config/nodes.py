"""Node sets of the site file, unfolded to names that may stand in a command."""

from __future__ import annotations

import configparser
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.visible import visible

if TYPE_CHECKING:
    from ClusterShell.NodeUtils import GroupResolverConfig

NODE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,254}")
"""Host names, IPv4 and IPv6 addresses; nothing that ssh or a shell could take for more."""
NODES_MAXIMUM: Final = 10_000
"""More servers than any file system has; a typing error in a range would fill the memory."""
_TEXT_MAX = 100_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"\s*([0-9]+)-([0-9]+)(?:/([0-9]+))?\s*")
_OPERATORS = frozenset("!&^@*")
_TEXT = re.compile(r"[A-Za-z0-9_.:,/!&^@*\[\]\s-]*")
_GROUP = re.compile(r"@(?:[A-Za-z0-9_][A-Za-z0-9_.-]*:)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\*)")
"""A group's name stands in a command line of the site's, which a shell runs."""
_HINT = 'write names or a ClusterShell node set: "oss[01-08],oss11"'
_GROUP_HINT = 'define the group in one of these files, or name the nodes: "oss[01-08],oss11"'


def unfold_nodes(text: str) -> tuple[str, ...]:
    """Return the names of a node set, each once, in the order of its parts.

    Groups (``@oss``) are those of the site's or the user's ClusterShell configuration on this
    host; the examples of the Python package are never among them (`trimtab.config.node_groups`).

    Raises
    ------
    UsageError
        It is no node set, a group is not known, it is empty or far too large, or a name could be
        taken for an option or hold signs of the shell.

    Examples
    --------
    >>> unfold_nodes("oss[9-10],mds1")
    ('oss9', 'oss10', 'mds1')
    """
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
        resolver = _site_groups() if by_group else RESOLVER_NOGROUP
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
            f"{visible(text[:80])!r} names no node{looked}", code="node-set-empty", hint=hint
        )
    for name in names:
        check_node(name)
    return tuple(dict.fromkeys(names))


def fold_nodes(names: Sequence[str]) -> str:
    """Return the node set that `unfold_nodes` turns into the same names in the same order.

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
    """Raise where a name cannot be that of a host, or would be read as something else.

    Raises
    ------
    UsageError
        It begins with a dash or holds anything but letters, digits, ``.``, ``_``, ``:``
        and ``-``.
    """
    if not NODE_NAME.fullmatch(name):
        raise UsageError(
            f"{visible(name[:80])!r} is not the name of a host",
            code="node-name-invalid",
            hint="names and addresses are letters, digits, '.', '_', ':' and '-'; no dash first",
        )


def _parts(text: str) -> list[str]:
    """Return what the commas outside brackets divide; a node set would sort them."""
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


def _site_groups() -> GroupResolverConfig:
    from trimtab.config.node_groups import site_groups

    return site_groups()


def _looked() -> str:
    from trimtab.config.node_groups import group_files

    return f" (groups are read from {', '.join(visible(str(file)) for file in group_files())})"


def _refuse_signs(text: str) -> None:
    """Raise where something is neither a name nor an operator, before a group is looked up."""
    references = re.split("[,!&^]", _BRACKETS.sub("0", text))
    groups = [reference.strip() for reference in references if "@" in reference]
    if not _TEXT.fullmatch(text) or not all(map(_GROUP.fullmatch, groups)):
        raise UsageError(
            f"{visible(text[:80])!r} is not a node set",
            code="node-set-invalid",
            hint=_HINT,
        )


def _refuse_huge(text: str) -> None:
    """Raise before anything is unfolded; ClusterShell makes every name of a range."""
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
            f"{visible(text[:80])!r} names more than {NODES_MAXIMUM:,} nodes",
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
