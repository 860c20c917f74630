"""Derive the terms of a run from a plan and a policy. Pure."""

from __future__ import annotations

from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.model import Plan
from trimtab.purge.policy import Throttle
from trimtab.purge.run.decide import Terms
from trimtab.purge.run.pace import PaceLimits
from trimtab.purge.run.records import PlanLine
from trimtab.purge.run.situation import Situation
from trimtab.visible import visible

_FREE_AT_ONCE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs"})


def plan_line(plan: Plan, sha256: str) -> PlanLine:
    """Return the first line of a plan's journal.

    Parameters
    ----------
    sha256
        Hash of ``plan.json``, which has the hash of the candidates.
    """
    system = plan.file_system
    return PlanLine(
        plan=plan.id,
        sha256=sha256,
        rows=plan.candidates.files,
        root=visible(system.root),
        file_system=_file_system(system.identity),
        identity=system.identity,
    )


def root_line(root: str, identity: FileSystemIdentity) -> PlanLine:
    """Return the first line of a journal for a root, to compare others with it."""
    return PlanLine("", "", 0, visible(root), _file_system(identity), identity)


def _file_system(identity: FileSystemIdentity) -> str:
    return visible(f"{identity.kind} {identity.name or identity.fsid}")


def terms_of(
    now: Situation,
    *,
    apply: bool,
    whole_plan: bool = False,
    ends_at_s: float | None = None,
) -> Terms:
    """Return the terms of a run from the policy.

    Parameters
    ----------
    whole_plan
        A dry run continues past the target, to show the outcome of every file.
    """
    return Terms(
        apply=apply,
        target_fullness=None if whole_plan and not apply else now.target,
        allowance=now.allowance,
        pace=pace_limits(now.policy.throttle),
        settle_s_max=float(now.policy.guards.settle_s),
        settle_s_min=min(15.0, float(now.policy.guards.settle_s)),
        ends_at_s=ends_at_s,
        frees_late=frees_late(now.planned.plan.file_system.kind),
    )


def frees_late(kind: str) -> bool:
    """Return whether a kind of file system may free the space of deleted files only after seconds.

    Lustre destroys objects, Btrfs and ZFS free with a transaction; unknown kinds are assumed to do
    so.
    """
    return kind not in _FREE_AT_ONCE


def pace_limits(throttle: Throttle) -> PaceLimits:
    """Return the limits of a run's pace from the policy."""
    rows = throttle.batch_files
    return PaceLimits(
        rows_min=min(16, rows),
        rows_max=rows,
        rows_step=max(1, rows // 10),
        latency_s_max=throttle.latency_s,
    )
