"""Builds the command of a survey on one server. Pure.

The survey is a shell script that reads its parameters from the environment. They are passed as
arguments of ``env``, so that no shell parses them. It runs in its own process group and writes the
group's number to a file, because killing ssh does not end the remote processes.

Source: the head of lustre-iokit/obdfilter-survey/obdfilter-survey.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.errors import UsageError
from trimtab.units import MIB

TESTS: Final = ("write", "rewrite", "read")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,8}-OST[0-9a-fA-F]{4}")
_THREADS_MAXIMUM: Final = 1024
_RECORD_KIB_MAXIMUM: Final = 4096
_LEAD: Final = 'echo $$ > "$1" && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class SurveySpec:
    """One combination of a survey.

    Attributes
    ----------
    size_bytes
        Bytes that each target writes, rewrites and reads.
    objects, threads
        Per target; threads are a multiple of objects.
    """

    size_bytes: int = 16 * 2**30
    objects: int = 1
    threads: int = 16
    record_bytes: int = 2**20
    tests: tuple[str, ...] = TESTS

    def __post_init__(self) -> None:
        """Refuse what the survey would refuse, or silently do differently.

        Raises
        ------
        UsageError
            A number is out of bounds.
        """
        record_kib = self.record_bytes // 1024
        if self.record_bytes % 4096 or not 4 <= record_kib <= _RECORD_KIB_MAXIMUM:
            raise UsageError(
                f"a record size of {self.record_bytes} bytes: use 4 KiB to 4 MiB in whole pages",
                code="record-size-invalid",
            )
        if not 1 <= self.objects <= self.threads <= _THREADS_MAXIMUM or self.threads % self.objects:
            problem = f"{self.threads} threads and {self.objects} objects"
            hint = "threads must be a multiple of objects, at most 1024"
            raise UsageError(problem, code="threads-invalid", hint=hint)
        if self.size_bytes % MIB or self.size_bytes % (self.record_bytes * self.threads):
            problem = f"{self.size_bytes} bytes do not divide into whole records for each thread"
            hint = "take a multiple of 1 MiB times the threads"
            raise UsageError(problem, code="size-invalid", hint=hint)
        if not self.size_bytes:
            raise UsageError("no objects to write", code="objects-missing")
        if self.tests[:1] != ("write",) or not set(self.tests) <= set(TESTS):
            hint = f"known: {', '.join(TESTS)}"
            raise UsageError("the first test must be write", code="tests-invalid", hint=hint)

    def compared_settings(self, *, together: bool) -> dict[str, object]:
        """Return the parameters per target; surveys that differ in them are never compared.

        Includes ``together`` only if true: targets of one server measured at the same time share
        its network and CPUs, so a lower rate is not a regression.
        """
        settings: dict[str, object] = {
            "case": "disk",
            "size_bytes": self.size_bytes,
            "transfer_size_bytes": self.record_bytes,
            "objects_per_target": self.objects,
            "threads_per_target": self.threads,
            "tests": list(self.tests),
        }
        return settings | {"together": True} if together else settings


def command(
    spec: SurveySpec,
    targets: Sequence[str],
    *,
    directory: str,
    deadline_s: float,
    program: str = "obdfilter-survey",
) -> tuple[str, ...]:
    """Return the command that surveys targets of one server simultaneously.

    Parameters
    ----------
    targets
        Lustre's full names: ``scratch-OST0000``.
    directory
        On the server, for the results (``survey.summary``, ``survey.detail``) and the process
        group's number (``survey.group``).
    deadline_s
        Time after which the server ends it.

    Raises
    ------
    UsageError
        A name is not an OST's.
    """
    for name in targets:
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is not a Lustre OST name", code="target-invalid")
    variables = {
        "case": "disk",
        "targets": " ".join(targets),
        "size": str(spec.size_bytes // MIB),
        "nobjlo": str(spec.objects),
        "nobjhi": str(spec.objects),
        "thrlo": str(spec.threads),
        "thrhi": str(spec.threads),
        "rszlo": str(spec.record_bytes // 1024),
        "rszhi": str(spec.record_bytes // 1024),
        "tests_str": " ".join(spec.tests),
        "rslt_loc": directory,
        "rslt": f"{directory}/survey",
    }
    return (
        *("setsid", "-w", "sh", "-c", _LEAD, "sh", f"{directory}/survey.group"),
        *("timeout", "-k", "30", f"{deadline_s:.0f}"),
        *("env", *(f"{name}={value}" for name, value in variables.items()), program),
    )
