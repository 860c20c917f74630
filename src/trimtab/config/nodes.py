"""Expands node sets of the site file to names that are safe in a command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trimtab.config import node_groups
from trimtab.errors import UsageError
from trimtab.visible import visible

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
    host, never the Python package's examples (`trimtab.config.node_groups`).

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
        resolver = node_groups.site_groups() if by_group else RESOLVER_NOGROUP
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
    files = ", ".join(visible(str(file)) for file in node_groups.group_files())
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
