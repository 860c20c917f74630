"""Files looked at, exactly or by their identifiers, in a process that may be left behind.

Whoever asks a lost OST for a size waits until it is back or deactivated; no signal ends that, and a
process with such a thread does not end either. So a child asks. The core in it waits for no file
without end (`crates/namespace/src/patience.rs`): a file whose servers are late has ``ETIMEDOUT``. A
child that has answered and cannot end is left behind, and is gone when the OST is back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from trimtab.launch.child import ask_child
from trimtab.purge.index.exact_size import NO_PROJECTS, Asked, Exact, Look

DEADLINE_S: Final = 60.0
"""For one file; once one was late, a sixth of it. A failover that goes well takes less."""


def look_on(
    root: str, *, lustre: bool, project: bool, threads: int = 0, deadline_s: float = DEADLINE_S
) -> Look:
    """Return what looks at files beneath a root of this host, by FID on Lustre.

    Raises what the core raises; `ToolError` where its process was killed.
    """
    from trimtab._core import glimpse

    def look(files: Sequence[Asked]) -> Sequence[Exact]:
        rows = [(file.id, file.parent, file.name) for file in files]
        question = partial(
            glimpse, root, rows, lustre=lustre, threads=threads, deadline_s=deadline_s
        )
        answers: Sequence[Exact] = ()
        for with_project in dict.fromkeys((project, False)):
            columns = ask_child(partial(question, project=with_project), root)
            answers = [Exact(*answer) for answer in zip(*columns, strict=True)]
            if not with_project or any(answer.errno not in NO_PROJECTS for answer in answers):
                break
        return answers

    return look
