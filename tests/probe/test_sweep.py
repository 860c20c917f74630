"""A sweep on a real directory: measured in rounds, kept, gone on with, and refused where wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.base.error import Interrupted, ToolError, UsageError
from trimtab.base.event import identifier_of
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import Site, SiteProbe
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.probe.site_probe import SiteProbeRunner
from trimtab.probe.sweep import SweepWork, state_of
from trimtab.probe.sweep_file import Sweep, levels_now, load_sweep, varied
from trimtab.store.store import Store

MIB = 1024**2
PROBE = SiteProbe(
    "hourly", benchmark="builtin", tasks_per_node=1, block_size_bytes=4 * MIB, duration_s=0.2,
    direct=False,
)  # fmt: skip
SWEEP = Sweep("try", "s", "hourly", {"transfer_size": ("64KiB", "1MiB")}, {}, rounds=2)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as opened:
        yield opened


class Recorder:
    """Runs nothing: says what it was asked, and answers with a made run."""

    def __init__(self, *, fail: frozenset[int] = frozenset(), stop_at: int = 10**6) -> None:
        self.asked: list[SiteProbe] = []
        self.fail, self.stop_at = fail, stop_at

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        number = len(self.asked)
        self.asked.append(probe)
        if number == self.stop_at:
            raise Interrupted("stopped")
        status = RunStatus.FAILED if number in self.fail else RunStatus.OK
        run = Run(
            context.run_id,
            "s",
            probe.name,
            "builtin",
            status,
            context.at,
            parameters={"spec": {"transfer_size_bytes": probe.transfer_size_bytes}},
            problem="broken" if number in self.fail else None,
            samples=(Sample("write_bandwidth", 1e9, 0),),
        )
        return ProbeOutcome(run)

    def clean_up(self, probe: SiteProbe, run_id: str) -> None:
        raise AssertionError("a sweep has no slots")


def work(store: Store, runner: Recorder, sweep: Sweep = SWEEP) -> SweepWork:
    return SweepWork(sweep, Site("s", "local", "/", probes=(PROBE,)), PROBE, store, runner, now)


@pytest.mark.system
def test_every_point_is_measured_once_a_round_for_real(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "fs"
    place.mkdir()
    site = Site("s", "local", str(place), probes=(PROBE,))
    runner = SiteProbeRunner(site, now)
    told: list[float] = []
    sweep = SweepWork(SWEEP, site, PROBE, store, runner, now)
    state = sweep.run({}, lambda text, fraction: told.append(fraction))
    assert state.measured == len(state.points) == 4
    assert told == sorted(told)
    for point in state.points:
        assert point.run is not None
        asked = point.run.parameters["spec"]
        assert isinstance(asked, dict)
        size = {"64KiB": 65536, "1MiB": MIB}[str(point.levels["transfer_size"])]
        assert asked["transfer_size_bytes"] == size
    assert list(place.iterdir()) == []


@pytest.mark.system
def test_it_goes_on_where_it_was_broken_off(store: Store) -> None:
    with pytest.raises(Interrupted):
        work(store, Recorder(stop_at=1)).run({}, lambda *_: None)
    assert state_of(SWEEP, Site("s", "local", "/"), PROBE, store).measured == 1
    again = Recorder()
    assert work(store, again).run({}, lambda *_: None).measured == 4
    assert len(again.asked) == 3
    idle = Recorder()
    work(store, idle).run({}, lambda *_: None)
    assert idle.asked == []


@pytest.mark.system
def test_points_of_a_probe_that_was_changed_are_not_taken_for_its_own(store: Store) -> None:
    work(store, Recorder()).run({}, lambda *_: None)
    site = Site("s", "local", "/")
    state = state_of(SWEEP, site, replace(PROBE, tasks_per_node=2), store)
    assert (state.measured, state.left_out) == (0, 4)
    later = replace(PROBE, schedule="every 1h", timeout_s=60.0)
    assert state_of(SWEEP, site, later, store).measured == 4


@pytest.mark.system
def test_everything_that_one_command_measured_is_kept(store: Store) -> None:
    class Several(Recorder):
        def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
            outcome = super().__call__(probe, context)
            score = replace(
                outcome.run, id=identifier_of(now(), context.run_id), probe=f"{probe.name}: score"
            )
            return replace(outcome, others=(score,))

    assert work(store, Several()).run({}, lambda *_: None).measured == 4
    others = store.runs(probe="sweep-try: score")
    assert len(others) == 4
    assert all("levels" in run.parameters["sweep"] for run in others)  # type: ignore[operator]


@pytest.mark.system
def test_a_point_that_failed_is_told_and_measured_again(store: Store) -> None:
    state = work(store, Recorder(fail=frozenset({0}))).run({}, lambda *_: None)
    assert (state.measured, len(state.failures)) == (3, 1)
    assert "broken" in state.failures[0]
    again = Recorder()
    assert work(store, again).run({}, lambda *_: None).measured == 4
    assert len(again.asked) == 1


@pytest.mark.system
def test_three_failures_in_a_row_end_it(store: Store) -> None:
    runner = Recorder(fail=frozenset(range(9)))
    with raises(ToolError, "points-failed"):
        work(store, runner).run({}, lambda *_: None)
    assert len(runner.asked) == 3


@pytest.mark.system
def test_what_is_set_by_hand_waits_until_it_is_said(store: Store) -> None:
    sweep = replace(SWEEP, manual={"nps": (1, 4)}, rounds=1)
    runner = Recorder()
    state = work(store, runner, sweep).run({}, lambda *_: None)
    assert runner.asked == []
    assert state.waiting == ({"nps": 1}, {"nps": 4})
    state = work(store, runner, sweep).run(levels_now(sweep, ("nps=4",)), lambda *_: None)
    assert (state.measured, state.waiting) == (2, ({"nps": 1},))
    settings = [p.run.parameters["spec"]["settings"] for p in state.points if p.run]  # type: ignore[index]
    assert settings == [{"nps": 4}, {"nps": 4}]


def test_rounds_are_shuffled_each_in_its_own_way_and_always_the_same() -> None:
    sweep = replace(SWEEP, factors={"nodes": tuple(range(1, 21))})
    assert sorted(map(str, sweep.order(0))) == sorted(map(str, sweep.points))
    assert sweep.order(0) == sweep.order(0)
    assert sweep.order(0) != sweep.order(1) != sweep.points


def test_only_what_is_varied_differs_from_the_probe() -> None:
    site = Site("s", "local", "/", probes=(PROBE,))
    changed = varied(site, PROBE, SWEEP, {"transfer_size": "64KiB"})
    assert changed == replace(PROBE, name="sweep-try", transfer_size_bytes=65536)


@pytest.mark.parametrize(
    ("factor", "value", "message"),
    [
        ("transfer_sise", "1MiB", "transfer_sise"),
        ("transfer_size", "1 furlong", "furlong"),
        ("transfer_size", "1000", "O_DIRECT"),
        ("nodes", 2, "starts tasks on this host"),
    ],
)
def test_a_level_that_cannot_be_is_refused_before_anything_runs(
    store: Store, factor: str, value: str | int, message: str
) -> None:
    sweep = replace(SWEEP, factors={factor: (value,)})
    runner = Recorder()
    with pytest.raises(UsageError, match=message):
        SweepWork(
            sweep, Site("s", "local", "/"), replace(PROBE, direct=True), store, runner, now
        ).run({}, lambda *_: None)
    assert runner.asked == []


GOOD = """
[sweep]
name = "try"
site = "scratch"
probe = "hourly"
rounds = 2
[factor]
nodes = [1, 2]
[manual]
nps = [1, 4]
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(GOOD)
    sweep = load_sweep(str(path))
    assert sweep == Sweep("try", "scratch", "hourly", {"nodes": (1, 2)}, {"nps": (1, 4)}, rounds=2)
    assert len(sweep.points) == 4


@pytest.mark.parametrize(
    ("site", "found"),
    [
        ("scratch", "scratch"),
        ("mine.toml", "{0}/mine.toml"),
        ("./mine", "{0}/mine"),
        ("../sites/mine.toml", "{0}/../sites/mine.toml"),
        ("/sites/mine.toml", "/sites/mine.toml"),
    ],
)
def test_a_site_file_is_seen_from_the_file_of_the_sweep(
    tmp_path: Path, site: str, found: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(GOOD.replace('site = "scratch"', f'site = "{site}"'))
    assert load_sweep(str(path)).site == found.format(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "place", "code"),
    [
        ("[factor]", "[factors]", "[factors]", "unknown-table"),
        ("rounds = 2", "rounds = 0", "[sweep] rounds", "out-of-range"),
        ("rounds = 2", "times = 2", "[sweep] times", "unknown-key"),
        ('name = "try"', 'name = "Try it"', "[sweep] name", "name-invalid"),
        ('site = "scratch"', "", "[sweep] site", "missing-key"),
        ("nodes = [1, 2]", "nodes = []", "[factor] nodes", "malformed-value"),
        ("nodes = [1, 2]", "nodes = [1, 1]", "[factor] nodes", "malformed-value"),
        ("nodes = [1, 2]", "nodes = [[1]]", "[factor] nodes", "wrong-type"),
        ("nodes = [1, 2]", "nps = [1]", "[factor] nps", "contradiction"),
        ("nodes = [1, 2]", 'schedule = ["every 1h"]', "[factor] schedule", "factor-fixed"),
        ("nodes = [1, 2]", f"nodes = {list(range(1, 6000))}", "[factor]", "out-of-range"),
        ("nodes = [1, 2]", "nodes = [1, 2", "", "not-toml"),
    ],
)
def test_a_mistake_in_the_file_is_told(
    tmp_path: Path, old: str, new: str, place: str, code: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(GOOD.replace(old, new))
    with raises(UsageError, code) as caught:
        load_sweep(str(path))
    assert place in caught.value.message


def test_a_level_by_hand_is_one_of_the_file() -> None:
    sweep = replace(SWEEP, manual={"nps": (1, 4)})
    with pytest.raises(UsageError, match="no level"):
        levels_now(sweep, ("nps=2",))
    with pytest.raises(UsageError, match="not set by hand"):
        levels_now(sweep, ("cpt=2",))
