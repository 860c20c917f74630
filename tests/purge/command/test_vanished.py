"""Candidates that vanish before the run, and what a purge that fails leaves in the log book."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.purge.command.walk import OWNERS, Walk
from tests.support.command import trimtab

pytestmark = [pytest.mark.system]


@pytest.fixture
def site(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store; the one site file of this host has the root, and no run names it."""
    sites = walk.private / "sites"
    sites.mkdir()
    (sites / "walk.toml").write_text(
        f'[site]\nname = "walk"\ndriver = "local"\npath = "{walk.root}"\n'
    )
    monkeypatch.setenv("TRIMTAB_SITES", str(sites))
    monkeypatch.setenv("TRIMTAB_STORE", str(walk.private / "store.db"))
    return walk.private / "store.db"


def log_book(store: Path) -> list[tuple[str, str]]:
    """Return kind and detail of every entry."""
    ended = trimtab("event", "list", "walk", "--json", store=store)
    assert ended.code == 0, ended.stderr
    return [(event["kind"], event["detail"]) for event in ended.document["events"]]


def oldest_first(walk: Walk) -> list[bytes]:
    return sorted(walk.files, key=lambda path: -walk.files[path])


def purge(walk: Walk) -> dict[str, Any]:
    walk.write_policy()
    walk.scan()
    walk.publish()
    return walk.good("run", walk.plan)["outcomes"]


@pytest.mark.parametrize("walk", ["real"], indirect=True)
def test_a_run_that_is_refused_is_told_and_one_whose_candidates_vanish_does_the_rest(
    walk: Walk, site: Path
) -> None:
    """One user is gone with the directory, of the others the oldest files, the first rows."""
    walk.make_files(24)
    planned = purge(walk)["would_delete"]
    assert not site.exists()

    walk.stop.touch()
    assert walk.trimtab("run", walk.plan, "--apply").code == 4
    ((kind, detail),) = log_book(site)
    assert kind == "purge-failed"
    assert detail.startswith("it was refused (kill-switch: ")
    text = " ".join(trimtab("status", "walk", store=site).stdout.split())
    assert "failed: it was refused (kill-switch: " in text.partition("; next: ")[0]
    assert text.partition("; next: ")[2].startswith("trimtab event list walk --since 20")
    walk.stop.unlink()

    shutil.rmtree(os.fsencode(walk.root) + b"/user %d" % OWNERS[0])
    left = [path for path in oldest_first(walk) if Path(os.fsdecode(path)).exists()]
    for path in left[:12]:
        Path(os.fsdecode(path)).unlink()
    ended = walk.trimtab("run", walk.plan, "--apply", "--json")
    assert ended.code == 0, ended.stderr
    run = json.loads(ended.stdout)
    assert run["reason"] == "plan-exhausted"
    gone = run["outcomes"]["gone"]
    assert planned / 2 <= gone < planned
    assert run["outcomes"] == {"gone": gone, "deleted": planned - gone}
    assert run["outcome_bytes"]["gone"] > run["outcome_bytes"]["deleted"] == run["bytes"] > 0
    kind, detail = log_book(site)[-1]
    assert kind == "purge"
    assert detail.startswith(f"{planned - gone} files, ")
    assert "failed" not in trimtab("status", "walk", store=site).stdout

    (walk.plan / "plan.json").write_text((walk.plan / "plan.json").read_text() + " ")
    assert walk.trimtab("run", walk.plan, "--apply").code != 0
    kind, detail = log_book(site)[-1]
    assert kind == "purge-failed"
    assert detail.startswith("it ended with an error: ")
