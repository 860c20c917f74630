"""Whether the file system that is purged answers, asked before a step touches it; how full it is.

A scan and a run go over the root in their own process: where the file system hangs, they hang, and
maybe not even a signal ends them. So a throw-away child lists the root first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from trimtab.errors import NoAnswer, TrimtabError
from trimtab.launch import bounded
from trimtab.purge.horizon.usage import Usage
from trimtab.visible import visible

DEADLINE_S: Final = 15.0
"""More than for a probe: the metadata server of a file system that needs a purge may be busy."""
Measure = Callable[[str], Usage]
"""From the path of a root to its use: `usage_now`, or what stands for it in a test."""


def require_answer(root: str, noun: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Raise where the file system of a root does not answer.

    What else is wrong with the root, whoever goes over it says better.

    Parameters
    ----------
    noun
        What would be begun: ``the scan``.

    Raises
    ------
    NoAnswer
        The names in the root could not be had within ``deadline_s``.
    """
    try:
        bounded.list_names(root, deadline_s=deadline_s, limit=1)
    except NoAnswer as error:
        shown = visible(root)
        raise NoAnswer(
            f"{shown} did not answer in {deadline_s:g} s: {noun} was not begun",
            code="no-answer",
            hint=f"does `ls {shown}` answer in another shell? see its servers and the kernel log "
            "(dmesg) of this host; nothing was changed, and the same command can be given again",
        ) from error
    except TrimtabError:
        return


def usage_now(root: str) -> Usage:
    """Return how full the file system of a root is, as ``df`` has it; never hangs.

    Raises
    ------
    TrimtabError
        It cannot be asked, or did not answer in time.
    """
    space = bounded.free_space(root)
    return Usage(space.used_bytes, space.available_bytes, space.capacity_bytes)


def inodes_in_use(root: str) -> tuple[int, bool]:
    """Return the inodes of a root's file system, and whether all of them are beneath the root.

    0 where it does not say; a scan then has no end that could be estimated.
    """
    try:
        space = bounded.free_space(root)
    except TrimtabError:
        return 0, False
    return max(0, space.inodes - space.inodes_free), os.path.ismount(root)
