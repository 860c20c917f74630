"""What following a changelog costs: records a second, memory, and bytes a name.

An index of many names is followed through rounds as long as `purge follow` reads them, with
everything that a round does: records parsed, files looked up in the index, changes placed, written
and synchronised. The Lustre is one in memory, whose own time is taken off. What a look costs on
a host is measured by itself, with the core and files that have Lustre's attributes. Mix of records:
that of random work on a Lustre 2.17.0, with as many files removed as created. `make bench-follow`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import polars as pl  # noqa: E402 (the tree is on the path now)
from benchmarks.measured import measured_on  # noqa: E402
from tests.fake_lustre.namespace import BEGAN_NS, DEVICE, encoded  # noqa: E402
from tests.fake_lustre.namespace import ROOT as TOP  # noqa: E402

from trimtab._core import look_up  # noqa: E402
from trimtab.purge import following  # noqa: E402
from trimtab.purge.follow_decision import Clear  # noqa: E402
from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Manifest, TimeTrust  # noqa: E402
from trimtab.purge.index.manifest_file import load_manifest, save_manifest  # noqa: E402
from trimtab.purge.index.shard import (  # noqa: E402
    ShardWriter,
    columns,
    last_use_s,
)
from trimtab.purge.lustre_changes import LookedUp  # noqa: E402
from trimtab.reach.lustre.changelog import (  # noqa: E402
    NEEDED,
    READ_MAX_BYTES,
    ChangelogUser,
    ChangelogUsers,
    Record,
    RecordType,
)

if TYPE_CHECKING:
    from trimtab.purge.lustre_changes import LiveChangelogs

RESULT = ROOT / "benchmarks" / "results" / "follow_records.json"
FILES: Final = 99
"""Of a directory: a hundred names with its own."""
SEQUENCE: Final = 0x2_0000_0402
MIX: Final = {
    "create": 181, "unlink": 181, "mkdir": 50, "link": 27, "rename": 67, "close": 38,
    "truncate": 11, "setattr": 249, "mtime": 242,
}  # fmt: skip
"""How often each was recorded; a file that is created is closed too."""
PEERS: Final = (
    "robinhood 4, as its users report: 5,000 (create, close) to 10,000 (unlink) records a second "
    "for each MDT on 96 cores, and 0.9 kB an entry"
)


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--names", type=int, default=10_000_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--looks", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, default=None, help="Where the index is made.")
    asked = parser.parse_args()
    result: dict[str, Any] = {
        "what": "a followed index: records applied, and what one costs",
        "goal": "50,000 records a second on two processors",
        "others": PEERS,
        **measured_on(),
    }
    with tempfile.TemporaryDirectory(dir=asked.directory) as place:
        result |= followed(Path(place, "index"), asked.names, asked.records)
        result["look"] = looks(Path(place, "tree"), asked.looks)
    cpu_us = result["cpu_us_per_record"]
    cpu_us += result["looks_per_record"] * result["look"].get("cpu_us_per_look", 0)
    result["records_per_s_on_two_processors_with_looks"] = round(2e6 / cpu_us)
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def followed(place: Path, names: int, count: int) -> dict[str, Any]:
    """Return what it took to follow records on an index."""
    place.mkdir()
    lustre = Lustre(names)
    changelogs = cast("LiveChangelogs", lustre)
    made = make_index(place, lustre)
    following.begin(place, changelogs, file_system="scratch", now_s=BEGAN_NS / 10**9)
    lustre.act(count)
    bytes_before = size_of(place)
    began = cpu_s(), time.monotonic()
    rounds = []
    while True:
        done = following.follow_once(place, changelogs, lambda: datetime.now(UTC))
        rounds.append(done)
        if not done.more:
            break
    used_s, wall_s = cpu_s() - began[0], time.monotonic() - began[1]
    used_s -= lustre.cpu_s
    wall_s -= lustre.wall_s
    records = sum(done.records for done in rounds)
    manifest = load_manifest(place)
    assert not manifest.obstacles
    in_force = manifest.rows - sum(
        shard.superseded.rows for shard in manifest.shards if shard.superseded
    )
    return {
        "names": names,
        "records": records,
        "rounds": len(rounds),
        "wall_s": round(wall_s, 2),
        "cpu_s": round(used_s, 2),
        "records_per_s": round(records / wall_s),
        "cpu_us_per_record": round(used_s / records * 1e6, 2),
        "records_per_s_on_two_processors": round(2 * records / used_s),
        "looks_per_record": round(lustre.looked / records, 3),
        "maximum_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "bytes_per_name_scanned": round(made / names, 1),
        "bytes_per_name_followed": round(size_of(place) / in_force, 1),
        "bytes_written_per_record": round((size_of(place) - bytes_before) / records, 1),
    }


def looks(place: Path, count: int) -> dict[str, Any]:
    """Return what a look at a file costs the core, with Lustre's attributes on this host's disk."""
    fids = place / ".lustre" / "fid"
    fids.mkdir(parents=True)
    ids = [fid(number) for number in range(1, count + 1)]
    try:
        set_attributes(place, TOP, None)
        for number, file in enumerate(ids, 1):
            path = fids / f"[{SEQUENCE:#x}:{number:#x}:0x0]"
            path.touch()
            set_attributes(path, file, b"f%07d" % number)
    except OSError as error:
        return {"not_measured": f"no trusted attributes here: {error.strerror}"}
    began = cpu_s(), time.monotonic()
    look_up(place, ids, out=place / "rows.parquet", threads=2)
    used_s, wall_s = cpu_s() - began[0], time.monotonic() - began[1]
    return {
        "files": count,
        "cpu_us_per_look": round(used_s / count * 1e6, 2),
        "looks_per_s": round(count / wall_s),
        "asked_of_lustre": "a statx, trusted.lma and trusted.link of each file, once a round",
    }


def set_attributes(path: Path, file: bytes, name: bytes | None) -> None:
    """Give a file what Lustre keeps with it."""
    wire = struct.pack("<QII", *struct.unpack(">QII", file))
    os.setxattr(path, "trusted.lma", bytes(8) + wire)
    if name is not None:
        entry = struct.pack(">H", 18 + len(name)) + TOP + name
        os.setxattr(
            path, "trusted.link", struct.pack("<IIQ8x", 0x11EAF1DF, 1, 24 + len(entry)) + entry
        )


def cpu_s() -> float:
    """Return the processor time of this process and its children."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def size_of(place: Path) -> int:
    """Return the bytes of an index that somebody reads."""
    manifest = load_manifest(place)
    from trimtab.purge.index.index_view import files_of

    return sum((place / name).stat().st_size for name in files_of(manifest))


def fid(number: int) -> bytes:
    """Return the identifier of the n-th file."""
    return struct.pack(">QII", SEQUENCE, number, 0)


class Lustre:
    """A namespace in memory, and one MDT's changelog; a name follows from the number of its file.

    Directory d has the numbers from ``d * 100 + 1`` on, itself first.
    """

    def __init__(self, names: int) -> None:
        self.directories = names // (FILES + 1)
        self.last = names
        self.names: dict[int, Sequence[tuple[int, bytes]]] = {}
        """Of files that somebody changed: directory and name; nothing of what is gone."""
        self.changed: dict[int, int] = {}
        self.made: set[int] = set()
        self.records: list[bytes] = []
        self.index = self.looked = self.cleared = 0
        self.cpu_s = self.wall_s = 0.0

    def names_of(self, number: int) -> Sequence[tuple[int, bytes]]:
        """Return the names of a file."""
        if number in self.names:
            return self.names[number]
        above, place = divmod(number - 1, FILES + 1)
        if place == 0:
            return [(0, b"project%06d" % above)]
        return [(above * (FILES + 1) + 1, b"output_%04d.dat" % place)]

    def is_directory(self, number: int) -> bool:
        """Whether a number is a directory's."""
        if number in self.made:
            return True
        return number <= self.directories * (FILES + 1) and (number - 1) % (FILES + 1) == 0

    def act(self, count: int) -> None:
        """Let users work until there are so many records."""
        rng = random.Random(1)
        kinds, weights = list(MIX), list(MIX.values())
        while len(self.records) < count:
            self._act(rng, rng.choices(kinds, weights)[0])

    def _act(self, rng: random.Random, what: str) -> None:
        directory = rng.randrange(self.directories) * (FILES + 1) + 1
        file = rng.randrange(1, self.last + 1)
        names = self.names_of(file)
        if what in ("create", "mkdir"):
            self.last += 1
            name = b"new_%08d" % self.last
            self.names[self.last] = [(directory, name)]
            if what == "mkdir":
                self.made.add(self.last)
                return self._log(RecordType.MKDIR, self.last, directory, name)
            self._log(RecordType.CREATE, self.last, directory, name)
            return self._log(RecordType.CLOSE, self.last)
        if self.is_directory(file) or not names:
            return None
        self.changed[file] = self.index
        above, name = names[0]
        if what == "unlink":
            self.names[file] = names[1:]
            return self._log(RecordType.UNLINK, file, above, name)
        if what == "link":
            self.names[file] = [*names, (directory, b"link_%08d" % self.index)]
            return self._log(RecordType.HARDLINK, file, directory, self.names[file][-1][1])
        if what == "rename":
            self.names[file] = [(directory, b"moved_%08d" % self.index), *names[1:]]
            return self._log(
                RecordType.RENAME, 0, directory, self.names[file][0][1], (file, above, name)
            )
        kind = {"close": RecordType.CLOSE, "truncate": RecordType.TRUNCATE,
                "setattr": RecordType.SETATTR, "mtime": RecordType.MTIME}[what]  # fmt: skip
        return self._log(kind, file)

    def _log(
        self, kind: RecordType, target: int, parent: int = 0, name: bytes = b"",
        source: tuple[int, int, bytes] | None = None,
    ) -> None:  # fmt: skip
        self.index += 1
        record = Record(
            self.index, kind, BEGAN_NS + self.index, fid(target) if target else None,
            fid(parent) if parent else None, name,
        )  # fmt: skip
        if source is not None:
            moved, above, old_name = source
            record = replace(record, source=fid(moved), source_parent=fid(above), old_name=old_name)
        self.records.append(encoded(record))

    # -- what a follower calls --

    @contextmanager
    def _apart(self) -> Iterator[None]:
        began = cpu_s(), time.monotonic()
        yield
        self.cpu_s += cpu_s() - began[0]
        self.wall_s += time.monotonic() - began[1]

    def mdts(self) -> Sequence[str]:
        """Return the one MDT."""
        return ("MDT0000",)

    def users(self) -> Mapping[str, ChangelogUsers]:
        """Return who reads its changelog."""
        user = ChangelogUser("cl1-trimtab", self.cleared, 10**6)
        return {"MDT0000": ChangelogUsers(self.index, (user,), NEEDED)}

    def clear(self, order: Clear) -> None:
        """Note what is not needed any more."""
        self.cleared = order.index

    def read(self, mdt: str, after: int) -> tuple[bytes, bool]:
        """Return as much as one reading brings."""
        with self._apart():
            data, at = bytearray(), after
            while at < len(self.records) and len(data) < READ_MAX_BYTES:
                data += self.records[at]
                at += 1
            return bytes(data), at == len(self.records)

    def look(self, files: Sequence[bytes]) -> LookedUp:
        """Return what files are now."""
        with self._apart():
            self.looked += len(files)
            numbers = [int.from_bytes(file[8:12], "big") for file in files if file != TOP]
            rows = [
                (fid(above) if above else TOP, name, number)
                for number in numbers
                for above, name in self.names_of(number)
            ]
            gone = frozenset(fid(number) for number in numbers if not self.names_of(number))
            return LookedUp(TOP, self.frame(rows), gone)

    def children(self, directories: Sequence[bytes]) -> tuple[set[bytes], Mapping[bytes, int]]:
        """Nothing is moved while it is scanned."""
        raise AssertionError("no directory is moved here")

    def list(self, directories: Sequence[bytes]) -> tuple[pl.DataFrame, Mapping[bytes, int]]:
        """Nothing is scanned again."""
        raise AssertionError("nothing is scanned again here")

    def mdts_of(self, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
        """Nothing is scanned again."""
        raise AssertionError("nothing is scanned again here")

    def frame(self, rows: Sequence[tuple[bytes, bytes, int]]) -> pl.DataFrame:
        """Return rows of an index: parent, name, and the number of the file."""
        kinds = columns()
        frame = pl.DataFrame(rows, schema={"parent": pl.Binary, "name": pl.Binary, "n": pl.Int64},
                             orient="row")  # fmt: skip
        numbers = frame["n"].to_list()
        changed = pl.Series([self.changed.get(number, 0) for number in numbers], dtype=pl.Int64)
        directory = pl.Series([self.is_directory(number) for number in numbers], dtype=pl.Boolean)
        own = pl.col("n")
        time_ns = BEGAN_NS - (own * 7919 % (400 * 86400)) * 10**9
        frame = frame.with_columns(
            id=pl.Series([fid(number) for number in numbers], dtype=pl.Binary),
            id_kind=pl.lit("fid"),
            device=pl.lit(DEVICE),
            uid=own // 100_000 % 500 + 1000,
            gid=own // 100_000 % 50 + 100,
            size_bytes=own * 48_271 % 2**31 + changed,
            allocated_bytes=own * 48_271 % 2**31 // 4096 * 4096 + 4096,
            nlink=pl.Series([len(self.names_of(number)) for number in numbers], dtype=pl.Int64),
            atime_ns=time_ns,
            mtime_ns=time_ns,
            ctime_ns=time_ns + changed,
            type=pl.when(directory).then(pl.lit("d")).otherwise(pl.lit("f")),
            osts=pl.concat_list((own % 64).cast(pl.UInt32)),
        ).with_columns(last_use_s=last_use_s())
        missing = [name for name in kinds if name not in frame.columns]
        frame = frame.with_columns(pl.lit(None).cast(kinds[name]).alias(name) for name in missing)
        return frame.select(pl.col(name).cast(kind) for name, kind in kinds.items())


def make_index(place: Path, lustre: Lustre) -> int:
    """Write the index of a scan; return its bytes."""
    writer = ShardWriter(place, once=False, prefix="scan")
    for start in range(0, lustre.last, 200_000):
        numbers = range(start + 1, min(start + 200_000, lustre.last) + 1)
        rows = [(b"" if above == 0 else lustre.names_of(above)[0][1], name, number)
                for number in numbers for above, name in lustre.names_of(number)]  # fmt: skip
        writer.add(lustre.frame(rows))
    manifest = Manifest(
        index_id="0", root=b"/scratch", filesystem=FileSystemIdentity("lustre", "scratch"),
        source=IndexSource.SCAN, tool="bench", started_ns=BEGAN_NS, ended_ns=BEGAN_NS + 1,
        times=TimeTrust.MDS_ONLY, time_resolution_ns=1, lacking=frozenset(), complete=True,
        shards=writer.finish(),
    )  # fmt: skip
    save_manifest(manifest, place)
    return size_of(place)


if __name__ == "__main__":
    main()
