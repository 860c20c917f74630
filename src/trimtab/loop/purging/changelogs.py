"""A mounted Lustre as a follower uses it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from trimtab.drivers.lustre.changelogs import (
    DEVICES,
    ask_users,
    clear_records,
    mdts_of_client,
    read_records,
)
from trimtab.drivers.lustre.listing import list_directories, mdts_of_fids
from trimtab.launch.child import ask_child
from trimtab.launch.fleet import FanOut
from trimtab.launch.fleet import fan_out as reach
from trimtab.loop.purging.changed_rows import Looked
from trimtab.loop.purging.core_errors import core_errors
from trimtab.purge.follow.decide import Clear
from trimtab.purge.index.manifest import Lack, Manifest, SizesMode
from trimtab.purge.index.schema import columns
from trimtab.purge.index.views import readable

if TYPE_CHECKING:
    from trimtab.drivers.lustre.changelog import ChangelogUsers
    from trimtab.model.site import Servers


@dataclass(frozen=True, slots=True)
class LiveChangelogs:
    """The changelogs of a mounted Lustre.

    Attributes
    ----------
    root
        Where it is mounted.
    manifest
        Of the index: what is asked of files follows from what the scan asked.
    """

    root: str
    file_system: str
    servers: Servers
    manifest: Manifest
    fan_out: FanOut = reach
    devices: Path = DEVICES
    threads: int = 0

    def mdts(self) -> Sequence[str]:
        """Return every MDT that this client knows."""
        return mdts_of_client(self.file_system, self.devices)

    def users(self) -> Mapping[str, ChangelogUsers]:
        """Return who reads the changelog of each MDT whose server answers."""
        return ask_users(self.servers, self.file_system, fan_out=self.fan_out)

    def read(self, mdt: str, after: int) -> tuple[bytes, bool]:
        """Return records behind one, and whether they are all."""
        return read_records(self.file_system, mdt, after, devices=self.devices)

    def clear(self, order: Clear) -> None:
        """Tell an MDT what is not needed any more."""
        clear_records(self.file_system, order.mdt, order.user, order.index, devices=self.devices)

    def look(self, files: Sequence[bytes]) -> Looked:
        """Look at files by their FIDs."""
        from trimtab._core import look_up

        lacking, sizes = self.manifest.lacking, self.manifest.sizes
        known = self.manifest.filesystem
        with (
            tempfile.TemporaryDirectory(prefix="trimtab-") as directory,
            core_errors("looking at what changed"),
        ):
            out = Path(directory, "rows.parquet")
            question = partial(
                look_up, self.root, files, out=out, project=Lack.PROJECT not in lacking,
                layout=Lack.LAYOUT not in lacking,
                exact_sizes=sizes is not None and sizes.mode is SizesMode.EXACT,
                device=None if known is None else known.device, threads=self.threads,
            )  # fmt: skip
            root, gone, failed, overflowed, stripes = ask_child(question, self.root)
            with readable():
                kinds = columns().items()
                listed = pl.read_parquet(out, glob=False)
                rows = listed.select(pl.col(name).cast(kind) for name, kind in kinds)
        return Looked(
            root, rows, frozenset(gone), dict(failed), frozenset(overflowed), dict(stripes)
        )

    def children(self, directories: Sequence[bytes]) -> tuple[set[bytes], Mapping[bytes, int]]:
        """Return what lies in directories, and those that could not be read; a file has nothing."""
        from trimtab._core import children

        question = partial(children, self.root, directories, threads=self.threads)
        with core_errors("reading directories that were renamed"):
            names, failed = ask_child(question, self.root)
        return set(names), dict(failed)

    def list(self, directories: Sequence[bytes]) -> tuple[pl.DataFrame, Mapping[bytes, int]]:
        """Return what directories hold, and those that could not be read; no file is looked at.

        Returns
        -------
        polars.DataFrame
            ``directory`` (its FID), ``name`` and ``inode``, the number that the directory has of
            the file; nothing of a directory that is gone.
        """
        held: dict[str, list[object]] = {"directory": [], "name": [], "inode": []}
        failed = {}
        for directory, names, number in list_directories(self.root, directories):
            if number:
                failed[directory] = number
            for inode, name in names:
                held["directory"].append(directory)
                held["name"].append(name)
                held["inode"].append(inode)
        kinds = {"directory": pl.Binary, "name": pl.Binary, "inode": pl.UInt64}
        return pl.DataFrame(held, schema=kinds), failed

    def mdts_of(self, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
        """Return the MDT of each file by its FID; ``None``: Lustre does not tell."""
        return mdts_of_fids(self.root, files)
