"""A file system of one's own for each purge, and the cores that it is tried with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.purge.command.walk import Walk
from tests.purge.notice.making import open_directory
from tests.support import loopback

CORES = ("real", "slow")


@pytest.fixture(scope="module", params=CORES)
def walk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Walk]:
    """Give the places of a purge on an ext4 of its own."""
    reason = loopback.why_no_loop_devices("ext4")
    if reason is not None:
        pytest.skip(reason)
    private = tmp_path_factory.mktemp("purge")
    with loopback.mounted(private, size_bytes=64 * 2**20) as mounted:
        for public in open_directory():
            yield Walk(mounted.mount_point, private, public, request.param)
