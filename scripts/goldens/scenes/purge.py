"""Purges: of a tree, from the scan to the report; and what is made of lists without a tree."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from scripts.goldens.facts import normal
from scripts.goldens.pages import facts
from scripts.goldens.place import NOW, PLACE, answers, fresh, mount
from tests.purge.command.walk import Walk

DAY: Final = timedelta(days=1)
SCANNED: Final = NOW - 21 * DAY
SCRATCH: Final = PLACE / "scratch"
COLUMNS: Final = (
    "path=path,id=id:inode,uid=uid,gid=gid,size_bytes=size,allocated_bytes=size,nlink=links,"
    "type=type,atime_ns=atime:ns,mtime_ns=mtime:ns,ctime_ns=ctime:ns,stripe_count=stripes,osts=osts,pool=pool"
)
TOTALS: Final = "--used 40GiB --available 10GiB"


def tree() -> Iterator[tuple[str, Any]]:
    """Yield a purge from the scan to the report, of a small file system with fixed times."""
    directory = fresh("purge")
    mount(SCRATCH, size="64m")
    private, public = directory / "private", directory / "public"
    private.mkdir(mode=0o700)
    public.mkdir(mode=0o755)
    walk = Walk(SCRATCH, private, public, "real")
    walk.write_policy('[arming]\nkind = "delay"\ndelay = "1d"')
    walk.make_files()
    place = {"TRIMTAB_PURGE": str(walk.place)}
    index, policy = f"--index {walk.index}", f"--policy {walk.policy}"
    plan = f"{index} {policy} --out {walk.plan}"
    steps = (
        ("scan", f"scan {SCRATCH} {index} --threads 1", SCANNED),
        ("horizon", f"horizon {index} {policy} --out horizon.html", SCANNED),
        ("query-by-user", f"query {index} --by user", SCANNED),
        ("query-by-age", f"query {index} --by age", SCANNED),
        ("query", f"query {index} '{_SELECT}'", SCANNED),
        ("evasion", f"evasion {index} {policy} --files 5", SCANNED),
        ("plan", f"plan {plan}", SCANNED + DAY / 24),
        ("run-unpublished", f"run {walk.plan}", SCANNED + DAY / 24),
        ("notify", f"notify {walk.plan}", SCANNED + DAY / 12),
        ("notify-again", f"notify {walk.plan}", SCANNED + DAY / 6),
        ("run-unarmed", f"run {walk.plan} --apply", NOW - 4 * DAY),
        ("arm", f"arm {walk.plan}", NOW - 3 * DAY),
        ("run-dry", f"run {walk.plan}", NOW),
        ("run-dry-whole", f"run {walk.plan} --whole-plan", NOW),
        ("run", f"run {walk.plan} --apply", NOW),
        ("run-again", f"run {walk.plan} --apply", NOW),
        ("recover", f"recover {SCRATCH}", NOW),
        ("report", "report --out report.html", NOW),
        (
            "scan-incremental",
            f"scan {SCRATCH} --index {private / 'later'} --incremental {walk.index} --threads 1",
            NOW,
        ),
        ("replay", f"replay {index} --later {private / 'later'} {policy} --before 2029-06-01", NOW),
    )
    for name, words, at in steps:
        for golden, answer in answers({name: f"purge {words}"}, store="none.db", at=at, **place):
            yield golden, _without_sizes(answer) if name.startswith("scan") else answer
        if name == "notify":
            yield "notices", normal(_notices(public / "lists"))
    yield "left", sorted(os.fsdecode(path) for path in walk.there())
    of_kinds = {
        "armed": sorted(walk.place.rglob("*.armed.jsonl")),
        "journal": sorted(walk.place.rglob("*.journal.lines/0*")),
    }
    for kind, paths in of_kinds.items():
        lines = [line for path in paths for line in path.read_text().splitlines()]
        written = {f"{at}": normal(json.loads(line)) for at, line in enumerate(lines)}
        yield f"journal-of-{kind}", written
    yield "page-horizon", facts((directory / "horizon.html").read_text())
    yield "page-report", _without_paces(facts((directory / "report.html").read_text()))


def lists() -> Iterator[tuple[str, Any]]:
    """Yield what is made of tables of thousands of files, two of one tree and a month apart."""
    directory = fresh("lists")
    for name, touched in (("earlier", False), ("later", True)):
        (directory / f"{name}.csv").write_text("\n".join(_table(touched=touched)) + "\n")
    (directory / "lists").mkdir()
    (directory / "etc").mkdir()
    walk = Walk.__new__(Walk)
    walk.root, walk.public, walk.stop = Path("/scratch"), directory, directory / "etc" / "stop"
    walk.policy = directory / "policy.toml"
    walk.write_policy(target="70%")
    claims = "--root /scratch --format csv --complete"
    when = "--started 2029-12-01T00:00Z --ended 2029-12-01T01:00Z"
    then = "--started 2029-10-01T00:00Z --ended 2029-10-01T01:00Z"
    index = "--index later"
    commands = {
        "import-earlier": f"import earlier.csv --index earlier {claims} {then} --map {COLUMNS}",
        "import": f"import later.csv --index later {claims} {when} --map {COLUMNS}",
        "import-mfu": "import ../fixtures/mfu/2dbcf1c/scratch.mfu --index mfu --root /scratch "
        f"--format mfu {when}",
        "query-mfu": f"query --index mfu '{_SELECT}'",
        "horizon": f"horizon {index} --target 70% {TOTALS} --out horizon.html",
        "horizon-by-policy": f"horizon {index} --policy policy.toml {TOTALS} --threads 2",
        "horizon-out-of-reach": f"horizon {index} --target 10% {TOTALS}",
        "horizon-without-use": f"horizon {index} --target 70%",
        "query-by-user": f"query {index} --by user",
        "query-by-group": f"query {index} --by group",
        "query-by-size": f"query {index} --by size",
        "query-by-age": f"query {index} --by age",
        "query-by-ost": f"query {index} --by ost",
        "query-by-pool": f"query {index} --by pool",
        "query": f"query {index} '{_SELECT}'",
        "query-wrong": f"query {index} 'SELECT nothing FROM nowhere'",
        "evasion": f"evasion {index} --files 100",
        "evasion-of-two": f"evasion {index} --earlier earlier --files 100",
        "replay": "replay --index earlier --later later --before 2029-06-01 --reads-known",
        "replay-to-target": f"replay --index earlier --later later --target 70% {TOTALS}",
        "plan-of-a-list": f"plan {index} --policy policy.toml --out plan",
        "follow-no-site": "follow nowhere --index later --once",
    }
    purges = {name: f"purge {words}" for name, words in commands.items()}
    yield from answers(purges, store="none.db", TRIMTAB_PURGE=str(directory / "place"))
    yield "page-horizon", facts((directory / "horizon.html").read_text())


_SELECT: Final = (
    "SELECT path, uid, size_bytes, age_days FROM files ORDER BY size_bytes DESC, path LIMIT 12"
)


def _table(*, touched: bool) -> Iterator[str]:
    """Yield the lines of a CSV: three owners, one of whom renews all times in an hour."""
    chance = random.Random(4)
    yield "path,id,uid,gid,size,links,type,atime,mtime,ctime,stripes,osts,pool"
    for number in range(6000):
        owner = 2000 + number % 3
        age = min(chance.expovariate(1 / 120), 800.0)
        made_s = int((NOW - (130 + age) * DAY).timestamp())
        used_s = made_s + int(chance.random() * 40 * 86400)
        if touched and owner == 2002:
            used_s = made_s = int((NOW - 50 * DAY).timestamp()) + number % 600
        size = int(2 ** chance.uniform(12, 24))
        pool = "flash" if number % 2 else "disk"
        fields = (
            f"/scratch/u{owner}/d{number % 40}/f{number}",
            number + 100,
            owner,
            100 + owner % 2,
        )
        used_ns, made_ns = used_s * 10**9, made_s * 10**9 + number
        rest = (size, 1, "f", used_ns, made_ns, made_ns, 1, number % 8, pool)
        yield ",".join(map(str, (*fields, *rest)))


def _without_sizes(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what a scan says without the sizes of its files: they hold the kernel's times."""
    document = answer["document"]
    shards = [{**shard, "size_bytes": None} for shard in document["shards"]]
    return {**answer, "document": {**document, "shards": shards, "size_bytes": None}}


def _without_paces(page: dict[str, Any]) -> dict[str, Any]:
    """Return the page without the line below each run: how fast this host was."""
    return {**page, "tables": [[row for row in rows if len(row) > 1] for rows in page["tables"]]}


def _notices(directory: Path) -> dict[str, Any]:
    """Return each list that was published: whose, who may read it, and how many lines."""
    return {
        str(path.relative_to(directory)): {
            "owner": path.stat().st_uid,
            "mode": f"{path.stat().st_mode & 0o7777:o}",
            "lines": path.read_bytes().count(b"\n"),
        }
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
