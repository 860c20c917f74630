"""One run with everything behind its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.errors import UsageError
from trimtab.model.run import Run

if TYPE_CHECKING:
    from trimtab.record.kept import KeptOutput
    from trimtab.record.store import Store


@dataclass(frozen=True, slots=True)
class Shown:
    """A run, its raw outputs as they are kept, and the file that holds each.

    Attributes
    ----------
    files
        Ordinal to the zlib-compressed file with the output's stdout.
    """

    store: str
    run: Run
    outputs: tuple[KeptOutput, ...]
    files: dict[int, str]


def show_run(store: Store, prefix: str) -> Shown:
    """Return the run whose id begins with ``prefix``.

    Raises
    ------
    UsageError
        No run or several begin with it.
    """
    run = store.run(prefix)
    outputs = store.outputs(run.id)
    files = {output.ordinal: str(store.raw.file(output.stdout_sha256)) for output in outputs}
    return Shown(str(store.location), run, outputs, files)


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
