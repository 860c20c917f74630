"""Small plans for tests: candidates written by hand, dates that are easy to read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from trimtab.base.event import identifier_of
from trimtab.purge.plan.deletion_plan import (
    QUARANTINE_PREFIX,
    PlanDraft,
    PlannedFileSystem,
    PlannedHorizon,
    PlannedIndex,
    PlannedPolicy,
    PlannedRules,
)
from trimtab.purge.plan.plan_directory import LoadedPlan, freeze, load_plan, staging
from trimtab.purge.plan.plan_signature import SigningKey
from trimtab.purge.policy_file import policy_text
from trimtab.purge.purge_policy import Policy
from trimtab.store.location import PurgePlace, prepared

MADE_AT = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
SCANNED_AT = MADE_AT - timedelta(hours=3)
HOUR_S = 3600
DAY_S = 86400
BEFORE_S = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
KEY = SigningKey(bytes(range(32)))
POLICY = '[purge]\nname = "scratch"\n'
POLICY_SHA256 = hashlib.sha256(POLICY.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate."""

    path: bytes
    uid: int = 1000
    last_use_s: int = BEFORE_S - DAY_S
    size_bytes: int = 1000
    allocated_bytes: int = 4096
    inode: int | None = None
    nlink: int = 1


def frame_of(rows: Sequence[Row]) -> pl.DataFrame:
    """Return candidates as their file holds them, in the order of the file."""
    ordered = sorted(rows, key=lambda row: (row.last_use_s, *row.path.rpartition(b"/")[::2]))
    pairs = [row.path.rpartition(b"/")[::2] for row in ordered]
    inodes = [
        row.inode if row.inode is not None else int(hashlib.sha256(row.path).hexdigest()[:12], 16)
        for row in ordered
    ]
    return pl.DataFrame(
        {
            "parent": pl.Series([parent for parent, _ in pairs], dtype=pl.Binary),
            "name": pl.Series([name for _, name in pairs], dtype=pl.Binary),
            "id": pl.Series([inode.to_bytes(16, "big") for inode in inodes], dtype=pl.Binary),
            "uid": pl.Series([row.uid for row in ordered], dtype=pl.UInt32),
            "size_bytes": pl.Series([row.size_bytes for row in ordered], dtype=pl.UInt64),
            "allocated_bytes": pl.Series([row.allocated_bytes for row in ordered], dtype=pl.UInt64),
            "nlink": pl.Series([row.nlink for row in ordered], dtype=pl.UInt32),
            "last_use_s": pl.Series([row.last_use_s for row in ordered], dtype=pl.Int64),
        }
    )


def file_system(
    kind: str = "lustre", name: str = "perlmutter", root: str = "/scratch"
) -> PlannedFileSystem:
    """Return a file system of which nothing but its name is known."""
    return PlannedFileSystem(
        kind, name, None, root,
        uuid=None, mount=None, made_ns=None, root_inode=None, root_path=None,
    )  # fmt: skip


def draft(made_at: datetime = MADE_AT, **changed: object) -> PlanDraft:
    """Return a draft of a plan of ``/scratch``."""
    made = PlanDraft(
        id=identifier_of(made_at, "plan"),
        made_at=made_at,
        notice_s=14 * DAY_S,
        valid_s=14 * DAY_S,
        file_system=file_system(),
        index=PlannedIndex(
            id="01a1f640-bc00-7000-8000-000000000001",
            sha256="ab" * 32,
            source="scan",
            started_at=made_at - timedelta(hours=4),
            ended_at=made_at - timedelta(hours=3),
            times="exact_ns",
            time_resolution_ns=1,
            obstacles=(),
            atime_settings=None,
            sizes=None,
        ),
        policy=PlannedPolicy("scratch", POLICY, POLICY_SHA256),
        rules=PlannedRules(
            counted=("atime", "mtime", "ctime"),
            as_of_s=int(SCANNED_AT.timestamp()),
            old_enough_before_s=int(SCANNED_AT.timestamp()) - 56 * DAY_S,
            minimum_size_bytes=0,
            exempt_paths=(),
            exempt_users=(),
            exempt_groups=(),
            exempt_projects=(),
            linked=False,
            words=(),
        ),
        horizon=PlannedHorizon(
            before_s=BEFORE_S,
            needed_before_s=BEFORE_S - 90 * DAY_S,
            target=0.7,
            used_bytes=80 << 40,
            available_bytes=20 << 40,
            to_free_bytes=20 << 40,
            words=("The file system is 80.0 % full.",),
        ),
        quarantine=f"{QUARANTINE_PREFIX}{'ab' * 16}",
    )
    return replace(made, **changed)  # pyrefly: ignore[bad-argument-type]


def make(
    out: Path,
    rows: Sequence[Row] | pl.DataFrame,
    made: PlanDraft | None = None,
    *,
    key: SigningKey = KEY,
    group_rows: int | None = None,
) -> LoadedPlan:
    """Return a plan that was frozen at ``out`` and read back."""
    with staging(out) as staged:
        frame = rows if isinstance(rows, pl.DataFrame) else frame_of(rows)
        frame.write_parquet(staged.candidates, row_group_size=group_rows)
        freeze(made or draft(), staged, key=key)
    return load_plan(out, key)


def planned_policy(policy: Policy) -> PlannedPolicy:
    """Return a policy as a plan keeps it."""
    text = policy_text(policy, every_key=True)
    return PlannedPolicy(policy.name, text, hashlib.sha256(text.encode()).hexdigest())


def place_of(directory: Path) -> PurgePlace:
    """Return a place with the key that the plans here are signed with."""
    place = prepared(PurgePlace(directory, os.geteuid()))
    place.key.write_text(f"trimtab-purge-key-1 {KEY.secret.hex()}\n")
    place.key.chmod(0o600)
    return place
