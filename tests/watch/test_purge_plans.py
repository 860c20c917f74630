"""Purge plans that the watch makes: real commands on a real tree, stopped, resumed, not needed."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.purge.command.walk import Walk
from tests.support import loopback
from tests.support.watched import MONDAY, Ended, Moving, a_log, a_site, a_watch

from trimtab.base.schedule import PURGE_PLAN
from trimtab.base.site import Site
from trimtab.base.site_policy import Policies, PurgePlanPolicy
from trimtab.store.slot import SlotState
from trimtab.store.store import Store
from trimtab.watch.agenda import items
from trimtab.watch.armed_policy import PlanEnd, PurgePlanning

pytestmark = pytest.mark.system
DUE = datetime(2026, 11, 22, 3, tzinfo=UTC)
NAME = "2026-11-22T0300Z"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Give a file system with old files, and places for their purge."""
    if (reason := loopback.why_no_loop_devices("ext4")) is not None:
        pytest.skip(reason)
    public = Path(tempfile.mkdtemp(prefix="trimtab-purge-"))
    public.chmod(0o755)
    private = tmp_path_factory.mktemp("purge")
    with loopback.mounted(private, size_bytes=64 * 2**20) as mounted:
        walk = Walk(mounted.mount_point, private, public, "real")
        walk.make_files()
        yield walk
    shutil.rmtree(public)


@pytest.fixture
def site(walk: Walk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    """Give a site whose plans go to a new directory."""
    walk.write_policy()
    monkeypatch.setenv("TRIMTAB_PURGE", str(walk.place))
    file = tmp_path / "walk.toml"
    file.write_text(f'[site]\nname = "walk"\ndriver = "local"\npath = "{walk.root}"\n')
    return a_site(
        path=str(walk.root),
        source=str(file),
        policies=Policies(purge=plans(policy=str(walk.policy), directory=str(tmp_path / "plans"))),
    )


def plans(**changes: str) -> PurgePlanPolicy:
    fields = {"schedule": "daily at 03:00", "policy": "/p.toml", "directory": "/plans"} | changes
    return PurgePlanPolicy(**fields)  # type: ignore[arg-type]


def planning(site: Site, tmp_path: Path, *command: str) -> PurgePlanning:
    store = f"sqlite:///{tmp_path / 't.db'}"
    more = {"command": command} if command else {}
    return PurgePlanning(site, store, a_log()[0], **more)  # type: ignore[arg-type]


def wait(planning: PurgePlanning) -> PlanEnd:
    until = time.monotonic() + 120
    while (end := planning.ended()) is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    return end


def planned(planning: PurgePlanning) -> PlanEnd:
    planning.begin(DUE)
    return wait(planning)


def test_a_plan_is_made_and_published_once(site: Site, walk: Walk, tmp_path: Path) -> None:
    work = planning(site, tmp_path)
    work.begin(DUE)
    assert work.due_at == DUE
    assert wait(work) == PlanEnd()
    assert work.due_at is None
    directory = tmp_path / "plans"
    plan = (directory / f"{NAME}.plan" / "plan.json").read_bytes()
    lists = sorted(path.name for path in (walk.public / "lists").rglob("*") if path.is_file())
    assert lists
    # As after a kill before the slot's end was stored.
    assert planned(work) == PlanEnd()
    assert (directory / f"{NAME}.plan" / "plan.json").read_bytes() == plan
    assert lists == sorted(p.name for p in (walk.public / "lists").rglob("*") if p.is_file())
    assert (directory / f"{NAME}.log").read_text().count('"schema_version"') == 4
    assert {path.name for path in directory.iterdir()} == {
        f"{NAME}.{kind}" for kind in ("index", "plan", "log")
    }


def test_what_was_stopped_is_resumed(site: Site, tmp_path: Path) -> None:
    first = planning(site, tmp_path)
    first.begin(DUE)
    assert first.ended() is None  # the scan begins
    first.stop()
    first.stop()
    assert planned(planning(site, tmp_path)) == PlanEnd()
    assert (tmp_path / "plans" / f"{NAME}.plan").is_dir()


def test_a_plan_that_is_not_needed_is_no_failure(site: Site, walk: Walk, tmp_path: Path) -> None:
    walk.write_policy(target="99%")
    end = planned(planning(site, tmp_path))
    assert not end.failed
    assert (end.detail or "").startswith("purge plan: ")
    assert not (tmp_path / "plans" / f"{NAME}.plan").exists()


def test_an_error_of_a_command_is_said(site: Site, walk: Walk, tmp_path: Path) -> None:
    walk.policy.write_text("[policy]\nname = 3\n")
    end = planned(planning(site, tmp_path))
    assert end.failed
    assert str(walk.policy) in (end.detail or "")


@pytest.mark.parametrize("said", ["", "Traceback\nKilled", json.dumps({"error": None}), "[1]"])
def test_a_command_that_ends_without_a_document(tmp_path: Path, said: str) -> None:
    site = a_site(policies=Policies(purge=plans(directory=str(tmp_path / "plans"))))
    end = planned(planning(site, tmp_path, "sh", "-c", f"echo '{said}' >&2; exit 7"))
    assert end.failed
    assert "exit code 7" in (end.detail or "")


def test_probes_go_on_while_a_plan_is_made(tmp_path: Path, store: Store) -> None:
    clock = Moving(MONDAY)
    site = a_site(policies=Policies(purge=plans(directory=str(tmp_path / "plans"))))
    assert [item.name for item in items(site)] == ["probe:hourly", PURGE_PLAN]
    gate = tmp_path / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done"
    watch = a_watch(site, store, clock, until=MONDAY + timedelta(hours=30))
    watch._work.planning = planning(site, tmp_path, "sh", "-c", script)
    with pytest.raises(Ended):
        watch.run()
    running = store.open_slots("scratch")
    assert [(slot.item, slot.due_at) for slot in running] == [(PURGE_PLAN, DUE_MONDAY)]
    states = [slot.state for slot in store.slots("scratch", item="probe:hourly")]
    assert states == [SlotState.DONE] * 30
    (late,) = store.slots("scratch", item=PURGE_PLAN, since=MONDAY + timedelta(hours=24))
    assert late.state is SlotState.MISSED
    gate.touch()  # the watch was killed; the next one resumes it
    watch._work.planning.stop()
    after = a_watch(site, store, clock, until=MONDAY + timedelta(hours=31))
    after._work.planning = planning(site, tmp_path, "true")
    with pytest.raises(Ended):
        after.run()
    until = time.monotonic() + 120  # a simulated hour may be shorter than three processes
    while after._work.is_planning and time.monotonic() < until:
        after._work.planned()
        time.sleep(0.01)
    assert store.open_slots("scratch") == ()
    (first, _) = store.slots("scratch", item=PURGE_PLAN)
    assert first.state is SlotState.DONE


DUE_MONDAY = MONDAY + timedelta(hours=3)
