"""Whether the file system that is purged answers, asked before a step touches it itself.

A scan and a run go over the root in their own process: where the file system hangs, they hang, and
maybe not even a signal ends them. So a throw-away child lists the root first.
"""

from __future__ import annotations

from typing import Final

from trimtab.errors import NoAnswer, TrimtabError
from trimtab.launch import bounded
from trimtab.visible import visible

DEADLINE_S: Final = 15.0
"""More than for a probe: the metadata server of a file system that needs a purge may be busy."""


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
