"""The commands that look after a site, on a site that is simulated, by the clock of its twin."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Ended, trimtab
from tests.support.narrow import present
from tests.support.small_twin import START, small_scenario
from tests.support.watched import Ended as Killed
from tests.support.watched import a_log

from trimtab.act.page import plan_answer
from trimtab.act.visit import visit
from trimtab.base.error import RefusedError
from trimtab.base.run import Run, RunStatus
from trimtab.base.site import Site
from trimtab.explain.headline import site_troubles
from trimtab.probe.check import check
from trimtab.probe.check_plan import CheckOptions
from trimtab.probe.site_look import look
from trimtab.probe.site_probe import SiteProbeRunner
from trimtab.probe.site_standing import whole_standing
from trimtab.site.lookup import clock_of, know_site, open_acting_driver, open_driver, reach_of
from trimtab.site.path_access import Reach
from trimtab.site.place import Place
from trimtab.site.site_file import load_site
from trimtab.store.store import Store
from trimtab.twin import twin_site
from trimtab.twin.life import Diary, Life
from trimtab.twin.scenario import Fault, ProbeLoad
from trimtab.twin.twin_run import TwinRequest, run_twin
from trimtab.watch.watch import Watch

pytestmark = pytest.mark.cli

MIB = 2.0**20
END = START + timedelta(days=2)
PROBE = ProbeLoad(
    "hourly", "ior", "every 1h", nodes=2, tasks_per_node=2, bytes_written=128 * MIB, timeout_s=600.0
)
Command = Callable[..., Ended]


def a_site(directory: Path, **changes: Any) -> Site:
    """Return a site of which two days were simulated."""
    scenario = small_scenario(**{"probes": (PROBE,), **changes})
    wanted = TwinRequest(scenario, directory, until_s=2 * 86400.0)
    return load_site(run_twin(wanted, progress=lambda text, part: None).site_file).site


def time_of(site: Site) -> datetime:
    return present(Diary(Path(site.path)).time())


def runs_of(site: Site, **terms: Any) -> tuple[Run, ...]:
    with Store.open(site.store.url) as store:
        return store.runs(site=site.name, **terms)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Command]:
    directory = tmp_path_factory.mktemp("lived")
    site = a_site(directory)

    def run(*words: object) -> Ended:
        file = str(site.source)
        ended = trimtab(
            *[file if one == "SITE" else one for one in words], store=directory / "no.db"
        )
        assert ended.code == 0, ended.stderr + ended.stdout
        return ended

    return site, run


@pytest.fixture(autouse=True)
def _one_process_a_test() -> Any:
    """Each test is a process of its own: what it has open is closed at its end."""
    yield
    for driver in twin_site._opened.values():
        driver.life.close()
    twin_site._opened.clear()


def test_what_is_kept_is_shown_judged_and_explained(lived: tuple[Site, Command]) -> None:
    _, run = lived
    assert {one["runs"] for one in run("status", "SITE", "--json").document["series"]} == {48}
    assert run("judge", "SITE", "--json").document
    assert run("incidents", "SITE", "--json").document
    assert run("explain", "SITE", "--at", "2026-11-02 12:00", "--json").document
    assert run("site", "SITE").stdout
    runs = run("runs", "--store", f"sqlite:///{lived[0].path}/small.db", "--json").document
    assert {one["site"] for one in runs["runs"]} == {"small"}


def test_a_site_file_of_a_twin_holds_against_its_twin(lived: tuple[Site, Command]) -> None:
    _, run = lived
    found = run("site", "SITE", "--validate", "--json").document
    assert all(one["ok"] is not False for one in found["checked"]), found["checked"]


def test_targets_are_shown_and_time_stands_still(lived: tuple[Site, Command]) -> None:
    site, run = lived
    before = time_of(site)
    found = run("targets", "SITE", "--json").document
    assert datetime.fromisoformat(found["at"]) == before
    assert len(found["targets"]) == 5
    assert time_of(site) == before


def test_a_probe_goes_on_with_the_series(lived: tuple[Site, Command]) -> None:
    site, run = lived
    before = time_of(site)
    with Store.open(site.store.url) as store:
        runs = {one.comparability: one.runs for one in store.series(site.name)}
    (own,) = run("probe", "hourly", "--site", "SITE", "--json").document["runs"]
    assert own["status"] == "ok"
    after = time_of(site)
    assert before < after < before + timedelta(minutes=1)
    assert before <= datetime.fromisoformat(own["at"]) <= after
    with Store.open(site.store.url) as store:
        (series,) = [one for one in store.series(site.name) if one.probe == "hourly"]
        points = store.history(site.name, series.comparability, metric="write_bandwidth")
    assert {series.comparability: series.runs - 1} == runs
    earlier = [one.value for one in points[:-1]]
    assert min(earlier) * 0.9 < points[-1].value < max(earlier) * 1.1


def test_a_check_measures_and_writes_its_report(lived: tuple[Site, Command]) -> None:
    site, run = lived
    document = run("check", "SITE", "--json").document
    (own,) = document["runs"]
    assert (own["kind"], own["status"]) == ("ior", "ok")
    report = Path(document["report"])
    assert report.read_text().startswith("<!DOCTYPE html>")
    assert site.path in report.read_text()
    at = time_of(site)
    assert datetime.fromisoformat(own["until"]) <= at


def test_check_targets_status_and_tune_have_one_list_and_its_repair_works(
    lived: tuple[Site, Command], tmp_path: Path
) -> None:
    """`targets` named throttled OSTs before, `check` no finding, `tune` nothing to change."""
    site, _ = lived
    url = str(tmp_path / "t.db")
    (throttled,) = site_troubles(look(site, open_driver(site, clock=clock_of(site)), url))
    assert throttled.id == "throttled"
    options = CheckOptions(path=site.path, store_url=url, site=site.name, no_probe=True)
    checked, _ = check(options, page=lambda result: result.site, known=site, reach=reach_of(site))
    assert throttled in checked.findings
    with Store.open(url) as store:
        kept = whole_standing(store, Place(site.name, site))
    assert site_troubles(kept) == (throttled,)  # not the client's mount, which is well
    planned = visit(str(site.source), url, "tunables")
    assert planned.troubles == (throttled,)
    told = plan_answer(planned.plan, (), planned.troubles)
    assert told.startswith(f"small: no change by tunables; still in trouble: {throttled.title}")
    lines = re.search(r"(\[policy\.\w+\]) (\w+ = \{.*?\})", throttled.fix.prose)
    assert lines
    mended = tmp_path / "mended.toml"
    mended.write_text("\n".join([Path(str(site.source)).read_text(), *lines.groups(), ""]))
    plan = visit(str(mended), url, "tunables").plan
    assert plan.instructions
    assert {each.setting.rpartition("/")[2] for each in plan.instructions if each.setting} == {
        "wbt_lat_usec"
    }


def test_every_target_is_surveyed_by_itself(lived: tuple[Site, Command]) -> None:
    site, run = lived
    before = Diary(Path(site.path)).read()
    words = ("survey", "SITE", "--size", "256MiB", "--duration", "6s", "--json")
    plan = run(*words).document
    assert Diary(Path(site.path)).read() == before
    assert [one["target"] for wave in plan["waves"] for one in wave] == [
        f"OST{n:04x}" for n in range(4)
    ]
    for benchmark in ("builtin", "ior"):
        found = run(*words, "--apply", "--benchmark", benchmark).document
        assert {one["outcome"] for one in found["targets"]} == {"measured"}, found
    with Store.open(site.store.url) as store:
        (one, *_) = store.runs(site=site.name, probe="survey-client")
        samples = store.run(one.id).samples
    assert {s.target for s in samples} >= {f"OST{n:04x}" for n in range(4)}
    assert Life.open(Path(site.path), str(site.scenario)).held == {}


def test_once_and_a_snapshot_and_an_event_are_of_the_twins_time(
    lived: tuple[Site, Command],
) -> None:
    site, run = lived
    at = time_of(site)
    snapshot = run("snapshot", "SITE", "--json").document
    assert datetime.fromisoformat(snapshot["snapshot"]["at"]) == at
    event = run("event", "add", "SITE", "words", "--kind", "note", "--json").document
    assert datetime.fromisoformat(event["events"][0]["at"]) == at
    once = run("watch", "SITE", "--once", "--json")
    assert {one["state"] for one in once.document["slots"]} == {"done"}
    logged = [json.loads(line) for line in once.stderr.splitlines() if line.startswith("{")]
    assert logged
    assert all(abs(datetime.fromisoformat(one["at"]) - at) < timedelta(hours=1) for one in logged)


# A watch


def a_watch(
    site: Site, store: Store, reach: Reach, *, until: datetime, **changes: Any
) -> tuple[Watch, Any]:
    log, lines = a_log()

    def sleep(seconds: float) -> None:
        if reach.clock() >= until:
            raise Killed
        reach.sleep(seconds)

    identity = know_site(store, site)
    values: dict[str, Any] = {
        "clock": reach.clock,
        "sleep": sleep,
        "elapsed_s": reach.elapsed_s,
        "open_acting": open_acting_driver,
        "log": log,
    }
    runner = SiteProbeRunner(site, reach.clock, identity, reach)
    return Watch(site, store, open_driver(site), runner, **(values | changes)), lines


def test_a_watch_lives_on_for_days_and_goes_on_with_the_series(tmp_path: Path) -> None:
    site = replace(a_site(tmp_path), snapshot_schedule="every 2h")
    reach = reach_of(site)
    until = END + timedelta(days=2)
    with Store.open(site.store.url) as store:
        (before,) = store.series(site.name)
        watch, lines = a_watch(site, store, reach, until=until)
        with pytest.raises(Killed):
            watch.run()
        (after,) = store.series(site.name)
        assert (after.comparability, after.runs) == (before.comparability, before.runs + 48)
        points = store.history(site.name, after.comparability, metric="write_bandwidth")
        times = [one.at for one in points]
        assert times == sorted(times)
        gaps = {(b - a).total_seconds() for a, b in pairwise(times)}
        assert gaps == {3600.0}
        assert {one.status for one in store.runs(site=site.name, limit=1000)} == {RunStatus.OK}
        assert len(store.snapshots(site.name, since=END, limit=10_000)) >= 2 * 48 + 2 * 12
    text = lines.text()
    assert "slot failed" not in text
    assert "clock" not in text
    # As long as its deeds, not as its sleeps.
    assert len((tmp_path / "life.jsonl").read_text().splitlines()) < 2 + 5 * 48
    reach_now = reach.clock()
    twin_site._opened.pop((site.path, str(site.scenario))).life.close()
    assert clock_of(site)() == reach_now >= until


def test_the_next_watch_goes_on_where_one_was_killed(tmp_path: Path) -> None:
    site = a_site(tmp_path)
    for day in (1, 2):
        reach = reach_of(site)
        with Store.open(site.store.url) as store:
            until = END + timedelta(hours=12 * day)
            watch, _ = a_watch(site, store, reach, until=until, gone=lambda holder: True)
            with pytest.raises(Killed):
                watch.run()
        runs = runs_of(site, probe="hourly", limit=1000)
        assert len(runs) == 48 + 12 * day
        assert len({one.at for one in runs}) == len(runs)
        # Without a word, as one that was killed: what it kept last is all that there is.
        present(twin_site._opened.popitem()[1].life.diary).close()


def test_what_a_silent_target_does_is_seen_by_the_watch(tmp_path: Path) -> None:
    fault = Fault(END + timedelta(hours=2.5), "silent-ost", END + timedelta(hours=4.5), osts=(1,))
    site = a_site(tmp_path, faults=(fault,))
    reach = reach_of(site)
    with Store.open(site.store.url) as store:
        watch, _ = a_watch(site, store, reach, until=END + timedelta(hours=8))
        with pytest.raises(Killed):
            watch.run()
    runs = runs_of(site, probe="hourly", limit=8)
    statuses = {one.at.hour: one.status for one in runs if one.at is not None}
    assert statuses[3] is statuses[4] is RunStatus.UNFINISHED
    assert {statuses[hour] for hour in (1, 2, 5, 6, 7)} == {RunStatus.OK}
    assert twin_site.open_twin(site).life.held == {}


def test_retention_goes_by_the_twins_days(tmp_path: Path) -> None:
    site = a_site(tmp_path)
    site = replace(site, store=replace(site.store, retention_s=86400.0))
    reach = reach_of(site)
    site = replace(site, probes=(), snapshot_schedule="every 6h")
    until = END + timedelta(days=2, hours=1)
    with Store.open(site.store.url) as store:
        watch, lines = a_watch(site, store, reach, until=until)
        with pytest.raises(Killed):
            watch.run()
        assert lines.text().count("pruned") == 2
        oldest = min(one.at for one in store.snapshots(site.name, limit=10_000))
    assert until - timedelta(days=2) <= oldest


def test_two_do_not_go_on_with_one_twin(tmp_path: Path) -> None:
    site = a_site(tmp_path)
    driver = open_driver(site)
    reach = reach_of(site)
    reach.sleep(60.0)
    ended = trimtab("probe", "hourly", "--site", site.source, "--json", store=tmp_path / "no.db")
    assert ended.code == 4, ended.stderr
    assert "another process is running the twin" in ended.stderr + ended.stdout
    assert trimtab("targets", site.source, store=tmp_path / "no.db").code == 0
    reach.sleep(60.0)
    assert Diary(tmp_path).time() == driver.clock() == END + timedelta(seconds=120)
    assert len(runs_of(site, limit=1000)) == 48


def test_a_full_file_system_fails_a_probe_as_a_real_one_does(tmp_path: Path) -> None:
    full = replace(small_scenario().users, fullness=0.97, daily_writes_bytes=2.0**20)
    site = a_site(tmp_path, users=full)
    driver = twin_site.open_twin(site)
    for number in range(4):
        driver.set_creation(f"OST{number:04x}", False)
    driver.sleep(3600.0)
    driver.life.close()
    ended = trimtab("probe", "hourly", "--site", site.source, "--json", store=tmp_path / "no.db")
    assert ended.code == 3
    (run,) = ended.document["runs"]
    assert (run["status"], run["samples"]) == ("failed", [])
    (last,) = runs_of(site, limit=1)
    assert (last.id, last.status) == (run["id"], RunStatus.FAILED)
    assert clock_of(site)().tzinfo is UTC


def test_a_process_that_lost_the_twin_is_told(tmp_path: Path) -> None:
    site = a_site(tmp_path)
    reach = reach_of(site)
    assert trimtab("probe", "hourly", "--site", site.source, store=tmp_path / "no.db").code == 0
    with pytest.raises(RefusedError, check=lambda error: error.code == "twin-in-use"):
        reach.sleep(60.0)
    assert reach.clock() == END
