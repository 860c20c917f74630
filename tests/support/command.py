"""The installed ``trimtab`` as a user runs it: a process, with its exit code and its output."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from tests.support.forked import PROGRAM, fork

TRIMTAB: Final = PROGRAM


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """What ``--json`` printed: one object and nothing else."""
        return json.loads(self.stdout)

    def ids(self) -> list[str]:
        """Return the ids of the findings of a check."""
        return [finding["id"] for finding in self.document["findings"]]

    def finding(self, identifier: str) -> dict[str, Any]:
        """Return one finding of a check."""
        return next(one for one in self.document["findings"] if one["id"] == identifier)


def trimtab(
    *arguments: object, store: Path | str, timeout_s: float = 120.0, **environment: str
) -> Ended:
    """Run ``trimtab`` with a store of the test's own and return how it ended.

    It is forked from a process that has made its imports; `installed` starts it as users do.
    """
    read_at_start = [name for name in environment if name.startswith(("PYTHON", "LC_", "LANG"))]
    assert not read_at_start, "what an interpreter reads when it starts: use `installed`"
    variables = {"TRIMTAB_STORE": str(store), **environment}
    return forked(*arguments, timeout_s=timeout_s, environment=variables)


def installed(
    *arguments: object, store: Path | str, timeout_s: float = 120.0, **environment: str
) -> Ended:
    """Run ``trimtab`` as it is installed, a new interpreter that imports what it needs."""
    ended = subprocess.run(
        [str(TRIMTAB), *map(str, arguments)],
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "TRIMTAB_STORE": str(store), **environment},
    )
    return Ended(ended.returncode, _text(ended.stdout), _text(ended.stderr))


def forked(
    *arguments: object,
    timeout_s: float = 120.0,
    environment: Mapping[str, str],
    **how: Any,
) -> Ended:
    """Run ``trimtab``, or another program, in a process that was forked."""
    with TemporaryFile() as stdout, TemporaryFile() as stderr:
        process = fork(
            *arguments,
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            environment=environment,
            **how,
        )
        if not process.ended_within(timeout_s):
            process.kill()
            process.wait()
            raise subprocess.TimeoutExpired(["trimtab", *map(str, arguments)], timeout_s)
        code = process.wait()
        texts = [
            _text(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
            for file in (stdout, stderr)
        ]
    return Ended(code, *texts)


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace")
