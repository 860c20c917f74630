"""Lists directories of a mounted Lustre by FID, and finds the MDTs of FIDs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from trimtab.drivers.lustre.listing_child import Names, list_by_fid, mdt_indices
from trimtab.errors import ToolError
from trimtab.launch.child import ask_child, reason_of
from trimtab.visible import visible

_TIMEOUT_S: Final = 600.0
_BATCH: Final = 1000
"""Directories per child: its answer is held in memory."""

_Answer = TypeVar("_Answer")


def list_directories(root: str, directories: Sequence[bytes]) -> Iterator[tuple[bytes, Names, int]]:
    """Yield each directory, its entries and its error number (0 also for a deleted one).

    Raises
    ------
    ToolError
        They could not be listed in time.
    """
    from trimtab._core import GONE_ERRNOS

    for start in range(0, len(directories), _BATCH):
        batch = directories[start : start + _BATCH]
        answers = _answer(partial(list_by_fid, root, batch, GONE_ERRNOS), root)
        for directory, (names, number) in zip(batch, answers, strict=True):
            yield directory, names, number


def mdts_of_fids(root: str, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
    """Return the MDT of each FID, from its sequence; ``None`` if Lustre does not know.

    Raises
    ------
    ToolError
        They could not be queried in time.
    """
    one_each = list({file[:8]: file for file in files}.values())
    indices = _answer(partial(mdt_indices, root, one_each), root)
    of_sequence = {
        file[:8]: None if index is None else f"MDT{index:04x}"
        for file, index in zip(one_each, indices, strict=True)
    }
    return {file: of_sequence[file[:8]] for file in files}


def _answer(question: Callable[[], _Answer], root: str) -> _Answer:
    try:
        return ask_child(question, root, deadline_s=_TIMEOUT_S)
    except (OSError, ToolError) as error:
        raise ToolError(
            f"directories of {visible(root)} cannot be listed: {reason_of(error)}",
            code="listing-failed",
            hint="the index is intact; repeat the command",
        ) from error
