"""A small world for a run: real files, a slow and obvious remover, surroundings that are made up.

The remover checks nothing but that a file has the size that was planned; as the real one it moves a
file aside before it removes it. What the real one checks is tested beside it; here it is how a run
goes by what it says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import pytest
from tests.purge.plan.making import draft
from tests.purge.run.lines import fates_of, journal_of, plan_line, standing_of

from trimtab.purge.fullness import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.deletion_plan import (
    FORMAT,
    Candidates,
    DeletionPlan,
    FilePart,
    PlannedFileSystem,
    UserTotals,
)
from trimtab.purge.plan.plan_signature import Publication
from trimtab.purge.purge_policy import Policy, RunCaps
from trimtab.purge.run.next_step import RunTerms, terms_of
from trimtab.purge.run.plan_progress import PlanProgress
from trimtab.purge.run.rows import ListedRows, Rows
from trimtab.purge.run.run_account import RunJob, RunResult
from trimtab.purge.run.run_journal import read
from trimtab.purge.run.runner import run
from trimtab.purge.run.situation import (
    AllowList,
    ArmedBy,
    ArmingFacts,
    CanaryFacts,
    Planned,
    RootFacts,
    Situation,
)

T = TypeVar("T")
NOW_S = 1_700_000_000.0
DAY_S = 86400.0
FILE_BYTES = 4096
NO_CAPS = RunCaps(files=None, bytes=None, user_fraction=None, filesystem_fraction=None)
CODES = {1: "deleted", 2: "would_delete", 3: "gone", 4: "touched", 15: "too_young", 20: "failed"}
CODE_OF = {name: code for code, name in CODES.items()}
EXT4 = FileSystemIdentity("ext4", "/dev/md0", 77)
RELATIME = {"mount options": "relatime"}


def time_of(at_s: float) -> datetime:
    """Return seconds since 1970 as a time."""
    return datetime.fromtimestamp(at_s, UTC)


def file_system(identity: FileSystemIdentity = EXT4, root: str = "/scratch") -> PlannedFileSystem:
    """Return a file system as a plan has it."""
    return PlannedFileSystem(
        identity.kind, identity.name, identity.fsid, root, identity.uuid, identity.mount,
        identity.made_ns, identity.root_inode, identity.root_path,
    )  # fmt: skip


def candidates(
    files: int, allocated_bytes: int, held: Mapping[int, int | None] | None = None
) -> Candidates:
    """Return so many candidates, of users who hold so much."""
    users = (UserTotals(uid, 1, 1, 1, 0, 0, size) for uid, size in (held or {}).items())
    parts = (FilePart(files, 1, "ab" * 32), FilePart(0, 1, "ab" * 32))
    return Candidates(files, 1, allocated_bytes, "ab" * 32, tuple(users), parts)


def plan() -> DeletionPlan:
    """Return a plan that was made twenty days ago."""
    made = draft(time_of(NOW_S - 20 * DAY_S))
    return DeletionPlan(
        format=FORMAT,
        id="plan-1",
        made_at=made.made_at,
        notice_s=made.notice_s,
        expires_at=time_of(NOW_S + 5 * DAY_S),
        file_system=file_system(),
        index=replace(made.index, ended_at=time_of(NOW_S - 21 * DAY_S), atime_settings=RELATIME),
        policy=made.policy,
        rules=made.rules,
        horizon=made.horizon,
        candidates=candidates(2000, 2**31),
        quarantine=made.quarantine,
    )


def publication(
    published_at_s: float = NOW_S - 20 * DAY_S, not_before_s: float = NOW_S - 6 * DAY_S
) -> Publication:
    """Return the evidence that a plan was published."""
    at, not_before = time_of(published_at_s), time_of(not_before_s)
    return Publication("plan-1", "ab" * 32, at, not_before, "/lists", None, ())


def policy(**changes: object) -> Policy:
    """Return a policy whose caps stop nothing."""
    return replace(Policy("scratch", "/scratch", target=0.7, caps=NO_CAPS), **changes)  # type: ignore[arg-type]


def situation(**changes: object) -> Situation:
    """Return a situation in which no guard has anything to object."""
    good = Situation(
        now_s=NOW_S,
        policy=policy(),
        planned=Planned(plan(), publication(), previous=candidates(1500, 2**31)),
        root=RootFacts(None, EXT4, atime_settings=RELATIME),
        allow_list=AllowList(None, frozenset({b"/scratch", b"/other"})),
        arming=ArmingFacts(None, (ArmedBy(NOW_S - 2 * DAY_S, 1001, "alice"),)),
        root_user=True,
        kill_switch=None,
        canary=CanaryFacts(None, NOW_S - 1, NOW_S - 1.1, NOW_S - 0.9),
        usage=Usage(80 * 2**30, 20 * 2**30),
    )
    return replace(good, **changes)  # type: ignore[arg-type]


def with_planned(now: Situation, **changes: object) -> Situation:
    """Return a situation in which something else is known of the plan."""
    return replace(now, planned=replace(now.planned, **changes))  # type: ignore[arg-type]


def with_plan(now: Situation, **changes: object) -> Situation:
    """Return a situation with another plan; of a part of it, a mapping says what is other."""
    plan = now.planned.plan
    whole = {
        name: replace(getattr(plan, name), **change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return with_planned(now, plan=replace(plan, **whole))  # type: ignore[arg-type]


@dataclass
class Answer:
    """What a remover says of some rows."""

    outcomes: bytes
    freed_bytes: int
    elapsed_s: float = 0.01
    latency_s_median: float = 0.001
    latency_s_p99: float = 0.002
    unexplained: Sequence[bytes] = ()
    errors: Sequence[tuple[int, int]] = ()


def undisturbed(_call: str, _row: int) -> None:
    """Let a remover do what it does."""


@dataclass
class SlowRemover:
    """Removes real files one by one.

    Attributes
    ----------
    paths
        One a row.
    aside
        Directory that files are moved to.
    restoring
        Every file is too young for it.
    asked
        What was asked, in order.
    delay_s
        Before each file.
    """

    paths: Sequence[Path]
    aside: Path
    delay_s: float = 0.0
    restoring: bool = False
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    before: Callable[[str, int], None] = undisturbed
    watches: bool | None = None

    def check(self, first: int, count: int) -> Answer:
        self.asked.append(("check", first, count))
        return self._answer([self._seen(row) for row in range(first, first + count)])

    def delete(self, first: int, count: int, until_s: float | None = None) -> Answer:
        assert until_s is None, "who is alone has no lease"
        self.asked.append(("delete", first, count))
        return self._answer([self._delete(row) for row in range(first, first + count)])

    def recover(self, first: int, count: int) -> Answer:
        self.asked.append(("recover", first, count))
        return self._answer([self._recover(row) for row in range(first, first + count)])

    def take_over(self, first: int, count: int, quarantines: list[str]) -> Answer:
        raise AssertionError((first, count, quarantines))

    def sweep(self) -> tuple[list[tuple[int, int]], list[bytes]]:
        assert self.restoring
        rows = [row for row in range(len(self.paths)) if (self.aside / str(row)).exists()]
        return [(row, CODE_OF[self._recover(row)]) for row in rows], []

    def _recover(self, row: int) -> str:
        aside = self.aside / str(row)
        if aside.exists():
            aside.rename(self.paths[row])
        return self._seen(row) if self.restoring else self._delete(row)

    def _seen(self, row: int) -> str:
        try:
            size = self.paths[row].lstat().st_size
        except FileNotFoundError:
            return "gone"
        if size != FILE_BYTES:
            return "touched"
        return "too_young" if self.restoring else "would_delete"

    def _delete(self, row: int) -> str:
        if self.delay_s:
            time.sleep(self.delay_s)
        self.before("delete", row)
        seen = self._seen(row)
        if seen != "would_delete":
            return seen
        self.aside.mkdir(exist_ok=True)
        self.paths[row].rename(self.aside / str(row))
        (self.aside / str(row)).unlink()
        return "deleted"

    def _answer(self, names: Sequence[str]) -> Answer:
        return Answer(bytes(CODE_OF[name] for name in names), names.count("deleted") * FILE_BYTES)


@dataclass
class Table:
    """A plan's list: owner and size of each row."""

    uids: np.ndarray
    allocated_bytes: np.ndarray

    def listed(self, rows: Rows) -> ListedRows:
        return ListedRows(
            rows, self.uids[rows.first : rows.end], self.allocated_bytes[rows.first : rows.end]
        )


@dataclass
class Surroundings:
    """A world in which time passes when it is waited for, and use follows the files that are there.

    Attributes
    ----------
    others_bytes
        What is used besides the files of the plan.
    look
        Called before every look at the situation; it may change it.
    """

    paths: Sequence[Path]
    others_bytes: int
    capacity_bytes: int
    at_s: float = NOW_S
    now: Situation = field(default_factory=situation)
    in_flight: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    look: Callable[[Surroundings], None] = lambda _self: None
    measured: Usage | None = None
    syncs: int = 0

    def sync(self) -> None:
        self.syncs += 1

    def now_s(self) -> float:
        return self.at_s

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at_s += seconds

    def usage(self) -> Usage:
        # Whole directories are listed: a look at each of 10^5 files would be all that a run does.
        present = {
            f"{parent}/{name}"
            for parent in {path.parent for path in self.paths}
            for name in os.listdir(parent)  # noqa: PTH208 (names only)
        }
        there = len(present.intersection(map(str, self.paths))) * FILE_BYTES
        used = self.others_bytes + there
        return Usage(used, self.capacity_bytes - used)

    def measure(self) -> tuple[Usage, int | None]:
        self.measured = self.usage()
        return self.measured, self.in_flight.pop(0) if self.in_flight else None

    def situation(self) -> Situation:
        self.look(self)
        self.measured = self.measured or self.usage()
        return replace(self.now, now_s=self.at_s, usage=self.measured)


@dataclass
class World:
    """Files in a directory of which some are in a plan, and all that a run needs."""

    directory: Path
    files: int
    outside: int = 5
    users: int = 3
    target: float = 0.5
    delay_s: float = 0.0
    jobs: int = 0

    def __post_init__(self) -> None:
        self.tree = self.directory / "tree"
        self.paths = [self.tree / f"d{row % 7}" / f"file-{row}" for row in range(self.files)]
        self.strangers = [self.tree / f"d{row % 7}" / f"other-{row}" for row in range(self.outside)]
        self.remover = SlowRemover(self.paths, self.directory / "aside", self.delay_s)
        self.restorer = replace(self.remover, restoring=True, asked=self.remover.asked)
        self.table = Table(
            np.arange(self.files, dtype=np.uint32) % self.users + 1000,
            np.full(self.files, FILE_BYTES, np.uint64),
        )
        # Half full of the plan's files and nothing else: what is needed follows from the target.
        self.surroundings = Surroundings(self.paths, 0, max(1, self.files) * FILE_BYTES)
        now = with_plan(situation(), horizon={"target": self.target})
        self.surroundings.now = replace(now, policy=policy(target=self.target))

    def make(self) -> Self:
        """Write the files."""
        for path in (*self.paths, *self.strangers):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * FILE_BYTES)
        return self

    def job(self, **changes: object) -> RunJob:
        """Return a run over the plan."""
        self.jobs += 1
        job = RunJob(
            id=f"run-{self.jobs}",
            plan=plan_line("plan-1", "ab" * 32, self.files, "/scratch", "ext4"),
            horizon_s=NOW_S - 60 * DAY_S,
            terms=lambda now: self.terms(now, apply=True),
            remover=lambda: cast("Any", self.remover),
            restorer=lambda: cast("Any", self.restorer),
            codes=CODES,
            listing=self.table,
            surroundings=self.surroundings,
            journals=self.directory / "journals",
            owner=os.geteuid(),
        )
        return replace(job, **changes)  # type: ignore[arg-type]

    def terms(self, now: Situation, *, apply: bool, **changes: object) -> RunTerms:
        """Return terms with small batches."""
        terms = terms_of(now, apply=apply)
        pace = replace(terms.pace, rows_min=4, rows_max=16, rows_step=4)
        return replace(terms, **{"pace": pace, **changes})  # type: ignore[arg-type]

    def run(self, *, dry: bool = False, **changes: Any) -> RunResult:
        """Carry the plan out by a job with these changes, or say what that would come to."""
        if dry:
            changes = {"terms": lambda now: self.terms(now, apply=False), **changes}
        return run(self.job(**changes), apply=not dry)

    def interrupted(self, at: int = 21, **changes: Any) -> None:
        """Run until the remover fails at a row; the batch of that row has no end then."""

        def fail(_call: str, row: int) -> None:
            if row == at:
                raise RuntimeError("bug")

        self.remover.before = fail
        with pytest.raises(RuntimeError):
            self.run(**changes)
        self.remover.before = undisturbed
        self.remover.asked.clear()

    def situate(self, **changes: object) -> None:
        """Let the guards see something else from now on."""
        self.surroundings.now = replace(self.surroundings.now, **changes)  # type: ignore[arg-type]

    def there(self) -> set[int]:
        """Return the rows whose files are there."""
        return {row for row, path in enumerate(self.paths) if path.exists()}

    def standing(self) -> PlanProgress:
        """Return how far the plan is by its journal."""
        return standing_of(self.directory)

    def fates(self) -> dict[int, str]:
        """Return what became of each row by the journal."""
        return fates_of(self.standing())

    def settled(self, missing: Collection[str] = ("deleted", "gone")) -> dict[int, str]:
        """Return the fates, held against what is there; no batch is open, and nothing else gone.

        Parameters
        ----------
        missing
            Fates of rows whose files are not in their place.
        """
        assert self.standing().claims == ()
        fates = self.fates()
        gone = {row for row, fate in fates.items() if fate in missing}
        assert gone == set(range(self.files)) - self.there()
        assert all(stranger.exists() for stranger in self.strangers)
        return fates

    def lines(self, kind: type[T]) -> list[T]:
        """Return the lines of a kind in the journal."""
        lines = read(journal_of(self.directory)).lines
        return [line for line in lines if isinstance(line, kind)]
