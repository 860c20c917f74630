"""Node sets of the site file, unfolded to names that may stand in a command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trimtab.errors import UsageError
from trimtab.visible import visible

NODE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,254}")
"""Host names, IPv4 and IPv6 addresses; nothing that ssh or a shell could take for more."""
NODES_MAXIMUM: Final = 10_000
"""More servers than any file system has; a typing error in a range would fill the memory."""
_TEXT_MAX = 100_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"\s*([0-9]+)-([0-9]+)(?:/([0-9]+))?\s*")
_OPERATORS = frozenset("!&^@*")
_GROUP_HINT = (
    "ClusterShell knows no such group here (nodeset -L lists them); "
    "name the nodes instead, as nodeset -f prints them"
)
_HINT = 'write names or a ClusterShell node set: "oss[01-08],oss11"'


def unfold_nodes(text: str) -> tuple[str, ...]:
    """Return the names of a node set, each once, in the order of its parts.

    Groups (``@oss``) are what ClusterShell's own configuration on this host says.

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
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError
    from ClusterShell.RangeSet import RangeSetException

    failures = (NodeSetException, GroupResolverError, GroupSourceError, RangeSetException)
    _refuse_huge(text)
    parts = [text] if _OPERATORS.intersection(text) else _parts(text)
    try:
        names = [name for part in parts for name in NodeSet(part)]
    except failures as error:
        hint = _GROUP_HINT if "@" in text else _HINT
        raise UsageError(
            f"{visible(text[:80])!r} is not a node set: {visible(str(error)[:120])}",
            code="node-set-invalid",
            hint=hint,
        ) from error
    if not names:
        hint = _GROUP_HINT if "@" in text else _HINT
        raise UsageError(f"{visible(text[:80])!r} names no node", code="node-set-empty", hint=hint)
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
    from ClusterShell.NodeSet import NodeSet

    for name in names:
        check_node(name)
    folded = str(NodeSet.fromlist(names))
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
