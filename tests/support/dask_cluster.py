"""Dask clusters of this host: of real worker processes, or of threads where nothing is killed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import LocalCluster


@contextmanager
def local_cluster(workers: int, **terms: Any) -> Iterator[LocalCluster]:
    """Yield a scheduler with workers of one thread each."""
    cluster = LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", protocol="tcp://",
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, **terms,
    )  # fmt: skip
    with cluster:
        yield cluster
