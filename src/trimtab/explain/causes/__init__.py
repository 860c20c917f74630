"""Causes of slow or unsteady file systems: one file each, all listed in the table below.

A cause is a pure function from a context to every piece of evidence it looked for; see
`trimtab.explain.causes.cause.Cause`. Each declares its signs (`trimtab.explain.contrasts.Sign`).
"""

from __future__ import annotations

from typing import Final

from trimtab.explain.causes import (
    allocator_loops,
    array_degraded,
    bad_checksums,
    cached_read,
    client_node,
    competing_load,
    configuration_change,
    failover,
    few_targets_open,
    garbage_collection,
    launch_failure,
    metadata_load,
    network,
    target_filling,
    target_silent,
    targets_over_limit,
    trim_overdue,
    workload_mismatch,
    writeback_throttling,
)
from trimtab.explain.causes.cause import Cause

TABLE: Final[tuple[Cause, ...]] = (
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
    configuration_change.CAUSE,
    competing_load.CAUSE,
    metadata_load.CAUSE,
    network.CAUSE,
    client_node.CAUSE,
    launch_failure.CAUSE,
    workload_mismatch.CAUSE,
    cached_read.CAUSE,
    bad_checksums.CAUSE,
)
