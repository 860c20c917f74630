"""The purge walked up to its notices, at whatever size: the commands that a site would give."""

from __future__ import annotations

import pwd
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.purge_case import case
from benchmarks.purge_case.case import Mix
from benchmarks.purge_case.index import make_index
from benchmarks.purge_case.places import Places, cost, document, planned_of, taken, users_known

QUANTILES: Final = (0.1, 0.5, 0.9, 0.99, 1.0)
_SHOWN: Final = 8
_BY_USER: Final = (
    "select uid, count(*) as files, sum(allocated_bytes) as bytes from files group by uid"
)
_USED: Final = (
    *("--used", f"{case.USED_BYTES // case.TB}TB"),
    *("--available", f"{(case.CAPACITY_BYTES - case.USED_BYTES) // case.TB}TB"),
)


def horizons(places: Places) -> dict[str, Any]:
    """Return what the index says of the policy, of other targets, and without reads."""
    asked = _asked(places)
    site = _site(places)
    with users_known():
        shown = places.trimtab(*asked, *site, "--top", _SHOWN)
    told = document(places.trimtab(*asked, *site, "--json"))
    blind = document(places.trimtab(*asked, "--json"))
    return {
        "command": shown["command"],
        "text": shown["printed"],
        **cost(shown),
        "horizon": summary(told),
        "without_reads": summary(blind),
        "targets": [_target(places, target) for target in case.TARGETS],
    }


def holdings(places: Places) -> dict[str, Any]:
    """Return who holds what, as ``query`` says it."""
    told = places.trimtab("query", "--index", places.index, _BY_USER, "--json")
    rows = document(told)["rows"]
    held = sorted((row["bytes"] for row in rows), reverse=True)
    return {
        **cost(told),
        "users": len(held),
        "bytes_all": sum(held),
        "files_all": sum(row["files"] for row in rows),
        "bytes": _quantiles(held),
        "files": _quantiles([row["files"] for row in rows]),
        "over_quota": sum(one > case.QUOTA_BYTES for one in held),
        "top_tenth_share": round(sum(held[: len(held) // 10]) / sum(held), 3),
    }


def plan(places: Places) -> dict[str, Any]:
    """Return what the plan is, and what it takes from whom."""
    argv = [sys.executable, "-m", "benchmarks.purge_case.plan"]
    told = taken(
        [*argv, *map(str, (places.index, places.policy, places.site, places.store, places.plan))],
        environment={"TRIMTAB_PURGE": str(places.place)},
    )
    made = document(told)
    users = made["users"]
    shares = [one["allocated_bytes"] / one["held_bytes"] for one in users if one["held_bytes"]]
    return {
        **cost(told),
        **planned_of(made),
        "candidates_bytes": (places.plan / "candidates.parquet").stat().st_size,
        "users": len(users),
        "user_files": _quantiles([one["files"] for one in users]),
        "user_bytes": _quantiles([one["allocated_bytes"] for one in users]),
        "user_shares": _quantiles(shares),
    }


def notices(places: Places) -> dict[str, Any]:
    """Return what users are given, and the list of one of them up to its first names."""
    with users_known():
        told = places.trimtab("notify", places.plan, "--files", "--json")
        lookup_s = _account_lookup_s()
    made = document(told)
    lists, directory = made["lists"], Path(made["directory"])
    middle = sorted(lists, key=lambda one: one["files"])[len(lists) // 2]
    sizes: dict[str, list[int]] = {}
    for one in lists:
        for suffix in ("txt", "jsonl", "nul"):
            file = directory / f"{one['name']}.{suffix}"
            sizes.setdefault(suffix, []).append(file.stat().st_size)
    with (directory / f"{middle['name']}.txt").open() as stream:
        text = "".join(line for line, _ in zip(stream, range(90), strict=False))
    head, _, names = text.partition("\nLAST USE ")
    return {
        **cost(told),
        "account_lookup_s": lookup_s,
        "lists": len(lists),
        "files": sum(one["files"] for one in lists),
        "bytes": {suffix: sum(of) for suffix, of in sizes.items()},
        "text_bytes": _quantiles(sizes["txt"]),
        "example": f"{head}\nLAST USE {''.join(names.splitlines(keepends=True)[:6])}",
    }


def _account_lookup_s() -> float:
    """Return how long the account of a number takes to find, where 10,000 lines are looked at."""
    uids = range(case.FIRST_UID, case.FIRST_UID + case.USERS, case.USERS // 100)
    begun = time.perf_counter()
    for uid in uids:
        pwd.getpwuid(uid)
    return round((time.perf_counter() - begun) / len(uids), 6)


def mixes(places: Places, program: Path, rows: int) -> list[dict[str, Any]]:
    """Return the horizon of each mix, at a smaller size."""
    return [_of_mix(places, program, rows, mix) for mix in case.MIXES]


def _of_mix(places: Places, program: Path, rows: int, mix: Mix) -> dict[str, Any]:
    directory = places.top / "mix.index"
    try:
        made = make_index(program, places, directory, rows, mix)
        asked = _asked(places, directory)
        found = summary(document(places.trimtab(*asked, *_site(places), "--json")))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {"name": mix.name, **made, **found}


def _target(places: Places, target: float) -> dict[str, Any]:
    asked = (*_asked(places), *_site(places), "--target", target, "--json")
    found = document(places.trimtab(*asked))
    return {"target": target, **_cut_offs(found)}


def _asked(places: Places, index: Path | None = None) -> tuple[object, ...]:
    return "horizon", "--index", index or places.index, "--policy", places.policy, *_USED


def _site(places: Places) -> tuple[object, ...]:
    return "--site", places.site, "--store", places.store, "--forecast", "7d"


def summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page tells of a horizon: not every owner."""
    names = ("files", "allocated_bytes", "rules", "growth")
    users = [one["most"]["allocated_bytes"] for one in found["users"]]
    return {
        **{name: found[name] for name in names},
        **_cut_offs(found),
        "steps": [_cut_off(step, found["as_of"]) for step in found["steps"]],
        "users": len(users),
        "user_bytes": _quantiles(users),
        "words": found["words"],
    }


def _cut_offs(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cut_off(found[name], found["as_of"]) for name in ("needed", "published")}


def _cut_off(of: Mapping[str, Any], as_of: str) -> dict[str, Any]:
    """Return a cut-off and what it leaves with its age, which the page tells."""
    age_s = None
    if of["cut_off"] is not None:
        age = datetime.fromisoformat(as_of) - datetime.fromisoformat(of["cut_off"])
        age_s = int(age.total_seconds())
    kept = {name: value for name, value in of.items() if name not in ("cut_off", "after")}
    return {**kept, "before": of["cut_off"], "age_s": age_s, "usage_after": of["after"]}


def _quantiles(values: Sequence[float]) -> list[float]:
    """Return the values at `QUANTILES`."""
    if not values:
        return []
    found = np.quantile(np.asarray(values, np.float64), QUANTILES)
    return [round(float(one), 4) for one in found]
