"""Probes that are one command: real programs, and every way in which they can go wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.codes import raises
from tests.support.command import TRIMTAB, trimtab
from tests.support.polling import eventually
from tests.support.slurm import Cluster

from trimtab.base.error import JobLost, NeverStarted, RefusedError, ToolError, TrimtabError, code_of
from trimtab.base.event import new_identifier
from trimtab.base.plain import as_dict, as_list
from trimtab.base.run import RawOutput, RunStatus, Sample, comparability_key
from trimtab.base.site import Site, SiteLauncher, SiteProbe
from trimtab.base.verdict import HistoryPoint
from trimtab.judge.run_verdict import metrics_of, verdicts
from trimtab.probe.probe import DIRECTORY_PREFIX, ProbeOutcome, RunContext
from trimtab.probe.probe_now import as_asked, likeness_of, probe_now
from trimtab.probe.result_file import FILES_MAXIMUM
from trimtab.probe.site_command import CommandSpec, CommandStep, command_of, refuse_too_many
from trimtab.probe.site_probe import SiteProbeRunner
from trimtab.probe.site_validation import validate
from trimtab.reach import launcher
from trimtab.reach.allocation import HostAllocation
from trimtab.reach.launcher import Local, OpenMpi, find_open_mpi
from trimtab.reach.process import ProcessResult
from trimtab.site.path_access import THIS_HOST
from trimtab.store.store import Store

pytestmark = pytest.mark.system

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
IOLOAD = str(Path(sys.executable).parent / "trimtab-ioload")
IOLOAD_WORDS = (
    IOLOAD, "--alone", "--dir", "{directory}", "--name", "data", "--write", "--tasks", "1",
    "--transfer-size", "65536", "--block-size", "1048576", "--keep",
)  # fmt: skip
FIO = (
    "fio", "--output-format=json", "--name=job", "--directory={directory}", "--rw=write",
    "--bs=64k", "--size=2m", "--end_fsync=1",
)  # fmt: skip
IOLOAD_PROBE = SiteProbe("own", benchmark="builtin", command=IOLOAD_WORDS)
OF_RANKS = (*IOLOAD_WORDS[:1], *IOLOAD_WORDS[2:], "--run-id", "one")
"""The generator as the ranks of a job."""
IO500 = FIXTURES / "io500" / "io500-isc26" / "standard"
needs_mpi = pytest.mark.usefixtures("open_mpi")


@pytest.fixture
def open_mpi() -> None:
    if not isinstance(find_open_mpi(), OpenMpi):
        pytest.skip("Open MPI is not here")


def now() -> datetime:
    return datetime.now(UTC)


def shell(script: str, **more: Any) -> SiteProbe:
    """Return a probe whose command is a shell; ``$1`` is the probe's directory."""
    return SiteProbe("own", command=("sh", "-c", script, "sh", "{directory}"), **more)


def run(probe: SiteProbe, path: Path, runner: SiteProbeRunner | None = None) -> ProbeOutcome:
    """Return what came of a probe, that nothing is left of it."""
    runner = runner or SiteProbeRunner(Site("s", "local", str(path)), now)
    before = sorted(path.iterdir())
    outcome = runner(probe, RunContext(new_identifier(now()), now(), lambda *_: None))
    assert sorted(path.iterdir()) == before
    return outcome


def figures(outcome: ProbeOutcome) -> dict[str, float | None]:
    return {one.metric: one.value for one in outcome.run.samples if one.statistic == "total"}


def of_shell(path: Path, script: str, **more: Any) -> tuple[ProbeOutcome, RunStatus, str]:
    """Return what came of a shell script, its status and its problem."""
    outcome = run(shell(script, **more), path)
    return outcome, outcome.run.status, outcome.run.problem or ""


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not on PATH")
@pytest.mark.parametrize("benchmark", ["fio", "auto"])
def test_fio_as_a_sites_own_command(tmp_path: Path, benchmark: str) -> None:
    probe = SiteProbe("own", benchmark=benchmark, command=FIO)
    outcome = run(probe, tmp_path)
    done = outcome.run
    assert (done.kind, done.status, done.problem) == ("fio", RunStatus.OK, None)
    assert outcome.error is None
    assert figures(outcome)["write_bandwidth"]
    (output,) = done.outputs
    assert (output.label, output.argv[:2]) == ("command", FIO[:2])
    sample = next(one for one in done.samples if one.metric == "write_bandwidth")
    assert '"bw' in output.stdout.decode().splitlines()[(sample.line or 0) - 1]
    asked: Any = done.parameters["spec"]
    assert (asked["command"]["words"], asked["transfer_size_bytes"]) == (list(FIO), 65536)
    cost: Any = done.parameters["cost"]
    assert cost["bytes_written"] == 2 * 2**20
    assert cost["node_hours"] > 0
    # In another directory, on another day: the same series.
    assert comparability_key(run(probe, tmp_path).run) == comparability_key(done)
    other = run(replace(probe, command=(*FIO, "--iodepth=2")), tmp_path)
    assert comparability_key(other.run) != comparability_key(done)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not on PATH")
def test_a_result_in_a_file_is_found_and_kept(tmp_path: Path) -> None:
    words = (*FIO, "--output={directory}/out.json")
    outcome = run(SiteProbe("own", benchmark="fio", command=words, output="*.json"), tmp_path)
    assert outcome.run.status is RunStatus.OK
    assert [one.label for one in outcome.run.outputs] == ["command", "out.json"]
    sample = next(one for one in outcome.run.samples if one.metric == "write_bandwidth")
    assert sample.output == 1
    assert '"bw' in outcome.run.outputs[1].stdout.decode().splitlines()[(sample.line or 0) - 1]


@needs_mpi
def test_the_generator_as_the_ranks_of_an_mpi_job(tmp_path: Path) -> None:
    probe = replace(IOLOAD_PROBE, command=OF_RANKS, launcher="mpi", tasks_per_node=2)
    outcome = run(probe, tmp_path)
    assert (outcome.run.status, outcome.run.problem) == (RunStatus.OK, None)
    (phase,) = as_list(outcome.run.parameters["phases"])
    assert (phase["access"], phase["tasks"], phase["moved_bytes"]) == ("write", 2, 2 * 2**20)
    assert outcome.run.outputs[0].argv[0].endswith("mpirun")


@needs_mpi
@pytest.mark.skipif(shutil.which("mdtest") is None, reason="mdtest is not on PATH")
def test_mdtest_is_started_by_mpi_and_its_files_are_counted(tmp_path: Path) -> None:
    probe = SiteProbe("names", benchmark="mdtest", tasks_per_node=2, items=300)
    outcome = run(probe, tmp_path)
    assert (outcome.run.kind, outcome.run.status) == ("mdtest", RunStatus.OK)
    assert figures(outcome)["file_creation_rate"]
    asked: Any = outcome.run.parameters["spec"]
    assert (asked["tasks"], asked["items_per_task"]) == (2, 300)
    assert asked["command"]["words"] == ["mdtest"]
    assert outcome.run.outputs[0].argv[0].endswith("mpirun")
    more = run(replace(probe, repetitions=2), tmp_path)
    assert comparability_key(more.run) == comparability_key(outcome.run)


def test_a_command_is_a_step_of_a_batch_job(tmp_path: Path, slurm: Cluster) -> None:
    queue = SiteLauncher("queue", "slurm", {"partition": "main"})
    place = tmp_path / "fs"
    place.mkdir()
    runner = SiteProbeRunner(Site("s", "local", str(place), launchers=(queue,)), now)
    job: Any = {"launcher": "queue", "nodes": 2, "tasks_per_node": 1, "timeout_s": 60.0}
    probe = replace(IOLOAD_PROBE, command=OF_RANKS, **job)
    outcome = run(probe, place, runner)
    assert (outcome.run.status, outcome.run.problem) == (RunStatus.OK, None)
    (phase,) = as_list(outcome.run.parameters["phases"])
    assert (phase["tasks"], phase["moved_bytes"]) == (2, 2 * 2**20)
    assert len(as_list(as_dict(outcome.run.parameters["job"])["nodes"])) == 2
    hung = replace(probe, command=("sleep", "100"), timeout_s=1.0)
    assert run(hung, place, runner).run.status is RunStatus.UNFINISHED
    assert slurm.queue() == []


def test_several_results_are_several_runs(tmp_path: Path) -> None:
    """The files of a real IO500, put where the command would have put them."""
    script = f"mkdir -p $1/results/2026 && cp {IO500}/result*.txt $1/results/2026/"
    outcome = run(shell(script, benchmark="io500", output="results/**/result*.txt"), tmp_path)
    labels = [one.label for one in outcome.run.outputs]
    assert labels == ["command", "results/2026/result_summary.txt", "results/2026/result.txt"]
    assert outcome.run.probe == "own"
    assert "own: score" in [one.probe for one in outcome.others]
    every = (outcome.run, *outcome.others)
    assert len({one.id for one in every}) == len(every) == len(set(map(comparability_key, every)))
    assert {one.kind for one in every} == {"io500"}
    assert {sample.output for one in every for sample in one.samples} <= {1, 2}
    for one in outcome.others:
        assert (one.outputs, one.parameters["of"]) == ((), outcome.run.id)


def test_a_good_output_and_a_bad_exit_code(tmp_path: Path) -> None:
    words = " ".join(IOLOAD_WORDS).replace("{directory}", '"$1"')
    script = f"{words}; echo oh >&2; exit 3"
    outcome, status, problem = of_shell(tmp_path, script, benchmark="builtin")
    assert (status, problem) == (RunStatus.PARTIAL, "sh ended with exit code 3 (oh)")
    assert figures(outcome)["write_bandwidth"]
    assert isinstance(outcome.error, ToolError)


def test_a_good_exit_code_and_a_bad_output(tmp_path: Path) -> None:
    outcome, status, _ = of_shell(tmp_path, "echo everything went well")
    assert (status, outcome.run.samples) == (RunStatus.FAILED, ())
    assert code_of(outcome.run.problem) == "format-unknown"
    assert outcome.run.outputs[0].stdout == b"everything went well\n"
    assert code_of(run(shell("true"), tmp_path).run.problem) == "output-empty"


def test_another_benchmark_than_was_named_is_not_taken_for_it(tmp_path: Path) -> None:
    outcome = run(replace(IOLOAD_PROBE, benchmark="ior"), tmp_path)
    assert (outcome.run.status, outcome.run.kind) == (RunStatus.FAILED, "ior")
    assert (code_of(outcome.run.problem), outcome.run.samples) == ("format-differs", ())


def test_a_command_that_hangs_is_unfinished_and_all_of_it_ended(tmp_path: Path) -> None:
    # The shell in the background has the probe's directory in its command line.
    script = "touch $1/left; echo begun; sh -c 'sleep 100; :' sh $1 & wait"
    outcome, status, problem = of_shell(tmp_path, script, timeout_s=0.5)
    assert (status, outcome.run.outputs[0].stdout) == (RunStatus.UNFINISHED, b"begun\n")
    assert "still running after 0.5 s" in problem
    assert "format" not in problem
    for line in [entry / "cmdline" for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        with suppress(OSError):  # it has ended
            assert os.fsencode(tmp_path) not in line.read_bytes()


def test_a_run_that_was_killed_counts_where_its_like_are(tmp_path: Path) -> None:
    site = Site("s", "local", str(tmp_path))
    words = ("sh", "-c", f'[ -e {tmp_path}/slow ] && exec sleep 100; exec "$@"', "sh")
    probe = replace(IOLOAD_PROBE, command=(*words, *IOLOAD_WORDS), timeout_s=3.0)
    with Store.open(f"sqlite:///{tmp_path}/t.db") as store:
        runner, driver = SiteProbeRunner(site, now), _Silent()

        def once() -> Any:
            more: Any = {"clock": now, "progress": lambda *_: None}
            return probe_now(site, probe, store, driver, runner, **more)  # type: ignore[arg-type]

        first = once()
        (tmp_path / "slow").touch()
        second = once()
        assert (first.run.status, second.run.status) == (RunStatus.OK, RunStatus.UNFINISHED)
        assert comparability_key(first.run) == comparability_key(second.run)
        points = store.history("s", comparability_key(first.run))
    zeros = [one.value for one in points if one.metric == "write_bandwidth"]
    assert [value > 0 for value in zeros] == [True, False]
    assert [one.metric for one in second.verdicts[:1]] == ["write_bandwidth"]


class _Silent:
    """A driver of which nothing can be asked."""

    def snapshot(self, at: datetime) -> Any:
        raise ToolError("not here")


def test_a_command_that_is_killed_or_not_there_has_failed(tmp_path: Path) -> None:
    _, status, problem = of_shell(tmp_path, "kill -9 $$")
    assert status is RunStatus.FAILED
    assert "was ended by SIGKILL" in problem
    absent = run(SiteProbe("own", command=("no-such-program",)), tmp_path).run
    assert (absent.status, absent.outputs) == (RunStatus.FAILED, ())
    assert "no-such-program was not found" in (absent.problem or "")


def test_whatever_tree_a_command_leaves_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    script = (
        "import os, sys; os.chdir(sys.argv[1]); os.symlink(sys.argv[2], 'link')\n"
        "os.mkfifo('pipe'); os.mkdir('closed', 0)\n"
        "for _ in range(1500): os.mkdir('d'); os.chdir('d')\n"
        "open('last', 'w').close()"
    )
    words = (sys.executable, "-c", script, "{directory}", str(outside))
    run(SiteProbe("own", command=words), tmp_path)
    assert (outside / "precious").read_text() == "x"


def test_a_run_is_judged_by_what_it_measures(tmp_path: Path) -> None:
    own = run(IOLOAD_PROBE, tmp_path).run
    assert metrics_of(own, ()) == ("write_bandwidth", "read_bandwidth")
    names = [Sample("file_stat_rate", 9.0, 0), Sample("file_creation_rate", 5.0, 0)]
    amounts = [Sample("bytes_written", 3.0), Sample("file_read_rate", 1.0, 0, statistic="max")]
    of_mdtest = replace(own, samples=(*names, *amounts))
    assert metrics_of(of_mdtest, ()) == ("file_creation_rate", "file_stat_rate")
    point = HistoryPoint(now(), "output_time", 3.0, unfinished=False, run="x")
    assert metrics_of(replace(own, samples=()), [point]) == ("output_time",)
    found = verdicts(of_mdtest, (), goal=0.08)
    assert {one.metric for one in found} == {"file_creation_rate", "file_stat_rate"}


def test_only_a_run_that_says_nothing_stands_where_the_last_one_did(tmp_path: Path) -> None:
    own = run(IOLOAD_PROBE, tmp_path).run
    asked: Any = own.parameters["spec"]
    last = likeness_of(own)
    silent = replace(own, status=RunStatus.UNFINISHED, kind="auto", parameters={
        **own.parameters, "spec": {"command": asked["command"]},
    })  # fmt: skip
    assert as_asked(silent, last).parameters["spec"] == asked
    assert as_asked(silent, last).kind == "builtin"
    assert as_asked(silent, None) is silent
    changed = {**asked["command"], "words": ["another"]}
    other = replace(silent, parameters={**own.parameters, "spec": {"command": changed}})
    assert as_asked(other, last) is other
    whole = replace(silent, status=RunStatus.OK)
    assert as_asked(whole, last) is whole


@pytest.mark.parametrize(
    ("script", "output", "problem"),
    [
        ("true", "results/**/summary.json", "no file matches 'results/**/summary.json'"),
        ("mkdir $1/out", "out", "no file matches 'out'"),
        ("ln -s /etc/passwd $1/out", "out", "no file matches 'out' (out is a symlink)"),
        ("ln -s / $1/up", "up/etc/passwd", "no file matches 'up/etc/passwd'"),
        ("mkfifo $1/out", "*", "no file matches '*' (out is a fifo)"),
        ("truncate -s 65M $1/out", "out", "out and the files read with it exceed"),
        (": > $1/out", "out", "out is empty"),
        ("for i in $(seq 101); do : > $1/$i; done", "*", f"more than {FILES_MAXIMUM} files"),
        ("printf '\\000\\377' > $1/out", "out", "out has an unrecognised format"),
    ],
)
def test_what_is_no_result_is_none(script: str, output: str, problem: str, tmp_path: Path) -> None:
    outcome, status, found = of_shell(tmp_path, script, output=output)
    assert (status, outcome.run.samples) == (RunStatus.FAILED, ())
    assert problem in found


def test_one_bad_file_beside_a_good_one_is_said(tmp_path: Path) -> None:
    words = " ".join(IOLOAD_WORDS).replace("{directory}", '"$1"')
    script = f"{words} > $1/a.json; echo '{{' > $1/b.json"
    outcome, status, problem = of_shell(tmp_path, script, benchmark="builtin", output="*.json")
    assert status is RunStatus.PARTIAL
    assert "b.json" in problem
    assert figures(outcome)["write_bandwidth"]


class _Allocation(HostAllocation):
    """This host, which may not be had, or be lost."""

    fault: TrimtabError

    def __enter__(self) -> Any:
        if isinstance(self.fault, NeverStarted):
            raise self.fault
        return super().__enter__()

    def execute(self, argv: Sequence[str], **more: Any) -> ProcessResult:
        result = super().execute(argv, **more)
        raise JobLost("job 7 was lost", state="NODE_FAIL", result=result)


@pytest.mark.parametrize(
    ("fault", "status", "printed"),
    [
        (NeverStarted("job 7 was still waiting"), RunStatus.NOT_STARTED, []),
        (JobLost("x", state=None), RunStatus.FAILED, [b"so far\n"]),
    ],
)
def test_nodes_that_cannot_be_had_and_nodes_that_are_lost(
    tmp_path: Path, monkeypatch: Any, fault: TrimtabError, status: RunStatus, printed: list[bytes]
) -> None:
    monkeypatch.setattr(_Allocation, "fault", fault, raising=False)
    monkeypatch.setattr(launcher, "HostAllocation", _Allocation)
    outcome, found, problem = of_shell(tmp_path, "echo so far")
    assert (found, [one.stdout for one in outcome.run.outputs]) == (status, printed)
    assert "job 7" in problem
    assert type(outcome.error) is type(fault)


def test_what_a_broken_off_run_left_is_removed(tmp_path: Path) -> None:
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), now)
    probe, run_id = shell("echo"), new_identifier(now())
    left = tmp_path / f"{DIRECTORY_PREFIX}{run_id}" / "a" / "b"
    left.mkdir(parents=True)
    runner.clean_up(probe, run_id)
    assert list(tmp_path.iterdir()) == []
    left.mkdir(parents=True)
    # A probe that makes no tree of its own does not remove one.
    with raises(ToolError, "directory-not-removed"):
        runner.clean_up(SiteProbe("own", benchmark="builtin"), run_id)
    runner(probe, RunContext(run_id, now(), lambda *_: None))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cli
def test_a_directory_that_cannot_be_removed_is_said(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a file immutable needs root")
    script = "touch $1/fixed && chattr +i $1/fixed; echo"
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), now)
    outcome = runner(shell(script), RunContext(new_identifier(now()), now(), lambda *_: None))
    left = list(tmp_path.iterdir())
    if not left:
        pytest.skip("this file system has no immutable files")
    subprocess.run(["chattr", "-i", str(left[0] / "fixed")], check=True)
    assert "(fixed: Operation not permitted" in (outcome.run.problem or "")


@needs_mpi
def test_mdtest_may_not_take_all_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimtab.reach.bounded import free_space

    program = tmp_path / "mdtest"
    program.write_text("#!/bin/sh\necho mdtest-4.0.0 was launched with 1 total task\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    probe = SiteProbe("names", benchmark="mdtest", tasks_per_node=4, items=100)
    spec, _ = command_of(probe, "local", str(tmp_path), replace(THIS_HOST, processors=2))
    space = free_space("/")._replace(inodes=10**6, inodes_free=2000)
    refuse_too_many(spec, space)
    with pytest.raises(RefusedError, match="400 files; 1999 inodes are free"):
        refuse_too_many(spec, space._replace(inodes_free=1999))
    refuse_too_many(spec, space._replace(inodes=0, inodes_free=0))  # Btrfs
    # What calls itself mdtest and says another number of tasks is no mdtest with MPI.
    assert run(probe, tmp_path).run.status is not RunStatus.OK


@pytest.mark.parametrize(
    ("expected", "status", "codes"),
    [({}, RunStatus.OK, set()), ({"tasks": 9}, RunStatus.INVALID_WORKLOAD, {"workload-differs"})],
)
def test_another_workload_than_requested_is_an_invalid_run(
    tmp_path: Path, expected: dict[str, Any], status: RunStatus, codes: set[str]
) -> None:
    output = FIXTURES / "mdtest" / "4.0.0" / "files.out"
    spec = CommandSpec("names", "mdtest", ("cat", str(output)), expected=expected)
    read: Any = SimpleNamespace(
        outputs=[RawOutput("command", spec.command, output.read_bytes())],
        around=SimpleNamespace(directories=None),
        directory=str(tmp_path),
        unfinished=False,
        problems=[],
        progress=lambda *_: None,
    )
    CommandStep(spec, Local()).read(read)
    (measurement,) = read.measurements
    assert measurement.status is status
    assert {code_of(sample.reason) for sample in measurement.samples if sample.reason} == codes
    assert measurement.problem is None or code_of(measurement.problem) == "workload-differs"


# --- the command line --------------------------------------------------------

SITE = '[site]\nname = "here"\ndriver = "local"\npath = "{path}"\n'


def _site(tmp_path: Path, table: str) -> Path:
    (tmp_path / "fs").mkdir()
    file = tmp_path / "here.toml"
    file.write_text(SITE.format(path=tmp_path / "fs") + table)
    return file


def _kept(tmp_path: Path) -> list[dict[str, Any]]:
    ended = trimtab("runs", "--json", "--top", 100, store=tmp_path / "t.db")
    return ended.document["runs"]


@pytest.mark.cli
def test_every_result_is_kept_and_told(tmp_path: Path) -> None:
    file = _site(
        tmp_path,
        "[probe.all]\nbenchmark = 'io500'\noutput = 'result_summary.txt'\n"
        f"command = ['cp', '{IO500}/result_summary.txt', '{IO500}/result.txt', '{{directory}}']\n",
    )
    words, store = ("probe", "all", "--site", file), tmp_path / "t.db"
    ended = trimtab(*words, "--json", store=store)
    assert ended.code in (0, 3), ended.stderr
    told = ended.document["runs"]
    assert told[0]["probe"] == "all"
    assert "all: score" in {one["probe"] for one in told}
    assert {one["id"] for one in _kept(tmp_path)} == {one["id"] for one in told}
    text = trimtab(*words, store=store).stdout
    assert "all: score" in text
    assert "bytes written not known" in text
    status = " ".join(trimtab("status", store=store).stdout.split())
    assert "do not report what they wrote" in status


@pytest.mark.cli
def test_the_watch_keeps_every_result(tmp_path: Path) -> None:
    file = _site(
        tmp_path,
        "[probe.all]\nbenchmark = 'io500'\nschedule = 'every 1s'\n"
        f"command = ['cat', '{IO500}/result_summary.txt']\ntimeout = '900ms'\n",
    )
    ended = trimtab("watch", file, "--once", store=tmp_path / "t.db")
    assert ended.code in (0, 3), ended.stderr  # IO500 itself calls this short run invalid
    assert {"all", "all: score"} <= {one["probe"] for one in _kept(tmp_path)}


@pytest.mark.cli
def test_a_probe_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    file = _site(
        tmp_path,
        "[probe.slow]\ncommand = ['sh', '-c', 'mkdir -p $1/a/b; touch $1/a/b/c; sleep 97', "
        "'sh', '{directory}']\n",
    )
    process = subprocess.Popen(
        [str(TRIMTAB), "probe", "slow", "--site", str(file)],
        env={**os.environ, "TRIMTAB_STORE": str(tmp_path / "t.db")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    eventually(lambda: bool(list((tmp_path / "fs").glob("*/a/b/c"))))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert list((tmp_path / "fs").iterdir()) == []
    (kept,) = _kept(tmp_path)
    assert (kept["status"], kept["samples"]) == ("failed", [])


def test_what_cannot_be_started_is_told_before(tmp_path: Path) -> None:
    absent = SiteProbe("own", command=("no-such-one",))
    for probe, ok, detail in (
        (absent, False, "no-such-one is not a program on this host"),
        (shell("true"), True, "auto"),
    ):
        site = Site("s", "local", str(tmp_path), probes=(probe,))
        (found,) = [one for one in validate(site) if one.what == "probe own"]
        assert (found.ok, found.detail.split(",")[0]) == (ok, detail)
