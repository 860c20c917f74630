"""A year that was imported, and every command that looks at a record."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from scripts.goldens.pages import facts
from scripts.goldens.place import PLACE, ROOT, answers, fresh
from tests.formats.survey_files import survey_files
from tests.support.kept_world import keep_world
from tests.worlds.of_clients import checksums, client_setting
from tests.worlds.of_storage import degraded, failover
from tests.worlds.steady import START, Befalls, steady_world

FIRST: Final = datetime(2029, 1, 1, tzinfo=UTC)
RECORDING: Final = PLACE / "fixtures" / "ior" / "4.1.0+dev" / "text-fpp.out"
_MIB: Final = 32
"""What the recorded run moved in each direction."""
_DAYS: Final = 364
SWEEP: Final = """\
[sweep]
name = "try"
site = "imported"
probe = "hourly"
[factor]
nodes = [1, 2]
[manual]
nps = [1, 4]
"""


def year() -> Iterator[tuple[str, Any]]:
    """Yield what is said of an imported year: a step in June, a survey a week."""
    directory = fresh("record")
    _write_year(directory / "files")
    commands = {
        "import": "import files --site year --timezone UTC",
        "import-again": "import files --site year --timezone UTC",
        "status": "status",
        "status-of-a-site": "status year --window 14d --cov-goal 5%",
        "judge": "judge year --out judge.html",
        "judge-failing": "judge year --fail-on missed --cov-goal 1%",
        "incidents": "incidents year",
        "explain": "explain year --at 2029-06-03",
        "compare": "compare year@2029-03-01..2029-05-01 year@2029-08-01..2029-10-01",
        "correlate": "correlate year",
        "ladder": "ladder year",
        "runs": "runs",
        "report": "report year --month 2029-06 --out month.html",
        "report-markdown": "report year --month 2029-11 --out month.md",
        "event-add": "event add year changed --kind config-change --at 2029-06-01T00:00Z",
        "event-list": "event list year",
        "incidents-with-event": "incidents year",
        "actions": "actions year",
        "alerts-list": "alerts list year",
        "alerts-test": "alerts test year",
        "targets-unknown": "targets year",
        "watch-without-file": "watch year --status",
        "store-check": "store check --contents",
        "store-copy": "store copy year.db copy.db",
        "unknown-site": "status nowhere",
        "wrong-option": "status --colour",
        "maintenance": "maintenance year --from 2029-07-10T00:00Z --until 2029-07-11T00:00Z "
        "--why firmware",
        "silence": "silence year",
    }
    yield from answers(commands, store="year.db")
    yield from _shown()
    for page in ("judge", "month"):
        yield f"page-{page}", facts((directory / f"{page}.html").read_text())


def world() -> Iterator[tuple[str, Any]]:
    """Yield what is said of a site with snapshots, surveys, a log book, and four incidents.

    A setting stays changed; a failover ends; transfers are damaged; a rebuild slows one target,
    and what it does to the probe goes on.
    """
    directory = fresh("world")
    faults = (
        Befalls(partial(client_setting, told="both"), 6.4),
        Befalls(failover, 12.4, 13.0),
        Befalls(checksums, 15.4, 9.0),
        Befalls(degraded, 17.4, 60.0),
    )
    world = steady_world(11, 21, *faults, osts=6, share=0.9)
    keep_world(world, directory / "world.db")
    day = START + timedelta(days=6, hours=12)
    commands = {
        "status": "status world",
        "judge": "judge world --out judge.html",
        "incidents": "incidents world",
        "explain": f"explain world --at {day:%Y-%m-%dT%H:%MZ}",
        "correlate": "correlate world --probe hourly",
        "compare": f"compare world@{START:%Y-%m-%d}..{day:%Y-%m-%d} "
        f"world@{day:%Y-%m-%d}..{day + timedelta(days=5):%Y-%m-%d}",
        "targets": f"targets world --at {day:%Y-%m-%dT%H:%MZ}",
        "ladder": "ladder world",
        "runs": "runs --site world --top 10",
        "report": f"report world --month {START:%Y-%m} --out month.html",
        "event-list": "event list world",
        "store-check": "store check",
        "store-rebuild": "store rebuild",
    }
    yield from answers(commands, store="world.db")
    for page in ("judge", "month"):
        yield f"page-{page}", facts((directory / f"{page}.html").read_text())


def alone() -> Iterator[tuple[str, Any]]:
    """Yield the answers that need no store."""
    directory = fresh("alone")
    examples = ROOT / "docs" / "examples"
    for name in ("perlmutter.toml", "e2000.toml", "purge-policy.toml"):
        (directory / name).write_text((examples / name).read_text())
    (directory / "series.csv").write_text("\n".join(["time,write_bandwidth", *_series()]) + "\n")
    (directory / "sweep.toml").write_text(SWEEP)
    (directory / "target").mkdir()
    commands = {
        "judge-csv": "judge --csv series.csv --out series.html",
        "hints": "hints --ost 274 --nodes 128 --tasks-per-node 16 --transfer-size 64KiB",
        "hints-file-per-process": "hints --ost 12 --nodes 4 --file-per-process --mpi openmpi",
        "ladder": "ladder perlmutter.toml --out ladder.html",
        "ladder-e2000": "ladder e2000.toml",
        "purge-policy": "purge policy purge-policy.toml",
        "purge-policy-new": "purge policy new.toml --root /mnt/scratch --target 70%",
        "sweep": "sweep sweep.toml --no-run",
        "twin-list": "twin list",
        "twin-show": "twin show perlmutter",
        "twin-wa": "twin wa --spare 12% --superblocks 256 --pages-per-block 64",
        "twin-wa-hot": "twin wa --spare 20% --superblocks 256 --hot 0.1/0.9 --separate",
        "reproduce": "reproduce --layers --workers 1",
        "size": "size --osts 4 --daily-writes 30TB --retention 30d --explain",
        "check-of-nothing": "check nowhere",
        "init-of-nothing": "init nowhere",
    }
    yield from answers(commands, store="none.db")
    for page in ("series", "ladder"):
        yield f"page-{page}", facts((directory / f"{page}.html").read_text())


def _shown() -> Iterator[tuple[str, Any]]:
    """Yield the trace of the first run that is kept, and of the last survey."""
    import json
    import sqlite3

    with sqlite3.connect("year.db") as store:
        for kind in ("ior", "obdfilter-survey"):
            query = "SELECT id FROM run WHERE kind = ? ORDER BY at LIMIT 1"
            (run,) = store.execute(query, (kind,)).fetchone()
            ((_, answer),) = answers({kind: f"show {run}"}, store="year.db")
            yield f"show-{kind}", json.loads(json.dumps(answer).replace(run, "RUN"))


def _series() -> Iterator[str]:
    for hour in range(240):
        rate = 100 + hour % 7 if hour < 120 else 80 + hour % 5
        yield f"{FIRST + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ},{rate}"


def _write_year(directory: Path) -> None:
    directory.mkdir()
    chance = random.Random(1)
    printed = RECORDING.read_text()
    for number in range(_DAYS):
        at = FIRST + number * timedelta(days=1)
        level = (0.8 if at.month >= 6 else 1.0) * chance.gauss(1, 0.04)
        (directory / f"ior-{number:04d}.out").write_text(_slower(printed, at, level))
    for number in range(_DAYS // 7):
        survey = survey_files(6, seed=chance.randrange(2**31))
        at = FIRST + timedelta(hours=3) + number * timedelta(days=7)
        for suffix, content in (("detail", survey.detail), ("summary", survey.summary)):
            dated = re.sub(
                rb"^Fri Nov 20 16:14:06 UTC 2026",
                f"{at:%a %b %d %H:%M:%S UTC %Y}".encode(),
                content,
            )
            (directory / f"survey-{number:03d}.{suffix}").write_bytes(dated)


def _slower(printed: str, at: datetime, level: float) -> str:
    """Return the recording as of another time and rate; its arithmetic stays right."""

    def row(match: re.Match[str]) -> str:
        _, iops, latency, block, transfer, *times, repetition = match[2].split()
        scaled = [f"{float(each) / level:.6f}" for each in times]
        rate = f"{_MIB / float(scaled[-1]):.2f}"
        rates[match[1]] = (rate, scaled[-1])
        fields = (rate, f"{float(iops) * level:.2f}", f"{float(latency) / level:.6f}", block)
        return " ".join([match[1].ljust(9), *fields, transfer, *scaled, repetition])

    def summary(match: re.Match[str]) -> str:
        rate, total = rates[match[1]]
        rest = match[2].split()[9:]
        return " ".join([match[1], *[rate] * 3, "0.00", *[rate] * 3, "0.00", total[:7], *rest])

    rates: dict[str, tuple[str, str]] = {}
    head, title, tail = printed.partition("Summary of all tests:")
    head = re.sub(r"(?m)^((?:Began|StartTime)\s*:).*$", rf"\1 {at:%a %b %d %H:%M:%S %Y}", head)
    head = re.sub(r"(?m)^(write|read) +(\d.*)$", row, head)
    tail = re.sub(r"(?m)^(Finished\s*:).*$", rf"\1 {at:%a %b %d %H:%M:%S %Y}", tail)
    return head + title + re.sub(r"(?m)^(write|read) +(\d.*)$", summary, tail)
