"""An index looked through for signs that files are kept alive without being used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from trimtab.errors import UsageError
from trimtab.loop.purging.replaying import require_same
from trimtab.purge.evasion import COLUMNS, suspicions
from trimtab.purge.index import views
from trimtab.purge.index.manifest import Manifest, TimeTrust
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.query import doubts
from trimtab.purge.policy import Policy
from trimtab.purge.signs import KINDS, EvasionLimits, Kind, Look, Signs, unseen
from trimtab.visible import visible


def look_for_evasion(
    directory: Path,
    *,
    earlier: Sequence[Path] = (),
    policy: Policy | None = None,
    files: int | None = None,
) -> Signs:
    """Return the signs that files of an index are kept alive unused.

    Parameters
    ----------
    directory
        Of the index.
    earlier
        Older ones of the same root, in any order.
    policy
        Its minimum age is what an owner would want to keep alive, times that do not count keep
        nothing, and users that it exempts have no need to; ``None``: the usual values.
    files
        Fewer files of one owner are not reported; ``None``: `EvasionLimits.files`.

    Raises
    ------
    UsageError
        The indexes are not of one root, or not older.
    UnreadableError, DataError
        One cannot be read.
    """
    manifest = load_manifest(directory)
    older = sorted(
        ((load_manifest(path), path) for path in earlier), key=lambda pair: pair[0].ended_ns
    )
    manifests = (*(index for index, _ in older), manifest)
    _require_order(manifests)
    limits = _limits(policy, files)
    exempt_users = () if policy is None else sorted(policy.exempt_numbers("user", manifest.as_of_s))
    coarsest_ns = max(index.time_resolution_ns for index in manifests)
    with views.readable():
        looks = [
            _look(at, index, exempt_users, coarsest_ns)
            for index, at in (*older, (manifest, directory))
        ]
        passed_over = unseen(
            [index.lacking for index in manifests], births=_has_births(looks[-1]), limits=limits
        )
        kinds: list[Kind] = [kind for kind in KINDS if kind not in passed_over]
        suspected = suspicions(looks[-1], earlier=looks[:-1], kinds=kinds, limits=limits)
    return Signs(
        manifest=manifest,
        earlier=manifests[:-1],
        limits=limits,
        found=suspected,
        passed_over=passed_over,
        notes=tuple(_notes(manifests, exempt_users)),
    )


def _require_order(manifests: Sequence[Manifest]) -> None:
    last = manifests[-1]
    ends = [manifest.ended_ns for manifest in manifests]
    for manifest in manifests[:-1]:
        require_same(manifest, last)
    if len(set(ends)) < len(ends) or max(ends) != ends[-1]:
        raise UsageError(
            "an earlier index is not earlier, or is given twice",
            code="index-not-earlier",
            hint="--index is the latest, and each --earlier another one before it",
        )


def _limits(policy: Policy | None, files: int | None) -> EvasionLimits:
    usual = EvasionLimits()
    limits = usual if files is None else replace(usual, files=files)
    if policy is None:
        return limits
    return replace(limits, old_s=policy.minimum_age_s, counted=policy.counted)


def _look(
    directory: Path, manifest: Manifest, exempt_users: Sequence[int], resolution_ns: int
) -> Look:
    """Return an index as it is looked at: each file once, times as coarse as the coarsest index.

    A time in nanoseconds is later than the same in seconds, and would look as if it had moved on.
    """
    rows = views.files(views.scanned(directory, manifest)).select(COLUMNS)
    if exempt_users:
        rows = rows.filter(~pl.col("uid").is_in(exempt_users))
    if resolution_ns > 1:
        times = [name for name in COLUMNS if name.endswith("_ns")]
        rows = rows.with_columns(pl.col(times).floordiv(resolution_ns) * resolution_ns)
    started_ns = manifest.started_ns
    return Look(rows, manifest.as_of_s, None if started_ns is None else started_ns // 10**9)


def _has_births(look: Look) -> bool:
    """Return whether any file has a birth time: a network file system may give none."""
    known: pl.DataFrame = (
        look.rows.filter(pl.col("btime_ns").is_not_null()).head(1).collect(engine="streaming")
    )
    return bool(known.height)


def _notes(manifests: Sequence[Manifest], exempt_users: Sequence[int]) -> Iterator[str]:
    yield from doubts(manifests[-1])
    if any(manifest.times is TimeTrust.MDS_ONLY for manifest in manifests):
        yield (
            "times are those of the metadata server: a file may have been used later, and reads "
            "that it has not heard of are not seen"
        )
    if any(manifest.source is not manifests[-1].source for manifest in manifests):
        tools = ", ".join(dict.fromkeys(visible(manifest.tool) for manifest in manifests))
        yield f"the indexes were made by different programs ({tools}): files may not be known again"
    if exempt_users:
        yield "files of users that the policy exempts were not looked at"
