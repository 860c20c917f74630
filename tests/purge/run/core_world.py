"""The small world with candidates as the core selects them, and the core's own removal."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Self

import polars as pl
from tests.purge.index.trees import row_of
from tests.purge.run.world import World

from trimtab import _core
from trimtab.purge.index.shard import columns
from trimtab.purge.run.run_account import RunJob

OLD_S = 1_500_000_000
CUT_S = 1_600_000_000
BEFORE_ALL_TIMES_S = -(2**62)


class CoreWorld(World):
    """The world with candidates as the core selects them, and its removal.

    Files were last used at a time that nobody can set back (ctime is the present), so that ctime
    does not count and the plan takes it as it is.
    """

    exempt_paths: tuple[bytes, ...] = ()
    open_files = False
    listed_s: int | None = None

    def make(self) -> Self:
        super().make()
        self.grow_old()
        self.write_candidates()
        return self

    def grow_old(self) -> None:
        """Say of each file that it was last used years ago."""
        for row, path in enumerate(self.paths):
            os.utime(path, (OLD_S + row, OLD_S + row))

    @property
    def parquet(self) -> Path:
        return self.directory / "candidates.parquet"

    def write_candidates(self, group_rows: int | None = None) -> None:
        rows = []
        for path in self.paths:
            state, parent = path.lstat(), bytes(path.parent.relative_to(self.tree))
            last_use_s = state.st_mtime_ns // 10**9
            rows.append(row_of(state, parent, os.fsencode(path.name)) | {"last_use_s": last_use_s})
        frame = pl.DataFrame(rows, schema=pl.Schema(columns()))
        frame.write_parquet(self.parquet, row_group_size=group_rows)

    def opened(self) -> _core.Candidates:
        """Return the candidates as a run opens them."""
        return _core.Candidates(self.parquet)

    def job(self, **changes: object) -> RunJob:
        candidates = self.opened()
        of_the_core = {
            "remover": lambda: self.removal(candidates=candidates),
            "restorer": lambda: self.removal(BEFORE_ALL_TIMES_S, candidates=candidates),
            "codes": dict(_core.REMOVAL_OUTCOMES),
        }
        return super().job(**of_the_core | changes)

    def removal(
        self, before_s: int = CUT_S, *, candidates: _core.Candidates | None = None, **more: Any
    ) -> _core.Removal:
        """Return the core's removal of the candidates that were last used before a time."""
        rules = rules_of(exempt_paths=list(self.exempt_paths))
        return _core.Removal(
            candidates or self.opened(),
            str(self.tree),
            rules,
            before_s=before_s,
            quarantine=".quarantine",
            listed_s=self.listed_s,
            open_files=self.open_files,
            **more,
        )


def rules_of(before_s: int = CUT_S, **changed: Any) -> _core.Rules:
    """Return rules by which everything goes that was last written before a time."""
    lists = ("exempt_paths", "exempt_users", "exempt_groups", "exempt_projects")
    usual: dict[str, Any] = {name: [] for name in lists}
    usual |= {"minimum_size_bytes": 0, "linked": False, "counted": ["mtime"]}
    usual |= {"as_of_s": int(time.time()), "old_enough_before_s": before_s}
    return _core.Rules(**usual | changed)


def outcomes_of(answer: Any) -> list[str]:
    """Return what the core says of each row, in words."""
    return [_core.REMOVAL_OUTCOMES[code] for code in answer.outcomes]
