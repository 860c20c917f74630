"""One run with everything behind its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.errors import UsageError
from trimtab.report.documents.kept import OutputRow, ShowDocument

if TYPE_CHECKING:
    from trimtab.record.store import Store


def show_run(store: Store, prefix: str) -> ShowDocument:
    """Return the run whose id begins with ``prefix``, and its raw outputs as they are kept.

    Raises
    ------
    UsageError
        No run or several begin with it.
    """
    run = store.run(prefix)
    outputs = (
        OutputRow(output, str(store.raw.file(output.stdout_sha256)))
        for output in store.outputs(run.id)
    )
    return ShowDocument(str(store.location), run, tuple(outputs))


def raw_output(store: Store, prefix: str, ordinal: int) -> bytes:
    """Return what the tool printed, byte for byte, checked against its hash.

    Raises
    ------
    UsageError
        There is no such run, or no such output of it.
    UnreadableError
        The file is damaged or gone.
    """
    outputs = store.outputs(prefix)
    for output in outputs:
        if output.ordinal == ordinal:
            return store.raw_output(output).stdout
    raise UsageError(
        f"the run has no output {ordinal}",
        code="output-unknown",
        hint=f"it has {len(outputs)}, counted from 0",
    )
