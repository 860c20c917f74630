"""Purge plans on schedule: scanned, planned and published beside the watch, each by a process.

The watch never arms or runs a plan. A scan takes hours: its process goes on while probes run, and
is resumed by the next watch if this one ends::

    DIRECTORY/2026-11-22T0300Z.index    trimtab purge scan
    DIRECTORY/2026-11-22T0300Z.plan     trimtab purge plan
                                        trimtab purge notify
    DIRECTORY/2026-11-22T0300Z.log      what they printed
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from trimtab.base.error import system_errors
from trimtab.base.site import Site
from trimtab.base.visible import visible
from trimtab.purge.index.manifest_file import MANIFEST
from trimtab.store.location import STORE_VARIABLE
from trimtab.watch.log import fields

_END_S: Final = 30.0
"""So long a process may take to end when it is asked to: a scan writes its checkpoint."""
_COMMAND: Final = (sys.executable, "-m", "trimtab.cli", "purge")
_OUTPUT_BYTES: Final = 65536
_NOT_NEEDED: Final = "nothing-needed"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One command on the way to a published plan.

    Attributes
    ----------
    done
        What is there once it has ended well; ``None``: it can be repeated.
    """

    words: tuple[str, ...]
    done: Path | None = None


def steps(site: Site, due_at: datetime) -> tuple[PlanStep, ...]:
    """Return the commands that make and publish the plan of a slot."""
    policy = site.policies.purge
    assert policy.policy is not None
    index, plan = (_path(site, due_at, kind) for kind in ("index", "plan"))
    where = site.source or site.name
    scan = ("scan", site.path, "--index", str(index))
    freeze = ("plan", "--index", str(index), "--policy", policy.policy, "--out", str(plan))
    freeze += ("--site", where)
    made = (PlanStep(scan, index / MANIFEST), PlanStep(freeze, plan))
    return (*made, PlanStep(("notify", str(plan)))) if policy.publish else made


def _path(site: Site, due_at: datetime, kind: str) -> Path:
    """Return where the ``index``, ``plan`` or ``log`` of a slot is."""
    directory = site.policies.purge.directory
    assert directory is not None
    return Path(directory, f"{due_at.astimezone(UTC):%Y-%m-%dT%H%MZ}.{kind}")


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """How the making of a plan ended; a plan that is not needed is no failure."""

    failed: bool = False
    detail: str | None = None


@dataclass(slots=True)
class PurgePlanning:
    """The process that works on a slot's plan, if there is one.

    Attributes
    ----------
    store
        URL, for the growth forecast of the plan; it may hold a password, and is not an argument.
    """

    site: Site
    store: str
    log: logging.Logger
    command: Sequence[str] = _COMMAND
    due_at: datetime | None = field(default=None, init=False)
    _left: list[PlanStep] = field(default_factory=list, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def begin(self, due_at: datetime) -> None:
        """Begin what is left to do of a slot's plan."""
        self.due_at = due_at
        todo = steps(self.site, due_at)
        self._left = [step for step in todo if step.done is None or not step.done.exists()]

    def ended(self) -> PlanEnd | None:
        """Go on with the next step where one has ended, and return how all went once they have.

        ``None``: under way.
        """
        if self.due_at is None:
            return None
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return None
            self._process, step = None, self._left.pop(0)
            if code != 0:
                problem, detail = self._problem(code)
                self._left, self.due_at = [], None
                needed = problem != _NOT_NEEDED
                return PlanEnd(failed=needed, detail=f"purge {step.words[0]}: {detail}")
        if self._left:
            self._next()
            return None
        self.due_at = None
        return PlanEnd()

    def stop(self) -> None:
        """End the process; the next watch resumes what it did."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _next(self) -> None:
        words = self._left[0].words
        self.log.info(f"purge {words[0]} begins", extra=fields(words=list(words)))
        with self._output("ab") as output:
            self._process = subprocess.Popen(
                [*self.command, *words, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, STORE_VARIABLE: self.store},
                start_new_session=True,
            )

    @contextlib.contextmanager
    def _output(self, mode: str) -> Iterator[IO[bytes]]:
        assert self.due_at is not None
        path = _path(self.site, self.due_at, "log")
        with system_errors(f"cannot write {visible(str(path))}", code="log-unwritable"):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open(mode) as file:
                yield file

    def _problem(self, exit_code: int) -> tuple[str, str]:
        """Return code and sentence of the error that a command ended with."""
        with self._output("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
            lines = output.read().decode(errors="replace").split("\n")
        for line in reversed(lines):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                error = json.loads(line)["error"]
                return str(error["code"]), visible(str(error["message"]))
        words = next((line for line in reversed(lines) if line), "it said nothing")
        return "", visible(f"exit code {exit_code}: {words}")
