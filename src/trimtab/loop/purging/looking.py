"""Files looked at, exactly or by their identifiers, in a process that may be left behind.

Whoever asks a lost OST for a size waits until it is back or deactivated; no signal ends that, and a
process with such a thread does not end either. So a child asks. The core in it waits for no file
without end (`crates/namespace/src/patience.rs`): a file whose servers are late has ``ETIMEDOUT``. A
child that has answered and cannot end is left behind, and is gone when the OST is back.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from trimtab.errors import ToolError
from trimtab.launch.child import input_file
from trimtab.launch.orphans import abandon, reap
from trimtab.purge.index.size_sample import NO_PROJECTS, Asked, Exact, Look

DEADLINE_S: Final = 60.0
"""For one file; once one was late, a sixth of it. A failover that goes well takes less."""
_END_S: Final = 2.0


def look_on(
    root: str, *, lustre: bool, project: bool, threads: int = 0, deadline_s: float = DEADLINE_S
) -> Look:
    """Return what looks at files beneath a root of this host, by FID on Lustre.

    Raises what the core raises; `ToolError` where its process was killed.
    """

    def look(files: Sequence[Asked]) -> Sequence[Exact]:
        rows = [(file.id, file.parent, file.name) for file in files]
        request = {"root": root, "files": rows, "lustre": lustre, "threads": threads}
        answers: Sequence[Exact] = ()
        for with_project in dict.fromkeys((project, False)):
            columns = ask_core(
                "glimpse", {**request, "project": with_project, "deadline_s": deadline_s}
            )
            answers = [Exact(*answer) for answer in zip(*columns, strict=True)]
            if not with_project or any(answer.errno not in NO_PROJECTS for answer in answers):
                break
        return answers

    return look


def ask_core(function: str, request: dict[str, Any]) -> Any:
    """Return what a function of the core answers in a child; it ends by itself, or is left behind.

    Parameters
    ----------
    request
        Its arguments by name.
    """
    reap()
    with input_file(pickle.dumps((function, request))) as path, Path(path).open("rb") as questions:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=questions,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
    assert child.stdout is not None
    try:
        output = child.stdout.read()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)
    finally:
        child.stdout.close()
        # It may not end by itself, whatever it answered.
        if (code := child.poll()) is None:
            abandon(child)
    if not output:
        raise ToolError(f"looking at files ended without an answer ({code})", code="child-failed")
    answer = pickle.loads(output)
    if isinstance(answer, Exception):
        raise answer
    return answer


def main() -> None:
    """Answer one request on standard input."""
    from trimtab import _core

    function, request = pickle.load(sys.stdin.buffer)
    try:
        answer: object = getattr(_core, function)(**request)
    except Exception as error:  # noqa: BLE001 (the parent raises it)
        answer = error
    # Closed, it has ended for whoever reads, though threads may keep the process.
    with os.fdopen(1, "wb") as output:
        pickle.dump(answer, output)
    os._exit(0)


if __name__ == "__main__":
    main()
