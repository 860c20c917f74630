"""Causes of slow or unsteady file systems: the table of all, and the files that assess them.

A cause is a pure function from a context to every piece of evidence it looked for; see
`trimtab.explain.context.Cause`. Each declares its signs (`trimtab.explain.contrast.Sign`).
`STORAGE` has those in the storage itself: targets, servers, arrays and flash.
"""

from __future__ import annotations

from typing import Final

from trimtab.explain.causes import (
    allocator_loops,
    client_node,
    competing_load,
    configuration_change,
    failed_runs,
    garbage_collection,
    network,
    open_targets,
    target_service,
    target_space,
    trim_overdue,
    void_run,
    writeback_throttling,
)
from trimtab.explain.context import Cause

STORAGE: Final[tuple[Cause, ...]] = (
    target_space.TARGETS_OVER_LIMIT,
    target_space.TARGET_FILLING,
    open_targets.FEW_TARGETS_OPEN,
    target_service.TARGET_SILENT,
    target_service.FAILOVER,
    target_service.ARRAY_DEGRADED,
    trim_overdue.TRIM_OVERDUE,
    garbage_collection.GARBAGE_COLLECTION,
    writeback_throttling.WRITEBACK_THROTTLING,
    allocator_loops.ALLOCATOR_LOOPS,
)


TABLE: Final[tuple[Cause, ...]] = (
    *STORAGE,
    configuration_change.CONFIGURATION_CHANGE,
    competing_load.COMPETING_LOAD,
    competing_load.METADATA_LOAD,
    network.NETWORK,
    client_node.CLIENT_NODE,
    void_run.LAUNCH_FAILURE,
    void_run.WORKLOAD_MISMATCH,
    void_run.CACHED_READ,
    failed_runs.QUOTA_REACHED,
    network.BAD_CHECKSUMS,
)
