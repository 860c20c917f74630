"""A check of a path: its plan and report, what it finds on Lustre, what it leaves when stopped."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.install import Installed, install
from tests.fake_lustre.state import FakeLustre
from tests.show.conftest import run, samples
from tests.support.codes import raises
from tests.support.command import TRIMTAB, trimtab
from tests.support.counts import repetitions, seeded
from tests.support.narrow import present

from trimtab.base.error import RefusedError, UsageError
from trimtab.base.filesystem import find_mount, parse_mountinfo
from trimtab.base.run import RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats.measurement import MeasuredPhase, Measurement
from trimtab.probe.check import check
from trimtab.probe.check_plan import CheckOptions, CheckRequest, plan_probe
from trimtab.probe.check_result import CheckResult
from trimtab.probe.write_read import WriteRead
from trimtab.reach.bounded import report_of
from trimtab.reach.host import Host
from trimtab.reach.path_description import MOUNT_TABLE

MIB, GIB = 1024**2, 1024**3


def plan(available: int = 100 * GIB, processors: int = 2, **request):
    return plan_probe(CheckRequest(**request), available_bytes=available, processors=processors)


def test_the_default_fits_a_minute_and_a_twentieth_of_the_free_space_at_most_64_gib():
    spec = plan()
    assert (spec.repetitions, spec.duration_s, spec.tasks) == (5, 5.0, 4)
    assert (spec.transfer_size_bytes, spec.block_size_bytes) == (MIB, GIB)
    assert spec.direct
    spec = plan(available=10**16)
    assert spec.tasks * spec.block_size_bytes == 64 * GIB
    spec = plan(budget_s=5.0)  # short repetitions rather than none
    assert (spec.repetitions, spec.duration_s) == (1, 2.0)


@given(available=st.integers(40 * MIB, 10**16), processors=st.integers(1, 256))
def test_any_plan_stays_within_its_space(available, processors):
    spec = plan(available=available, processors=processors)
    assert spec.tasks * spec.block_size_bytes <= min(64 * GIB, available * 0.05)
    assert spec.block_size_bytes % spec.transfer_size_bytes == 0
    assert 1 <= spec.tasks <= 16


@given(budget=st.floats(1, 3600), repetitions=st.none() | st.integers(1, 50))
def test_any_plan_stays_within_its_time_or_takes_the_shortest(budget, repetitions):
    spec = plan(budget_s=budget, repetitions=repetitions)
    assert spec.duration_s <= 5.0
    planned = 2 * spec.repetitions * (spec.duration_s + 0.5)
    assert planned <= max(budget, 2 * spec.repetitions * 0.6) + 1e-6


@pytest.mark.parametrize(
    ("request_", "kind", "code"),
    [
        ({"available": 10 * MIB}, RefusedError, "space-too-small"),
        ({"available": 10 * GIB, "space_bytes": 10 * GIB}, RefusedError, "space-too-small"),
        ({"block_size_bytes": 64 * GIB}, UsageError, "space-budget-exceeded"),
        ({"available": 40 * MIB, "tasks": 64}, UsageError, "space-budget-exceeded"),
        ({"transfer_size_bytes": 1000}, UsageError, "transfer-size-unaligned"),
    ],
    ids=["nearly full", "would be full", "block size", "more tasks than transfers", "unaligned"],
)
def test_what_does_not_fit_is_refused(request_, kind, code):
    with raises(kind, code):
        plan(**request_)


def test_sizes_need_not_suit_direct_io_where_there_is_none():
    assert plan(transfer_size_bytes=1000, direct=False).transfer_size_bytes == 1000


def test_an_earlier_block_size_is_kept_while_it_fits():
    def after(available, *earlier):
        request = CheckRequest()
        spec = plan_probe(request, available_bytes=available, processors=2, earlier=[*earlier])
        return spec.block_size_bytes

    assert plan(available=200 * GIB).block_size_bytes == 2 * GIB
    assert after(200 * GIB, dataclasses.replace(plan(), direct=False), plan()) == GIB
    assert after(50 * GIB, plan()) == 512 * MIB
    assert after(800 * GIB, plan()) == 8 * GIB


class Counting(WriteRead):
    """Writes so much at every write, and nothing in truth."""

    def _one_access(self, probe, repetition, access, text, position) -> None:
        phases = (MeasuredPhase(access, repetition, 10 * GIB),)
        probe.measurements.append(Measurement("builtin", RunStatus.OK, phases=phases))


@pytest.mark.parametrize(("most_gib", "writes"), [(100, 5), (35, 3), (5, 1)])
def test_no_write_begins_that_would_be_more_than_half_of_the_free_space(most_gib, writes):
    instrument = SimpleNamespace(launcher=None, tool=SimpleNamespace(path="ioload"))
    probe = SimpleNamespace(measurements=[], warnings=[], problems=[], progress=lambda *_: None)
    step = Counting(plan(), instrument, most_gib * GIB)  # type: ignore[arg-type]
    step.measure(probe)  # type: ignore[arg-type]
    assert len(probe.measurements) == 2 * writes  # each with its read
    assert len(probe.warnings) == (writes < 5)


REPORT = Path("/reports/scratch-0123.html")


def test_a_check_that_measured_nothing_keeps_the_report_of_one_that_did() -> None:
    measured = replace(run(), samples=samples())
    doubted = replace(
        measured, samples=tuple(replace(sample, reason="too short") for sample in samples())
    )
    assert report_of(REPORT, measured) == REPORT
    assert report_of(REPORT, None, named=True) == REPORT  # there is none to lose
    for other in (None, doubted, replace(measured, samples=())):
        assert report_of(REPORT, other) == REPORT.with_name("scratch-0123-inspection.html")


def test_a_report_that_a_person_named_is_not_lost_either(tmp_path: Path) -> None:
    report = tmp_path / "mine.html"
    report.write_text("of a check that measured")
    assert report_of(report, None, named=True) == report.with_name("mine-inspection.html")
    assert report_of(report, replace(run(), samples=samples()), named=True) == report


@dataclass
class Client:
    """A host on which the fake is mounted, as its mount table says."""

    mount: Path
    fake: Installed
    store: Path

    def check(self) -> CheckResult:
        wanted = CheckOptions(path=str(self.mount), store_url=str(self.store), no_probe=True)
        result, error = check(wanted, page=lambda result: result.site)
        assert error is None
        return result


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    mount = tmp_path / "scratch"
    mount.mkdir()
    state = FakeLustre.small(mount=str(mount))
    fake = install(state, tmp_path / "fake")
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path / "sites"))
    read = Host.read_text

    def read_text(self: Host, path: str, **limits: int) -> str | NotAvailable:
        text = read(self, path, **limits)
        if path != MOUNT_TABLE or isinstance(text, NotAvailable):
            return text
        above = present(find_mount(parse_mountinfo(text), str(mount)))
        return (
            f"{text}\n9000 {above.mount_id} {above.device_number} / {mount} rw,relatime - "
            f"lustre 10.0.2.15@tcp:/{state.file_system} rw,flock\n"
        )

    monkeypatch.setattr(Host, "read_text", read_text)
    return Client(mount, fake, tmp_path / "t.db")


@pytest.mark.system
def test_a_client_without_a_site_file_names_what_it_can_see(client: Client) -> None:
    with client.fake.changing() as lustre:
        lustre.target("OST0001").up = False
        lustre.target("OST0000").degraded = True
    result = client.check()
    found = {finding.id: finding.title for finding in result.findings}
    assert "OST0001" in found["lost"]
    assert "OST0000" in found["degraded"]
    missing = {entry.what: entry.reason for entry in result.not_available}
    assert "trimtab init" in missing["servers"], missing
    assert "client's view" in missing["servers"]


@pytest.mark.system
def test_of_whole_targets_nothing_is_found_and_the_servers_are_missing(client: Client) -> None:
    result = client.check()
    assert not [finding for finding in result.findings if "OST" in finding.title]
    assert "trimtab init" in {entry.what: entry.reason for entry in result.not_available}["servers"]


SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.cli
@pytest.mark.parametrize("probe", ["builtin", "fio"])
@pytest.mark.parametrize("trials", repetitions(gate=2, soak=100))
def test_a_stopped_check_leaves_nothing(probe: str, trials: int, tmp_path: Path) -> None:
    if probe == "fio" and shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    random = seeded(f"interruption {probe}")
    for trial in range(trials):
        target = tmp_path / f"target{trial}"
        target.mkdir()
        delay_s, number = random.uniform(0.05, 5.0), random.choice(SIGNALS)
        code = _stopped(target, tmp_path / "t.db", probe, delay_s, number, random.random() < 0.5)
        what = f"{number.name} after {delay_s:.3f} s"
        assert list(target.iterdir()) == [], what
        # Before the handlers are in place the signal itself ends the process.
        assert code in {130, -number.value}, f"{what}: exit code {code}"
        assert _processes_of(target) == [], what
    if not (tmp_path / "t.db").exists():
        return  # every check was stopped before it had a store
    ended = trimtab("runs", "--json", "--top", 1000, store=tmp_path / "t.db")
    assert {run["status"] for run in ended.document["runs"]} <= {"ok", "partial", "failed"}


@pytest.mark.cli
def test_a_stopped_check_keeps_what_it_measured(tmp_path: Path) -> None:
    # A slow machine has measured nothing after some seconds, and then nothing can be kept.
    for delay_s in (8.0, 16.0, 28.0):
        place = tmp_path / f"{delay_s:g}"
        (place / "target").mkdir(parents=True)
        store = place / "t.db"
        assert _stopped(place / "target", store, "builtin", delay_s, signal.SIGINT, False) == 130
        if not store.exists():
            continue
        (run,) = trimtab("runs", "--json", store=store).document["runs"]
        assert "SIGINT" in run["problem"]
        measured = any(sample["value"] for sample in run["samples"])
        assert run["status"] == ("partial" if measured else "failed")
        if measured:
            return
    pytest.fail("stopped after 28 s of 40 it had kept nothing that it measured")


def _stopped(
    target: Path, store: Path, probe: str, delay_s: float, number: signal.Signals, twice: bool
) -> int:
    """Start a check, stop it after ``delay_s`` (perhaps with impatience), return its code."""
    process = subprocess.Popen(
        [str(TRIMTAB), "check", str(target), "--probe", probe, "--budget", "40s"],
        env={**os.environ, "TRIMTAB_STORE": str(store)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(delay_s)
    process.send_signal(number)
    if twice:
        time.sleep(0.05)
        process.send_signal(number)
    return process.wait(timeout=60)


def _processes_of(target: Path) -> list[int]:
    """Return the processes whose command line names the directory."""
    found = []
    for entry in [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        with suppress(OSError):  # it has ended
            if os.fsencode(target) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
