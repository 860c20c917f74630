"""One question, asked of a child with a deadline, which is left behind where it may never end.

::

    question ──> child calls it ──> answer or error ──> ends ──────────────> collected
                     │                                    └─ cannot end ──> left behind
                     └─ deadline, interruption ──> killed, not waited for ──> left behind

Whoever asks a lost server waits until it is back, and no signal ends that. What hangs is the child:
killed, it is gone when the server is back (`orphans`).
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
"""Of an answer: it is kept in memory."""
_END_S: Final = 2.0
"""For ending, once it has answered."""


def ask_child(
    question: Callable[[], _Answer], path: str, *, deadline_s: float = math.inf
) -> _Answer:
    """Return what a call answers in a child; raise what it raises there.

    Parameters
    ----------
    question
        Of names in modules that need nothing but the standard library and Trimtab's core.
    path
        What it is about, for messages.

    Raises
    ------
    NoAnswer
        Not in ``deadline_s``.
    ToolError
        The child could not be started, or was killed.
    """
    reap()
    # Paths are the same text in the child only if it decodes them as this process does. It does not
    # start in the caller's directory, which may itself be on the file system that hangs.
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
                hint="the file system may be down or overloaded: try ls on it from another shell",
            )
        child.wait(_END_S)
    finally:
        child.collect()
    if not child.stdout or child.code:
        tail = child.stderr.decode("utf-8", "replace").strip()[-300:]
        raise ToolError(
            f"asking about {visible(path)} failed ({child.code}): {tail}", code="child-failed"
        )
    answer, error = pickle.loads(child.stdout)
    if error is not None:
        raise error
    return answer


def reason_of(error: OSError | ToolError) -> str:
    """Return why a child did not answer; of the system's error its words alone."""
    words = error.strerror if isinstance(error, OSError) else None
    return visible(words or str(error))
