"""Runs one call in a child with a deadline; a child that cannot end is abandoned.

::

    question ──> child calls it ──> answer or error ──> ends ──────────────> collected
                     │                                    └─ cannot end ──> left behind
                     └─ deadline, interruption ──> killed, not waited for ──> left behind

A call to a lost server blocks until it is back, and no signal ends that. So only the child hangs:
killed, it disappears when the server is back (`orphans`).
"""

from __future__ import annotations

import math
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from trimtab.errors import NoAnswer, ToolError
from trimtab.launch.orphans import reap
from trimtab.launch.process import Child, input_file
from trimtab.units import format_bytes
from trimtab.visible import visible

_Answer = TypeVar("_Answer")

_ROOT: Final = str(Path(__file__).parents[2])
_MAIN: Final = (
    "import sys; sys.path += sys.argv[1:]; from trimtab.launch.child_main import main; main()"
)
_LIMIT_BYTES: Final = 2**30
"""Limit of an answer, which is held in memory."""
_END_S: Final = 2.0
"""Time to exit after the answer."""


def ask_child(
    question: Callable[[], _Answer], path: str, *, deadline_s: float = math.inf
) -> _Answer:
    """Run a call in a child; return its result or raise its exception.

    Parameters
    ----------
    question
        Uses only modules that need nothing but the standard library and Trimtab's core.
    path
        The path it is about, for messages.

    Raises
    ------
    NoAnswer
        No answer in ``deadline_s``.
    ToolError
        The child could not be started, or was killed.
    """
    reap()
    # The child must decode paths like this process. It does not start in the caller's directory,
    # which may be on the hanging file system.
    mode, locale = f"utf8={sys.flags.utf8_mode}", {"LC_ALL": os.environ.get("LC_ALL")}
    argv = (sys.executable, "-I", "-S", "-X", mode, "-c", _MAIN, _ROOT)
    try:
        with input_file(pickle.dumps((question, deadline_s))) as stdin:
            child = Child(
                argv, stdin, timeout_s=deadline_s, limit_bytes=_LIMIT_BYTES, environment=locale
            )
    except OSError as error:
        raise ToolError(
            f"cannot start {sys.executable}: {error.strerror}", code="program-not-started"
        ) from error
    try:
        answered = child.wait(deadline_s, until=lambda: "stdout" not in child.pipes)
        if child.truncated:
            raise ToolError(
                f"the answer about {visible(path)} is larger than {format_bytes(_LIMIT_BYTES)}",
                code="output-limit",
            )
        if not answered:
            raise NoAnswer(
                f"{visible(path)} did not answer in {deadline_s:g} s",
                code="no-answer",
                hint="the file system may be down or overloaded: try ls on it in another shell",
            )
        child.wait(_END_S)
    finally:
        child.collect()
    if not child.stdout or child.code:
        tail = child.stderr.decode("utf-8", "replace").strip()[-300:]
        raise ToolError(
            f"access to {visible(path)} failed ({child.code}): {tail}", code="child-failed"
        )
    answer, error = pickle.loads(child.stdout)
    if error is not None:
        raise error
    return answer


def reason_of(error: OSError | ToolError) -> str:
    """Return why a child did not answer; for a system error only its text."""
    words = error.strerror if isinstance(error, OSError) else None
    return visible(words or str(error))
