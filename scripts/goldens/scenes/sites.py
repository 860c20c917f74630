"""Sites that commands act on: a fake Lustre with servers, and a twin."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import polars as pl
import pytest
from scripts.goldens.facts import digest, named, normal
from scripts.goldens.pages import facts
from scripts.goldens.place import answers, fresh, trimtab_here
from tests.act.lustre_site import on_fake_lustre
from tests.fake_lustre.state import Fault
from tests.support.small_twin import small_scenario

from trimtab.twin.scenario import Fault as TwinFault
from trimtab.twin.scenario import ProbeLoad
from trimtab.twin.scenario_file import to_toml

GIB: Final = 2**30
LUSTRE: Final = """\
[policy.tunables]
settings = {{qos_prio_free = "80%", "drives/queue/nr_requests" = 64}}
settle = "1ms"
[policy.balance]
dwell = "0"
[policy.trim]
range = "{range_bytes} B"
"""
PROBES: Final = (
    ProbeLoad("hourly", "ior", "every 1h", nodes=2, tasks_per_node=2,
              bytes_written=128 * 2.0**20, timeout_s=600.0),
    ProbeLoad("survey", "obdfilter-survey", "daily at 20:00", timeout_s=3600.0),
)  # fmt: skip
TWIN: Final = """
[policy.tunables]
settings = {"drives/queue/wbt_lat_usec" = 0}
[policy.balance]
[policy.trim]
"""


def lustre() -> Iterator[tuple[str, Any]]:
    """Yield what is done to a fake Lustre, the ledger and the journal of it."""
    directory = fresh("lustre")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_STORE", f"sqlite:///{directory}/t.db")
        site = on_fake_lustre(directory, patch, cast("pytest.CaptureFixture[str]", None))
        for target in site.fake.osts:
            target.untrimmed_bytes, target.written_bytes = 5 * GIB, 10 * GIB
        full = site.fake.target("OST0003")
        full.used_bytes = int(0.9 * (full.capacity_bytes - full.reserved_bytes))
        site.fake.target("OST0005").degraded = True
        site.write_site(LUSTRE.format(range_bytes=full.capacity_bytes // 2))
        for name, words in ACTING.items():
            if name in FAULTS:
                site.fake.faults.append(FAULTS[name])
            yield name, normal(_in_order(trimtab_here(*words.split())))
            site.fake.faults.clear()
        yield "journal", {str(at): line for at, line in enumerate(_by_action(site.lines()))}
        logs = {server.name: server.log for server in site.fake.servers}
        yield "servers", normal({name: [*map(named, log)] for name, log in logs.items()})


def _in_order(value: Any, key: str = "") -> Any:
    """Return an answer with its actions, and the targets of an event, in one order of many.

    Servers are written to side by side: which of them comes first is chance.
    """
    if isinstance(value, Mapping):
        return {name: _in_order(held, name) for name, held in value.items()}
    if not isinstance(value, list):
        return value
    rows = [_in_order(row) for row in value]
    return sorted(rows, key=lambda row: json.dumps(normal(row))) if key in _BY_CHANCE else rows


_BY_CHANCE: Final = frozenset({"actions", "settled", "targets"})


def _by_action(lines: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the lines of a journal, those of each action together: servers work side by side."""
    parts: list[dict[str, list[Any]]] = [{}]
    for line in lines:
        if "action" not in line:
            parts.append({})
        parts[-1].setdefault(line.get("action", ""), []).append(normal(line))
    for part in parts:
        for _, of_action in sorted(part.items(), key=lambda item: json.dumps(item[1])):
            yield from of_action


ACTING: Final = {
    "site": "site fake",
    "site-validate": "site fake --validate",
    "targets": "targets fake",
    "targets-one": "targets fake OST0005",
    "snapshot": "snapshot fake",
    "tune": "tune fake",
    "tune-refused": "tune fake --apply",
    "tune-apply": "tune fake --apply",
    "tune-rest": "tune fake --apply",
    "tune-end": "tune fake --apply",
    "tune-allocator": "tune fake --allocator",
    "balance": "balance fake",
    "balance-lost": "balance fake --apply",
    "balance-apply": "balance fake --apply",
    "balance-reopen": "balance fake --reopen-all",
    "trim": "trim fake --targets OST[0000-0003]",
    "trim-apply": "trim fake --targets OST[0000-0001] --apply",
    "actions": "actions fake",
    "revert": "revert fake --all",
    "revert-swallowed": "revert fake --all --apply",
    "revert-rest": "revert fake --all --apply",
    "actions-at-the-end": "actions fake",
    "survey": "survey fake --server --all",
    "follow-register": "purge follow fake --register --yes",
    "init": "init /scratch --driver lustre --out new.toml",
    "event-list": "event list fake",
    "status": "status fake",
    "watch-dry": "watch fake --dry-run",
    "watch-status": "watch fake --status",
    "inventory": "inventory fake",
    "holders": "holders fake",
    "store-check": "store check",
}
FAULTS: Final = {
    "tune-refused": Fault("refuse", command="lctl set_param", text="no\n", code=1, times=1),
    "balance-lost": Fault("swallow", command="lctl set_param", times=1),
    "revert-swallowed": Fault("swallow", command="lctl set_param", times=1),
}
"""What goes wrong while a command runs."""


def twin() -> Iterator[tuple[str, Any]]:
    """Yield a simulated site: made, looked at, measured and acted on by the clock of its twin."""
    directory = fresh("twin")
    (directory / "small.toml").write_text(to_toml(small_scenario(probes=PROBES)))
    made = {"run": "twin run small.toml --until 4d --directory life --seed 3"}
    yield from answers(made, store="other.db")
    with Path("life/small.toml").open("a") as file:
        file.write(TWIN)
    site = "life/small.toml"
    commands = {
        "run-again": "twin run small.toml --until 4d --directory life --seed 3",
        "show": "twin show small.toml",
        "site-validate": f"site {site} --validate",
        "status": f"status {site}",
        "judge": f"judge {site}",
        "incidents": f"incidents {site}",
        "explain": f"explain {site} --at 2026-11-02T12:00Z",
        "targets": f"targets {site}",
        "snapshot": f"snapshot {site}",
        "check-no-probe": f"check {site} --no-probe",
        # Time passes in a survey: two runs of one moment would be in the order of random bits.
        "survey": f"survey {site} --size 256MiB --duration 6s",
        "survey-apply": f"survey {site} --size 256MiB --duration 6s --apply",
        "probe": f"probe hourly --site {site}",
        "survey-one": f"survey {site} --size 256MiB --duration 6s --target OST0001 --apply",
        "check": f"check {site} --out check.html",
        "tune": f"tune {site}",
        "tune-apply": f"tune {site} --apply",
        "balance": f"balance {site} --apply",
        "trim": f"trim {site} --apply",
        "actions": f"actions {site}",
        "revert": f"revert {site} --all --apply",
        "event-add": f"event add {site} words --kind note",
        "watch-once": f"watch {site} --once",
        "watch-status": f"watch {site} --status",
        "watch-dry": f"watch {site} --dry-run",
        "alerts-list": f"alerts list {site}",
        "correlate": f"correlate {site}",
        "ladder": f"ladder {site}",
        "whatif": "whatif small.toml --vary trim=never,nightly --seeds 2 --until 2d --workers 1 "
        "--results figures.db --out whatif.html",
        "runs": "runs --store life/small.db",
    }
    yield from answers(commands, store="other.db")
    for page in ("check", "whatif"):
        yield f"page-{page}", facts((directory / f"{page}.html").read_text())


def simulations() -> Iterator[tuple[str, Any]]:
    """Yield hashes of what scenarios leave in a store and of the truth beside it."""
    directory = fresh("simulations")
    scenarios = {
        "template": ("template", "3d"),
        "perlmutter": ("perlmutter", "2d"),
        "faulty": (str(_faulty(directory)), "3d"),
    }
    for name, (scenario, until) in scenarios.items():
        words = f"twin run {scenario} --until {until} --directory {name} --snapshots 6h --seed 5"
        ((_, answer),) = answers({name: words}, store="other.db")
        yield name, {**answer, "hashes": _hashes(directory / name)}


def _faulty(directory: Path) -> Path:
    scenario = small_scenario()
    end = scenario.start.replace(day=2)
    fault = TwinFault(end, "silent-ost", end.replace(hour=3), osts=(1,))
    path = directory / "faulty.toml"
    path.write_text(to_toml(replace(scenario, name="faulty", faults=(fault,), probes=PROBES)))
    return path


def _hashes(directory: Path) -> dict[str, Any]:
    """Return a hash of each table of a store, and of the truth, with its last row to be read."""
    (store,) = directory.glob("*.db")
    hashes: dict[str, Any] = {}
    with sqlite3.connect(store) as connection:
        for table, columns in _TABLES.items():
            rows = connection.execute(f"SELECT {columns} FROM {table}").fetchall()
            hashes[table] = f"{len(rows)} rows {digest(sorted(map(repr, rows)))}"
    (causes,), (truth,) = (directory.glob(f"*.truth.{suffix}") for suffix in ("jsonl", "parquet"))
    rows = normal({str(at): row for at, row in enumerate(_rows(truth))})
    last = rows[str(len(rows) - 1)]
    hashes["causes"] = hashlib.sha256(causes.read_bytes()).hexdigest()[:16]
    hashes["truth"] = {"rows": len(rows), "digest": digest(rows), "last": last}
    return hashes


def _rows(truth: Path) -> list[dict[str, Any]]:
    """Return the true state of every target at every time, as JSON has it."""
    frame = pl.read_parquet(truth)
    return json.loads(json.dumps(frame.to_dicts(), default=str))


_TABLES: Final = {
    "run": "probe, kind, status, at, until",
    "sample": "metric, value, repetition, target, statistic",
    "event": "kind, at, until, targets",
}
