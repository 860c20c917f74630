"""What a sweep says of points that failed, runs that nobody believes, and mistakes in its file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.probe.test_sweep import GOOD, MIB, PROBE, SWEEP, Recorder, now, store, work
from tests.support.codes import raises

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.run import Run, RunStatus, Sample, doubts
from trimtab.base.site import Site, SiteLauncher, SiteProbe
from trimtab.cli import main
from trimtab.judge.sweep_analysis import analyse_sweep, measured_points
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.probe.sweep import SweepWork, points_of, state_of
from trimtab.probe.sweep_file import Sweep, load_sweep, varied
from trimtab.store.store import Store

pytestmark = pytest.mark.system

__all__ = ["store"]  # the fixture

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


def test_a_point_without_space_is_refused_before_any_is_measured(
    store: Store, tmp_path: Path
) -> None:
    site = Site("s", "local", str(tmp_path), probes=(PROBE,))
    sweep = replace(SWEEP, factors={"block_size": ("8MiB", "8000TiB")})
    runner = Recorder()
    with pytest.raises(RefusedError, match=r"block_size 8000TiB: .* are free"):
        SweepWork(sweep, site, PROBE, store, runner, now).run({}, lambda *_: None)
    assert runner.asked == []


def test_what_is_measured_already_needs_no_space(store: Store, tmp_path: Path) -> None:
    work(store, Recorder()).run({}, lambda *_: None)
    gone = Site("s", "local", str(tmp_path / "gone"), probes=(PROBE,))
    state = SweepWork(SWEEP, gone, PROBE, store, Recorder(), now).run({}, lambda *_: None)
    assert (state.measured, state.error) == (4, None)


def test_runs_that_nobody_believes_are_counted_with_the_reason(store: Store) -> None:
    state = work(store, Doubted()).run({}, lambda *_: None)
    assert state.measured == 4
    assert [(one.reason, one.runs) for one in state.doubts] == [("cached", 3), ("too short", 1)]
    (best,) = analyse_sweep(measured_points(points_of(state))).best
    assert best.reason.code == "no-setting-usable"
    assert best.reason.endswith(": cached")
    assert {one.n for one in best.settings} == {0}
    assert {one.may_be_best for one in best.settings} == {None}


def test_one_metric_that_nobody_believes_says_why(store: Store) -> None:
    state = work(store, Doubted("served from the page cache")).run({}, lambda *_: None)
    assert state.doubts == ()
    write, read = analyse_sweep(measured_points(points_of(state))).best
    assert write.best is not None
    assert read.best is None
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
        SweepWork(sweep, site, PROBE, kept, InTiny(), now).run({}, lambda *_: None)
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]', "--no-run") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "2 of 2 runs measured" in text
    assert "2 of them hold no credible figure: cached (2 runs)" in text
    assert "no setting can be judged: no credible value: cached" in text
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]', "--no-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["doubts"] == [{"reason": "cached", "reason_code": None, "runs": 2}]


def test_nothing_was_measured_yet_is_no_error(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(files, 'transfer_size = ["64KiB", "1MiB"]', "--no-run") == 0
    assert "0 of 2 runs measured" in capsys.readouterr().out
    assert not (files / "t.db").exists()


def test_a_mistake_is_told_without_a_run_too(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(files, 'transfer_sise = ["64KiB"]', "--no-run") == 2
    said = capsys.readouterr().err
    assert "[factor] transfer_sise: it is not a key of a probe" in said
    assert "did you mean 'transfer_size'?" in said


def test_a_state_can_be_had_without_a_store() -> None:
    state = state_of(SWEEP, Site("s", "local", "/"), PROBE, None)
    assert (state.measured, len(state.points)) == (0, 4)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("transfer_size = [1, 2, 4]", 'transfer_size = ["1MiB", "4MiB"]'),
        ("transfer_size = 4", 'transfer_size = ["1MiB", "4MiB"]'),
        ('transfer_size = ["4 furlongs"]', 'transfer_size = ["1MiB", "4MiB"]'),
        ("nodes = 4", "nodes = [1, 2, 4]"),
        ("duration = 4", 'duration = ["30s", "60s"]'),
        ("direct = true", "direct = [true, false]"),
        ("stripe_count = true", "stripe_count = [1, 4, -1]"),
        ('benchmark = "ior"', 'benchmark = ["ior", "fio"]'),
    ],
)
def test_the_hint_is_itself_accepted(tmp_path: Path, line: str, hint: str) -> None:
    def read(text: str) -> Sweep:
        path = tmp_path / "s.toml"
        path.write_text(GOOD.replace("nodes = [1, 2]", text))
        sweep = load_sweep(str(path))
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


def test_three_failures_still_end_it(store: Store) -> None:
    with raises(ToolError, "points-failed"):
        work(store, Recorder(fail=frozenset(range(9)))).run({}, lambda *_: None)


def test_reasons_that_differ_in_a_number_are_one() -> None:
    def run(reason: str) -> Run:
        sample = Sample("write_bandwidth", 1.0, 0, reason=reason)
        return Run("1", "s", "p", "fio", RunStatus.OK, None, samples=(sample,))

    found = doubts(map(run, ["it ran 304 ms", "it ran 1.2 s", "it ran 298 ms", "it ran 301 ms"]))
    assert [(one.reason, one.runs) for one in found] == [("it ran 304 ms", 3), ("it ran 1.2 s", 1)]
