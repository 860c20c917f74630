"""Causes in the storage itself: targets, servers, arrays and flash, one file each."""

from __future__ import annotations

from typing import Final

from trimtab.explain.causes.storage import (
    allocator_loops,
    array_degraded,
    failover,
    few_targets_open,
    garbage_collection,
    target_filling,
    target_silent,
    targets_over_limit,
    trim_overdue,
    writeback_throttling,
)
from trimtab.explain.context import Cause

STORAGE: Final[tuple[Cause, ...]] = (
    targets_over_limit.CAUSE,
    target_filling.CAUSE,
    few_targets_open.CAUSE,
    target_silent.CAUSE,
    failover.CAUSE,
    array_degraded.CAUSE,
    trim_overdue.CAUSE,
    garbage_collection.CAUSE,
    writeback_throttling.CAUSE,
    allocator_loops.CAUSE,
)
