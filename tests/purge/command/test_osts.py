"""Targets of OSTs and pools through the commands: a scanned ext4 whose files say where they lie.

Files have the attribute in which Lustre keeps its layout, as on the disk of an MDT; how full each
OST is, and which are in which pool, a Lustre of the tests' own says, to the driver of a site file.
"""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.support import loopback
from tests.support.command import Ended, trimtab

DAY_S = 86400
MIB = 2**20
OST_BYTES = 10 * MIB
OSTS = range(8)
MINIMUM_DAYS = 112
"""Eight weeks, twice, since reads do not count."""
pytestmark = [pytest.mark.system]


@dataclass(frozen=True)
class File:
    """A file on some OSTs; an OST that stands there twice has two of its objects."""

    name: str
    days: int
    size_mib: int
    osts: tuple[int, ...]
    uid: int = 1
    pool: bytes = b""


FILES = (
    *(File(f"old {number}", 700 - 50 * number, 1, (0,), pool=b"flash") for number in range(7)),
    # Young, and an OST for itself: no horizon helps it.
    *(File(f"young {number}", 10 + number, 1, (1,), uid=2) for number in range(8)),
    File("wide", 500, 4, (0, 2, 3, 2)),
    File("on the metadata server", 900, 0, (), pool=b"\x1b[2J\xff\n"),
)
POOLS = {"flash": ["OST0000", "OST0002"], "disk": ["OST0001", "OST0003"]}
"""Of what the OSTs are now; files were not all made by them."""


def held() -> dict[int, int]:
    """Return the bytes on each OST, divided evenly among the objects of each file."""
    many: Counter[int] = Counter()
    for file in FILES:
        for ost in file.osts:
            many[ost] += file.size_mib * MIB // len(file.osts)
    return dict(many)


def layout_bytes(osts: tuple[int, ...], pool: bytes = b"") -> bytes:
    """Return a plain layout, ``lov_mds_md_v1`` or with a pool ``_v3``; of an MDT without OSTs."""
    magic, pattern = 0x0BD30BD0 if pool else 0x0BD10BD0, 1 if osts else 0x100
    header = struct.pack("<IIQQIHH", magic, pattern, 1, 2, MIB, len(osts), 0)
    header += pool.ljust(16, b"\0") if pool else b""
    return header + b"".join(struct.pack("<QQII", 1, 2, 0, ost) for ost in osts)


@dataclass
class Place:
    """A scanned root, its index, its policy and the site that knows its OSTs."""

    root: Path
    private: Path
    programs: str

    @property
    def index(self) -> Path:
        return self.private / "index"

    @property
    def policy(self) -> Path:
        return self.private / "policy.toml"

    @property
    def site(self) -> tuple[object, ...]:
        return "--site", self.private / "osts.toml"

    def purge(self, *arguments: object) -> Ended:
        """Return how ``trimtab purge ...`` ended beside the programs of a Lustre."""
        environment = {"PATH": self.programs, "TRIMTAB_PURGE": str(self.private / "place")}
        return trimtab("purge", *arguments, store=self.private / "store.db", **environment)

    def good(self, *arguments: object) -> dict[str, Any]:
        """Return the document of a command that ended well."""
        ended = self.purge(*arguments, "--json")
        assert ended.code == 0, ended.stderr
        return ended.document

    def rows(self, *asked: object, index: Path | None = None) -> list[dict[str, Any]]:
        """Return what a query of an index gives."""
        return self.good("query", "--index", index or self.index, *asked)["rows"]

    @property
    def asked(self) -> tuple[object, ...]:
        """What a horizon is asked for: the policy's targets, of the site's OSTs."""
        return "--policy", self.policy, *self.site

    def horizon(self, *more: object, index: Path | None = None) -> dict[str, Any]:
        """Return the horizon of the policy's target of 75 % for every OST, unless more says."""
        return self.good("horizon", "--index", index or self.index, *self.asked, *more)

    def said(self, *arguments: object) -> str:
        """Return what a command that ends well prints, in one line."""
        ended = self.purge(*arguments)
        assert ended.code == 0, ended.stderr
        return " ".join(ended.stdout.split())

    def refused(self, *arguments: object) -> str:
        """Return what wrong use of a command is told, in one line."""
        ended = self.purge(*arguments)
        assert ended.code == 2, ended.stdout
        return " ".join(ended.stderr.split())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Make files on OSTs, scan them with their layouts, and write a site file."""
    reason = loopback.why_no_loop_devices("ext4")
    if reason is not None:
        pytest.skip(reason)
    private = tmp_path_factory.mktemp("osts")
    inodes = ("-I", "512", "-b", "4096")  # a layout of four objects beside the times
    with loopback.mounted(private, size_bytes=96 * MIB, mkfs_options=inodes) as mounted:
        root = mounted.mount_point
        for file in FILES:
            path = root / file.name
            path.write_bytes(b"x" * (file.size_mib * MIB))
            os.setxattr(path, "trusted.lov", layout_bytes(file.osts, file.pool))
            os.chown(path, file.uid, file.uid)
            at_s = time.time() - file.days * DAY_S
            os.utime(path, (at_s, at_s))
        os.sync()
        found = Place(root, private, _lustre(root, private))
        found.policy.write_text(
            f'[policy]\nname = "osts"\nroot = "{root}"\ntarget_ost = "75%"\n'
            '[age]\ncounted = ["mtime"]\n'
        )
        found.good("scan", root, "--index", found.index, "--with", "layout")
        yield found


def _age_s(document: dict[str, Any]) -> float:
    ends = (document["as_of"], document["needed"]["cut_off"])
    as_of, cut_off = map(datetime.fromisoformat, ends)
    return (as_of - cut_off).total_seconds()


def _lustre(root: Path, private: Path) -> str:
    """Install programs of a Lustre whose OSTs hold what the files do; return a PATH of them."""
    fake = FakeLustre.pair(mount=str(root), pools=POOLS)
    many = held()
    for target in fake.targets:
        if target.kind == "OST":
            target.capacity_bytes, target.reserved_bytes = OST_BYTES, 0
            target.used_bytes = many.get(int(target.name[3:], 16), 0)
    installed = fake.install(private / "lustre")
    (private / "osts.toml").write_text(
        f'[site]\nname = "osts"\ndriver = "lustre"\npath = "{root}"\nfile_system = "scratch"\n'
    )
    return installed.path


def test_who_holds_what_where(place):
    by_ost = place.rows("--by", "ost")
    assert {row["ost"]: row["allocated_bytes"] for row in by_ost} == held()
    by_pool = place.rows("--by", "pool")
    assert [(row["pool"], row["files"], row["allocated_bytes"]) for row in by_pool] == [
        ("(none)", 9, 12 * MIB),
        ("flash", 7, 7 * MIB),
        (r"\x1b[2J\xff\n", 1, 0),
    ]


def test_sql_knows_where_files_lie(place):
    asked = "SELECT pool, count(*) AS files FROM files WHERE pool = 'flash' GROUP BY pool"
    assert place.rows(asked) == [{"pool": "flash", "files": 7}]
    asked = "SELECT stripe_count, osts FROM files WHERE path = 'wide'"
    assert place.rows(asked) == [{"stripe_count": 4, "osts": [0, 2, 3, 2]}]


def test_the_horizon_is_what_the_osts_need(place):
    document = place.horizon()
    full = {one["name"]: one for one in document["osts"]["groups"]}
    assert len(full) == len(OSTS)
    # OST0000 is at 80 %: the first of its files to go brings it to 70 %.
    old, young = full.pop("OST0000"), full.pop("OST0001")
    assert (old["status"], old["usage"]["used_bytes"]) == ("reached", 8 * MIB)
    assert (old["excess_bytes"], old["freed"]["allocated_bytes"]) == (MIB // 2, MIB)
    assert old["after"]["fullness"] == pytest.approx(0.7)
    # OST0001 is at 80 % as well, with nothing but young files.
    assert young["status"] == "out_of_reach"
    assert young["best"]["fullness"] == pytest.approx(0.8)
    assert {other["status"] for other in full.values()} == {"met_already"}
    assert _age_s(document) == pytest.approx(700 * DAY_S, abs=3 * 3600)
    assert any("No horizon down to" in one and "fixes OST0001" in one for one in document["words"])


def test_the_page_names_the_osts_and_what_helps(place):
    text = place.said("horizon", "--index", place.index, *place.asked, "--all")
    for words in (
        "Each OST",
        "75.0 %",
        "no horizon fixes it",
        "Move files off it, or close it to new ones",
    ):
        assert words in text


def test_the_horizon_is_what_the_pools_need(place):
    pools = ("--target-pool", "flash=45%", "--target-pool", "disk=20%")
    document = place.horizon(*pools)
    assert document["osts"] is None
    disk, flash = document["pools"]["groups"]
    assert (flash["name"], flash["osts"], flash["limit"]) == ("flash", ["OST0000", "OST0002"], 0.45)
    # 10 of 20 MiB: the oldest file of both brings them to 9.
    assert (flash["status"], flash["usage"]["used_bytes"]) == ("reached", 10 * MIB)
    assert flash["excess_bytes"] == flash["freed"]["allocated_bytes"] == MIB
    assert flash["after"]["fullness"] == pytest.approx(0.45)
    # 9 of 20 MiB, of which a part of the wide file alone is old.
    assert (disk["name"], disk["status"]) == ("disk", "out_of_reach")
    assert disk["best"]["fullness"] == pytest.approx(0.4)
    assert _age_s(document) == pytest.approx(700 * DAY_S, abs=3 * 3600)
    assert any("No horizon down to" in word and "pool disk" in word for word in document["words"])
    text = place.said("horizon", "--index", place.index, *place.asked, *pools)
    assert "Each pool" in text
    assert "flash 50.00 % 45.0 % 1.00 MiB 1.00 MiB 45.00 % a horizon fixes it" in text


def test_a_pool_that_is_not_there_is_refused_with_those_that_are(place):
    asked = (*place.asked, "--target-pool", "flahs=75%")
    told = place.refused("horizon", "--index", place.index, *asked)
    assert ("no pool flahs" in told, "disk, flash" in told) == (True, True)


def test_a_plan_of_a_target_of_pools_ends_at_a_target_of_the_whole(place):
    policy = place.private / "pools.toml"
    limits = 'target_pool = { flash = "45%", disk = "90%" }'
    policy.write_text(place.policy.read_text().replace('target_ost = "75%"', limits))
    asked = ("--policy", policy, *place.site)
    horizon = place.good("horizon", "--index", place.index, *asked)
    plan = place.good("plan", "--index", place.index, *asked, "--out", place.private / "plan-pools")
    assert plan["files"] >= 2
    assert plan["horizon"]["target"] == pytest.approx(horizon["needed"]["target"], abs=0.01)
    assert 0 < plan["horizon"]["target"] < horizon["usage"]["fullness"]
    assert any("brings every pool to its limit" in one for one in plan["horizon"]["words"])


def test_a_higher_limit_asks_for_nothing(place):
    document = place.horizon("--target-ost", "85%")
    assert document["needed"]["status"] == "met_already"
    assert {one["status"] for one in document["osts"]["groups"]} == {"met_already"}


def test_without_a_site_it_says_who_knows_how_full_each_ost_is(place):
    told = place.refused("horizon", "--index", place.index, "--policy", place.policy)
    assert "the fullness of each of them is unknown" in told
    assert "--site" in told


def test_a_plan_of_a_target_of_osts_names_what_they_need(place):
    out = ("--out", place.private / "plan")
    plan = place.good("plan", "--index", place.index, *place.asked, *out)
    assert plan["files"] >= 1
    assert any("OST0001" in one for one in plan["horizon"]["words"])


def test_an_index_without_layouts_says_how_to_get_one(place):
    bare = place.private / "bare"
    place.good("scan", place.root, "--index", bare)
    for asked in (
        ("query", "--by", "ost"),
        ("query", "--by", "pool"),
        ("horizon", *place.asked),
        ("horizon", *place.asked, "--target-pool", "flash=75%"),
    ):
        told = place.refused(*asked, "--index", bare)
        assert ("--with" in told, "layout" in told) == (True, True)


def test_a_file_system_without_layouts_does_not_pass_for_one_without_files(place):
    """Asked for on a file system that has none, layouts are as unknown as without asking."""
    other = place.private / "no-lustre"
    other.mkdir()
    (other / "file").write_bytes(b"x")
    index = place.private / "no-layouts"
    scanned = place.good("scan", other, "--index", index, "--with", "layout")
    assert "layout" in scanned["lacking"]
    assert any("layout" in note for note in scanned["notes"])
    place.refused("query", "--index", index, "--by", "ost")


def test_an_imported_list_with_osts_answers_the_same(place):
    """What ``lfs find`` prints of the same files, with its OSTs and without their pools."""
    now_s = int(time.time())
    lines = []
    for number, file in enumerate(FILES, 1):
        at_s = now_s - file.days * DAY_S
        osts = f"[{','.join(map(str, file.osts))}]" if file.osts else "[?]"
        size_bytes = file.size_mib * MIB
        owner = (1, file.uid, file.uid, 0)
        fields = (size_bytes, size_bytes // 512, *[at_s] * 4, len(file.osts), osts)
        words = (f"0x200000402:{number:#x}:0x0", "f", *owner, *fields, f"{place.root}/{file.name}")
        lines.append("\t".join(map(str, words)))
    (place.private / "list").write_text("\n".join(lines) + "\n")
    index = place.private / "imported"
    described = ("--root", place.root, "--format", "lfs-find")
    place.good("import", place.private / "list", "--index", index, *described)
    rows = place.rows("--by", "ost", index=index)
    assert {row["ost"]: row["allocated_bytes"] for row in rows} == held()
    imported, scanned = place.horizon(index=index), place.horizon()
    freed, freed_of_scan = (
        {one["name"]: one["freed"] for one in document["osts"]["groups"]}
        for document in (imported, scanned)
    )
    assert freed == freed_of_scan
    told = place.refused("query", "--index", index, "--by", "pool")
    assert "lacks the pool of files" in told
    assert imported["needed"]["freed"] == scanned["needed"]["freed"]
