"""A sweep on a real directory: measured in rounds, gone on with, and refused where wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import Interrupted, RefusedError, ToolError, UsageError
from trimtab.base.event import identifier_of
from trimtab.base.plain import as_dict
from trimtab.base.run import Run, RunStatus, Sample, doubts
from trimtab.base.site import Site, SiteLauncher, SiteProbe
from trimtab.cli import main
from trimtab.judge.sweep_analysis import analyse_sweep, measured_points
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.probe.question_file import Sweep, levels_now, load_sweep, varied
from trimtab.probe.site_probe import SiteProbeRunner
from trimtab.probe.sweep import SweepState, SweepWork, points_of, state_of
from trimtab.store.store import Store

pytestmark = pytest.mark.system

MIB = 1024**2

PROBE = SiteProbe(
    "hourly", benchmark="builtin", tasks_per_node=1, block_size_bytes=4 * MIB, duration_s=0.2,
    direct=False,
)  # fmt: skip
SWEEP = Sweep("try", "s", "hourly", {"transfer_size": ("64KiB", "1MiB")}, {}, rounds=2)
SITE_S = Site("s", "local", "/", probes=(PROBE,))


def now() -> datetime:
    return datetime.now(UTC)


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


def work(
    store: Store,
    runner: Recorder,
    sweep: Sweep = SWEEP,
    site: Site = SITE_S,
    probe: SiteProbe = PROBE,
) -> SweepState:
    """Carry a sweep out and return its state."""
    return SweepWork(sweep, site, probe, store, runner, now).run({}, lambda *_: None)


def test_every_point_is_measured_once_a_round_for_real(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "fs"
    place.mkdir()
    site = Site("s", "local", str(place), probes=(PROBE,))
    told: list[float] = []
    sweep = SweepWork(SWEEP, site, PROBE, store, SiteProbeRunner(site, now), now)
    state = sweep.run({}, lambda text, fraction: told.append(fraction))
    assert state.measured == len(state.points) == 4
    assert told == sorted(told)
    for point in state.points:
        asked = as_dict(present(point.run).parameters["spec"])
        size = {"64KiB": 65536, "1MiB": MIB}[str(point.levels["transfer_size"])]
        assert asked["transfer_size_bytes"] == size
    assert list(place.iterdir()) == []


def test_it_goes_on_where_it_was_broken_off(store: Store) -> None:
    with pytest.raises(Interrupted):
        work(store, Recorder(stop_at=1))
    assert state_of(SWEEP, SITE_S, PROBE, store).measured == 1
    again, idle = Recorder(), Recorder()
    assert work(store, again).measured == 4
    work(store, idle)
    assert (len(again.asked), idle.asked) == (3, [])


def test_points_of_a_probe_that_was_changed_are_not_taken_for_its_own(store: Store) -> None:
    work(store, Recorder())
    state = state_of(SWEEP, SITE_S, replace(PROBE, tasks_per_node=2), store)
    assert (state.measured, state.left_out) == (0, 4)
    later = replace(PROBE, schedule="every 1h", timeout_s=60.0)
    assert state_of(SWEEP, SITE_S, later, store).measured == 4


def test_everything_that_one_command_measured_is_kept(store: Store) -> None:
    class Several(Recorder):
        def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
            outcome = super().__call__(probe, context)
            score = replace(
                outcome.run, id=identifier_of(now(), context.run_id), probe=f"{probe.name}: score"
            )
            return replace(outcome, others=(score,))

    assert work(store, Several()).measured == 4
    others = store.runs(probe="sweep-try: score")
    assert len(others) == 4
    assert all("levels" in run.parameters["sweep"] for run in others)  # type: ignore[operator]


def test_a_point_that_failed_is_told_and_measured_again(store: Store) -> None:
    state = work(store, Recorder(fail=frozenset({0})))
    assert (state.measured, len(state.failures)) == (3, 1)
    assert "broken" in state.failures[0]
    again = Recorder()
    assert (work(store, again).measured, len(again.asked)) == (4, 1)


def test_three_failures_in_a_row_end_it(store: Store) -> None:
    runner = Recorder(fail=frozenset(range(9)))
    with raises(ToolError, "points-failed"):
        work(store, runner)
    assert len(runner.asked) == 3


def test_what_is_set_by_hand_waits_until_it_is_said(store: Store) -> None:
    sweep, runner = replace(SWEEP, manual={"nps": (1, 4)}, rounds=1), Recorder()
    state = work(store, runner, sweep)
    assert (runner.asked, state.waiting) == ([], ({"nps": 1}, {"nps": 4}))
    by_hand = SweepWork(sweep, SITE_S, PROBE, store, runner, now)
    state = by_hand.run(levels_now(sweep, ("nps=4",)), lambda *_: None)
    assert (state.measured, state.waiting) == (2, ({"nps": 1},))
    settings = [p.run.parameters["spec"]["settings"] for p in state.points if p.run]  # type: ignore[index]
    assert settings == [{"nps": 4}, {"nps": 4}]


@pytest.mark.unit
def test_rounds_are_shuffled_each_in_its_own_way_and_always_the_same() -> None:
    sweep = replace(SWEEP, factors={"nodes": tuple(range(1, 21))})
    assert sorted(map(str, sweep.order(0))) == sorted(map(str, sweep.points))
    assert sweep.order(0) == sweep.order(0)
    assert sweep.order(0) != sweep.order(1) != sweep.points


@pytest.mark.unit
def test_only_what_is_varied_differs_from_the_probe() -> None:
    changed = varied(SITE_S, PROBE, SWEEP, {"transfer_size": "64KiB"})
    assert changed == replace(PROBE, name="sweep-try", transfer_size_bytes=65536)


@pytest.mark.unit
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
    sweep, runner = replace(SWEEP, factors={factor: (value,)}), Recorder()
    with pytest.raises(UsageError, match=message):
        work(store, runner, sweep, Site("s", "local", "/"), replace(PROBE, direct=True))
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


def loaded(place: Path, old: str = "", new: str = "") -> Sweep:
    """Return what is read of a file in which words were replaced."""
    path = place / "s.toml"
    path.write_text(GOOD.replace(old, new))
    return load_sweep(str(path))


@pytest.mark.unit
def test_a_file_is_read(tmp_path: Path) -> None:
    sweep = loaded(tmp_path)
    assert sweep == Sweep("try", "scratch", "hourly", {"nodes": (1, 2)}, {"nps": (1, 4)}, rounds=2)
    assert len(sweep.points) == 4


@pytest.mark.unit
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
def test_a_site_file_is_seen_from_the_sweeps_file(tmp_path: Path, site: str, found: str) -> None:
    assert loaded(tmp_path, '"scratch"', f'"{site}"').site == found.format(tmp_path)


@pytest.mark.unit
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
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, place: str, code: str) -> None:
    with raises(UsageError, code, place):
        loaded(tmp_path, old, new)


@pytest.mark.unit
def test_a_level_by_hand_is_one_of_the_file() -> None:
    sweep = replace(SWEEP, manual={"nps": (1, 4)})
    with pytest.raises(UsageError, match="no level"):
        levels_now(sweep, ("nps=2",))
    with pytest.raises(UsageError, match="not set by hand"):
        levels_now(sweep, ("cpt=2",))


SITE = """
[site]
name = "tiny"
driver = "local"
path = "{path}"
[store]
url = "{path}/../t.db"
[probe.hourly]
benchmark = "builtin"
tasks_per_node = 1
block_size = "4MiB"
duration = "0.2s"
direct = false
"""

FILE = """
[sweep]
name = "try"
site = "{site}"
probe = "hourly"
rounds = 1
[factor]
{factor}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "fs").mkdir()
    (tmp_path / "site.toml").write_text(SITE.format(path=tmp_path / "fs"))
    return tmp_path


def typed(files: Path, factor: str, *more: str) -> int:
    """Return the exit code of ``trimtab sweep``."""
    path = files / "sweep.toml"
    path.write_text(FILE.format(site=files / "site.toml", factor=factor))
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(path), *more])
    assert isinstance(ended.value.code, int)
    return ended.value.code


class Doubted(Recorder):
    """Answers with figures that are not believed, all or those of reads."""

    def __init__(self, *reads: str) -> None:
        super().__init__()
        self.reads = reads

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        run = super().__call__(probe, context).run
        number = len(self.asked) - 1
        if self.reads:
            samples = (*run.samples, Sample("read_bandwidth", 9e9, 0, reason=self.reads[0]))
        else:
            why = "too short" if number == 2 else "cached"
            samples = (
                Sample("write_bandwidth", 1e9, 0, reason=why),
                Sample("bytes_written", 1e9, 0),
            )
        return ProbeOutcome(replace(run, samples=samples))


class InTiny(Doubted):
    """The same on the site of the file."""

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        return ProbeOutcome(replace(super().__call__(probe, context).run, site="tiny"))


def test_a_point_that_failed_ends_the_command_with_3(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark that is not there fails at its own points alone."""
    factor = 'benchmark = ["builtin", "fio"]'
    monkeypatch.setenv("PATH", str(files))  # no fio here
    assert typed(files, factor, "--json") == 3
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert [point["run"] is not None for point in document["points"]] == [True, False]
    assert len(document["failures"]) == 1
    assert "1 point could not be measured" in said.err
    assert typed(files, factor) == 3
    said = capsys.readouterr()
    assert "1 of 2 runs measured" in said.out
    assert "failed: benchmark fio" in said.out


def test_what_succeeds_ends_with_0(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]') == 0
    assert "2 of 2 runs measured" in capsys.readouterr().out


def test_a_point_without_space_ends_it_before_any_is_run(store: Store, tmp_path: Path) -> None:
    site = Site("s", "local", str(tmp_path), probes=(PROBE,))
    sweep, runner = replace(SWEEP, factors={"block_size": ("8MiB", "8000TiB")}), Recorder()
    with pytest.raises(RefusedError, match=r"block_size 8000TiB: .* are free"):
        work(store, runner, sweep, site)
    assert runner.asked == []


def test_what_is_measured_already_needs_no_space(store: Store, tmp_path: Path) -> None:
    work(store, Recorder())
    gone = Site("s", "local", str(tmp_path / "gone"), probes=(PROBE,))
    state = work(store, Recorder(), site=gone)
    assert (state.measured, state.error) == (4, None)


def test_runs_that_nobody_believes_are_counted_with_the_reason(store: Store) -> None:
    state = work(store, Doubted())
    assert state.measured == 4
    assert [(one.reason, one.runs) for one in state.doubts] == [("cached", 3), ("too short", 1)]
    (best,) = analyse_sweep(measured_points(points_of(state))).best
    assert best.reason.code == "no-setting-usable"
    assert best.reason.endswith(": cached")
    assert {(one.n, one.may_be_best) for one in best.settings} == {(0, None)}


def test_one_metric_that_nobody_believes_says_why(store: Store) -> None:
    state = work(store, Doubted("served from the page cache"))
    assert state.doubts == ()
    write, read = analyse_sweep(measured_points(points_of(state))).best
    assert (write.best is None, read.best) == (False, None)
    assert "served from the page cache" in read.reason


def test_what_failed_or_did_not_finish_is_doubted_or_not() -> None:
    def run(status: RunStatus, *samples: Sample, problem: str | None = None) -> Run:
        return Run("1", "s", "p", "fio", status, None, samples=samples, problem=problem)

    good = run(RunStatus.OK, Sample("write_bandwidth", 1.0))
    unfinished = run(RunStatus.UNFINISHED)
    failed = run(RunStatus.FAILED, problem="no space left")
    empty = run(RunStatus.PARTIAL, Sample("write_latency", 1.0, statistic="p99"))
    assert doubts([good, unfinished]) == ()
    found = doubts([good, failed, failed, empty])
    assert [(one.reason, one.runs) for one in found] == [
        ("failed: no space left", 2),
        ("it has no figure of the whole", 1),
    ]


def test_doubts_are_printed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = replace(Site("tiny", "local", str(files / "fs")), probes=(PROBE,))
    sweep = replace(SWEEP, rounds=1)
    with Store.open(files / "t.db") as kept:
        work(kept, InTiny(), sweep, site)
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]', "--no-run") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "2 of 2 runs measured" in text
    assert "2 of them hold no credible figure: cached (2 runs)" in text
    assert "no setting can be judged: no credible value: cached" in text
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]', "--no-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["doubts"] == [{"reason": "cached", "reason_code": None, "runs": 2}]


def test_nothing_measured_yet_is_no_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]', "--no-run") == 0
    assert "0 of 2 runs measured" in capsys.readouterr().out
    assert not (files / "t.db").exists()


def test_a_mistake_is_told_without_a_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(files, 'transfer_sise = ["64KiB"]', "--no-run") == 2
    said = capsys.readouterr().err
    assert "[factor] transfer_sise: it is not a key of a probe" in said
    assert "did you mean 'transfer_size'?" in said


def test_a_state_can_be_had_without_a_store() -> None:
    state = state_of(SWEEP, SITE_S, PROBE, None)
    assert (state.measured, len(state.points)) == (0, 4)


SIZES = 'transfer_size = ["1MiB", "4MiB"]'


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("transfer_size = [1, 2, 4]", SIZES),
        ("transfer_size = 4", SIZES),
        ('transfer_size = ["4 furlongs"]', SIZES),
        ("nodes = 4", "nodes = [1, 2, 4]"),
        ("duration = 4", 'duration = ["30s", "60s"]'),
        ("direct = true", "direct = [true, false]"),
        ("stripe_count = true", "stripe_count = [1, 4, -1]"),
        ('benchmark = "ior"', 'benchmark = ["ior", "fio"]'),
    ],
)
def test_the_hint_is_itself_accepted(tmp_path: Path, line: str, hint: str) -> None:
    def read(text: str) -> Sweep:
        sweep = loaded(tmp_path, "nodes = [1, 2]", text)
        lustre = Site("s", "lustre", "/", launchers=(SiteLauncher("batch", "slurm"),))
        probe = replace(PROBE, block_size_bytes=16 * MIB)
        if "nodes" in sweep.factors:
            probe = replace(probe, launcher="batch", benchmark="ior")
        for levels in sweep.points:
            varied(lustre, probe, sweep, levels)
        return sweep

    with pytest.raises(UsageError) as caught:
        read(line)
    assert caught.value.hint == hint
    assert read(hint).factors


def test_reasons_that_differ_in_a_number_are_one() -> None:
    def run(reason: str) -> Run:
        sample = Sample("write_bandwidth", 1.0, 0, reason=reason)
        return Run("1", "s", "p", "fio", RunStatus.OK, None, samples=(sample,))

    found = doubts(map(run, ["it ran 304 ms", "it ran 1.2 s", "it ran 298 ms", "it ran 301 ms"]))
    assert [(one.reason, one.runs) for one in found] == [("it ran 304 ms", 3), ("it ran 1.2 s", 1)]
