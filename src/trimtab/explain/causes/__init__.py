"""Causes of slow or unsteady file systems: one file each, all in the table below or in `STORAGE`.

A cause is a pure function from a context to every piece of evidence it looked for; see
`trimtab.explain.context.Cause`. Each declares its signs (`trimtab.explain.contrast.Sign`).
"""

from __future__ import annotations

from typing import Final

from trimtab.explain.causes import (
    bad_checksums,
    cached_read,
    client_node,
    competing_load,
    configuration_change,
    launch_failure,
    metadata_load,
    network,
    workload_mismatch,
)
from trimtab.explain.causes.storage import STORAGE
from trimtab.explain.context import Cause

TABLE: Final[tuple[Cause, ...]] = (
    *STORAGE,
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
