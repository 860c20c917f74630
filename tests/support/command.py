"""The installed ``trimtab`` as a user runs it: a process, with its exit code and its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIMTAB = Path(sys.executable).parent / "trimtab"


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


def trimtab(*arguments: object, store: Path, timeout_s: float = 120.0, **environment: str) -> Ended:
    """Run ``trimtab`` with a store of the test's own and return how it ended."""
    ended = subprocess.run(
        [str(TRIMTAB), *map(str, arguments)],
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "TRIMTAB_STORE": str(store), **environment},
    )
    return Ended(
        ended.returncode,
        ended.stdout.decode("utf-8", "replace"),
        ended.stderr.decode("utf-8", "replace"),
    )
