"""mdtest: how many files and directories a file system creates, stats, reads and removes a second.

`launch` makes its command and finds its version, `output` takes its text apart, `arguments` reads
the command line that it prints, `figures` says which of the printed rates can be believed.

Versions are alike on paper and differ in what their numbers mean; `figures` has the table.
"""

from __future__ import annotations

import re
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.mdtest.figures import measured
from trimtab.measure.mdtest.launch import command, version
from trimtab.measure.mdtest.output import executions
from trimtab.measure.measurement import Measurement
from trimtab.measure.source import Format, Mark, Source

__all__ = ["FORMAT", "KIND", "command", "read", "version"]

KIND: Final = "mdtest"
_HEAD: Final = re.compile(r"^mdtest-\S{1,40} was launched with [0-9]+ total task", re.MULTILINE)


def read(source: Source) -> tuple[Measurement, ...]:
    """Return a result for each test in an output; see `trimtab.measure.source`.

    An output holds several where mdtest ran several times into it, and where ``-f`` and ``-l`` had
    it go through numbers of tasks. All but the first have a name: ``run 2`` ...

    Raises
    ------
    DataError
        mdtest never said in it that it was launched.
    """
    measurements = measured(KIND, executions(source.text))
    if not measurements:
        raise DataError("no launch of mdtest in this file", code="not-this-format", line=1)
    return measurements


def _recognises(source: Source) -> bool:
    return _HEAD.search(source.head.replace("\r", "")) is not None


_BEGINNING: Final = re.compile(
    rb"^(?:-- started at [0-9/]{8,10} [0-9:]{8} --\s{1,9})?mdtest-\S{1,40} was launched with ",
    re.MULTILINE,
)
FORMAT: Final = Format(KIND, _recognises, read, beginning=Mark((b"mdtest-",), _BEGINNING))
