"""A file system of one's own for each purge, and the cores that it is tried with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.purge.command.walk import Walk
from tests.support import loopback

CORES = ("real", "slow")


def public_directory() -> Iterator[Path]:
    """Make a directory that users can enter, which those of pytest are not."""
    directory = Path(tempfile.mkdtemp(prefix="trimtab-purge-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


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
        for public in public_directory():
            yield Walk(mounted.mount_point, private, public, request.param)
