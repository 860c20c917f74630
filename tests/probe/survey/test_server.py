"""Surveys on servers, with real processes: what is measured, what is refused, what stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.probe.survey.places import MIB, SIZE, Place, on_servers, silent
from tests.support.narrow import instance, present

from trimtab.base.error import Interrupted, RefusedError, ToolError
from trimtab.base.run import RunStatus, comparability_key
from trimtab.formats.obdfilter_survey import SurveySpec, command
from trimtab.probe.echo_device import clean
from trimtab.probe.survey import SurveyRequest, Tools, carry_out, error_of, prepare
from trimtab.probe.survey_plan import Survey, SurveyOutcome
from trimtab.reach.process import ProcessResult

pytestmark = pytest.mark.system


def survey(place: Place, asked: SurveyRequest, tools: Tools | None = None) -> Survey:
    driver, tools = place.driver(), tools or place.tools()
    prepared = prepare(place.site, driver, asked, tools)
    with place.store() as store:
        return carry_out(prepared, driver, store, progress=silent, tools=tools)


def outcomes(found: Survey) -> dict[str, SurveyOutcome]:
    return {one.result.target: one.result.outcome for one in found.standings}


def reason(found: Survey, target: str) -> str:
    return next(one.result.reason or "" for one in found.standings if one.result.target == target)


def check_clean(place: Place, before: FakeLustre) -> None:
    """Assert that no object, no echo client, no process and no used space is left."""
    with place.changing() as state:
        for target in state.osts:
            assert target.echo_objects == []
            assert target.used_bytes == before.target(target.name).used_bytes
        assert all(server.echo_clients == [] for server in state.servers)
    for directory in directories(place):
        assert not directory.exists()


def directories(place: Place) -> list[Path]:
    """Return the directories that the surveys had for their results."""
    words = {word for _, argv in place.calls for word in argv if word.startswith("rslt_loc=")}
    return [Path(word.partition("=")[2]) for word in words]


Commands = Mapping[str, Sequence[str]]


def state_of(place: Place) -> FakeLustre:
    with place.changing() as state:
        return state


def slow_down(place: Place, survey_s: float = 60.0) -> None:
    """Let surveys last for some time from now on."""
    with place.changing() as state:
        state.survey_s = survey_s


@pytest.mark.unit
def test_nothing_is_done_without_being_asked(place: Place) -> None:
    before = state_of(place)
    prepared = prepare(place.site, place.driver(), on_servers("OST0000"), place.tools())
    assert place.calls == []
    after = state_of(place)
    after.calls = before.calls
    assert after.to_json() == before.to_json()
    assert "obdfilter-survey" in " ".join(prepared.plan.steps)
    assert not (place.root / "t.db").exists()


def test_each_target_by_itself_in_waves(place: Place) -> None:
    before = state_of(place)
    with place.changing() as state:
        state.target("OST0002").survey_mib_s = 800.0
    found = survey(place, on_servers("OST0000", "OST0001", "OST0002", "OST0005"))
    # Of one server and of its partner never two at once: 0 with 5, then 1, then 2.
    assert place.surveys() == ["oss1", "oss3", "oss1", "oss2"]
    assert (found.run.status, error_of(found)) == (RunStatus.OK, None)
    assert set(outcomes(found).values()) == {SurveyOutcome.MEASURED}
    slowest = found.standings[0]
    assert slowest.result.target == "OST0002"
    assert slowest.slow == ("write_bandwidth", "rewrite_bandwidth", "read_bandwidth")
    assert slowest.rates["write_bandwidth"] == pytest.approx(800 * MIB, rel=1e-4)
    assert found.spreads[0].median_bytes_per_s == pytest.approx(1400 * MIB, rel=1e-4)
    check_clean(place, before)


def test_what_is_kept(place: Place) -> None:
    found = survey(place, on_servers("OST0000"))
    with place.store() as store:
        kept = store.run(found.run.id)
        notes = [event for event in store.events(site="here") if event.source == "survey"]
    assert (kept.probe, kept.kind) == ("survey-server", "obdfilter-survey")
    assert {sample.target for sample in kept.samples} == {"OST0000"}
    outputs = found.run.outputs
    labels = [f"OST0000 on oss1 {name}" for name in ("obdfilter-survey", "summary", "detail")]
    assert [output.label for output in outputs] == labels
    assert kept.parameters["cost"] == {"bytes_written": 2 * SIZE, "bytes_read": SIZE}
    for sample in kept.samples:
        text = outputs[present(sample.output)].stdout.decode()
        line = text.split("\n")[present(sample.line) - 1]
        assert line.startswith("Total: total 64 threads 16 sec ")
    assert [event.targets for event in notes] == [("OST0000",), ("OST0000",)]
    assert "begins on oss1" in notes[0].detail
    assert "OST0000 measured; nothing left" in notes[1].detail


def test_all_of_a_server_together(place: Place) -> None:
    before = state_of(place)
    found = survey(place, on_servers("OST0000", "OST0001", "OST0002", together=True))
    assert place.surveys() == ["oss1", "oss2"]
    assert set(outcomes(found).values()) == {SurveyOutcome.MEASURED}
    check_clean(place, before)
    alone = survey(place, on_servers("OST0000", "OST0002"))
    assert "together" not in alone.plan.parameters
    assert found.plan.parameters["together"] is True
    # They share their server: that they are slower than alone is no regression.
    assert comparability_key(found.run) != comparability_key(alone.run)


def test_a_target_that_changes_after_the_plan_is_left_out(place: Place) -> None:
    driver, tools = place.driver(), place.tools()
    prepared = prepare(place.site, driver, on_servers("OST0000", "OST0003"), tools)
    with place.changing() as state:
        state.target("OST0003").degraded = True
    with place.store() as store:
        found = carry_out(prepared, driver, store, progress=silent, tools=tools)
    assert outcomes(found) == {"OST0000": SurveyOutcome.MEASURED, "OST0003": SurveyOutcome.REFUSED}
    assert place.surveys() == ["oss1"]
    assert "OST0003: it is degraded" in instance(RefusedError, error_of(found)).message
    assert found.run.status is RunStatus.PARTIAL


@pytest.mark.parametrize("client", ["scratch-OST0000_ecc", "scratch-OST0001_ecc"])
def test_a_target_with_an_echo_client_on_its_server_is_refused(place: Place, client: str) -> None:
    """Of its own, or of another survey whose network and memory they would share."""
    with place.changing() as state:
        state.server("oss1").echo_clients.append(client)
    found = survey(place, on_servers("OST0000"))
    assert outcomes(found) == {"OST0000": SurveyOutcome.REFUSED}
    assert f"{client} exists" in reason(found, "OST0000")
    assert place.surveys() == []
    if client == "scratch-OST0001_ecc":
        found = survey(place, on_servers("OST0000", together=True))
        assert outcomes(found) == {"OST0000": SurveyOutcome.MEASURED}
    assert state_of(place).server("oss1").echo_clients == [client]


def instead_of_surveys(
    place: Place, answer: Callable[[str, Sequence[str]], ProcessResult]
) -> Tools:
    """Return tools that answer for a survey, and run every other command."""

    def run(commands: Commands, timeout_s: float) -> Mapping[str, ProcessResult]:
        ((server, argv),) = commands.items()
        if argv[-1] != "obdfilter-survey":
            return place.run(commands, timeout_s)
        place.calls.append((server, tuple(argv)))
        return {server: answer(server, argv)}

    return place.tools(run=run)


def writing(place: Place, server: str, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Return a survey that was started on a server and has begun to write."""
    running = subprocess.Popen(place.on(server, argv), stdout=subprocess.DEVNULL)
    wait_for(directories(place)[0] / "survey.summary", "write ")
    return running


def away(place: Place, server: str, words: bytes) -> ProcessResult:
    """Return what comes back of a server that cannot be reached."""
    return replace(place.run({server: ("false",)}, 60.0)[server], exit_code=255, stderr=words)


def hit(place: Place, number: int, *, at: str = "write ") -> Tools:
    """Return tools with which a signal ends the survey from outside, once it writes."""

    def answer(server: str, argv: Sequence[str]) -> ProcessResult:
        running = subprocess.Popen(place.on(server, argv), stdout=subprocess.PIPE)
        directory = directories(place)[0]
        wait_for(directory / "survey.summary", at)
        os.killpg(int((directory / "survey.group").read_text()), number)
        output, _ = running.communicate(timeout=20)
        return replace(place.run({server: ("true",)}, 10.0)[server], stdout=output, exit_code=0)

    return instead_of_surveys(place, answer)


def wait_for(path: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{path} never held {text!r}"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "at", "outcome"),
    [
        (signal.SIGTERM, "write ", SurveyOutcome.FAILED),
        (signal.SIGTERM, "rewrite ", SurveyOutcome.MEASURED),
        (signal.SIGKILL, "rewrite ", SurveyOutcome.MEASURED),
    ],
)
def test_a_killed_survey_leaves_nothing(
    place: Place, number: int, at: str, outcome: SurveyOutcome
) -> None:
    """Its exit code is 0 and it says that it is done: its files say that it is not."""
    before = state_of(place)
    slow_down(place, 0.5)
    found = survey(place, on_servers("OST0000"), hit(place, number, at=at))
    assert outcomes(found) == {"OST0000": outcome}
    assert isinstance(error_of(found), ToolError)
    assert found.run.status is not RunStatus.OK
    assert "it ended during" in reason(found, "OST0000")
    is_measured = outcome is SurveyOutcome.MEASURED
    written = SIZE if is_measured else None
    assert found.run.parameters["cost"] == {"bytes_written": written, "bytes_read": None}
    assert set(found.standings[0].rates) == ({"write_bandwidth"} if is_measured else set())
    assert any("removed the objects 0x2" in note for note in found.notes)
    check_clean(place, before)


def test_a_person_stops_it(place: Place) -> None:
    """As the fan-out does at SIGINT: its own end is killed, the survey over there runs on."""
    before = state_of(place)
    slow_down(place)
    running: list[subprocess.Popen[bytes]] = []

    def answer(server: str, argv: Sequence[str]) -> ProcessResult:
        running.append(subprocess.Popen(place.on(server, argv), stdout=subprocess.DEVNULL))
        # As sshd does over there: until someone asks how it ended, its group is not gone.
        threading.Thread(target=running[0].wait).start()
        wait_for(directories(place)[0] / "survey.summary", "write ")
        raise Interrupted("stopped by SIGINT")

    with pytest.raises(Interrupted):
        survey(place, on_servers("OST0000", "OST0001"), instead_of_surveys(place, answer))
    assert running[0].wait(timeout=20) is not None
    assert len(running) == 1
    check_clean(place, before)
    with place.store() as store:
        (kept,) = store.runs(site="here")
        notes = [event.detail for event in store.events(site="here")]
    assert kept.status is RunStatus.FAILED
    assert "removed the objects 0x2" in notes[-1]


def test_a_deadline_ends_it_on_the_server(place: Place) -> None:
    before = state_of(place)
    slow_down(place)
    found = survey(place, on_servers("OST0000", deadline_s=1.0))
    assert outcomes(found) == {"OST0000": SurveyOutcome.FAILED}
    assert "exit code 124" in reason(found, "OST0000")
    check_clean(place, before)


def ended_survey(
    place: Place, answer: Callable[[str, Sequence[str]], ProcessResult | None]
) -> Survey:
    """Return a survey that a signal ended while it wrote; some commands are answered instead."""
    slow_down(place, 0.5)
    tools = hit(place, signal.SIGTERM, at="rewrite ")
    usual = present(tools.run)

    def run(commands: Commands, timeout_s: float) -> Mapping[str, ProcessResult]:
        for server, argv in commands.items():
            if (result := answer(server, argv)) is not None:
                return {server: result}
        return usual(commands, timeout_s)

    return survey(place, on_servers("OST0000"), replace(tools, run=run))


def test_objects_that_cannot_be_removed_are_named(place: Place) -> None:
    def answer(server: str, argv: Sequence[str]) -> ProcessResult | None:
        return place.run({server: ("true",)}, 60.0)[server] if "destroy" in argv else None

    found = ended_survey(place, answer)
    assert isinstance(error_of(found), ToolError)
    assert "the object 0x2 of scratch-OST0000_ecc was not removed" in " ".join(found.notes)
    assert any("less are free than before" in note for note in found.notes)
    (directory,) = directories(place)
    assert directory.exists(), "the .detail names what is left"
    shutil.rmtree(directory)


def test_a_server_that_goes_away(place: Place) -> None:
    """From its survey on nothing is heard of it: what may be left on it is said."""
    gone: list[str] = []

    def run(commands: Commands, timeout_s: float) -> Mapping[str, ProcessResult]:
        found = {}
        for server, argv in commands.items():
            if server == "oss3" and (gone or argv[-1] == "obdfilter-survey"):
                gone.append(server)
                place.calls.append((server, tuple(argv)))
                found[server] = away(place, server, b"No route to host")
            else:
                found |= place.run({server: argv}, timeout_s)
        return found

    found = survey(place, on_servers("OST0000", "OST0001", "OST0005"), place.tools(run=run))
    assert outcomes(found) == {
        "OST0000": SurveyOutcome.MEASURED,
        "OST0001": SurveyOutcome.MEASURED,
        "OST0005": SurveyOutcome.FAILED,
    }
    assert "No route to host" in reason(found, "OST0005")
    assert any("OST0005" in note and "No route to host" in note for note in found.notes)
    assert isinstance(error_of(found), ToolError)
    (directory,) = (one for one in directories(place) if one.exists())
    directory.rmdir()


def lost(place: Place, lost_server: str, running: list[subprocess.Popen[bytes]]) -> Tools:
    """Return tools that lose a server while it writes, and reach it again, but for its survey."""

    def run(commands: Commands, timeout_s: float) -> Mapping[str, ProcessResult]:
        found = {}
        for server, argv in commands.items():
            begins = server == lost_server and argv[-1] == "obdfilter-survey"
            ends = server == lost_server and argv[:2] == ("sh", "-c") and "kill -s" in argv[2]
            if begins:
                place.calls.append((server, tuple(argv)))
                running.append(writing(place, server, argv))
                slow_down(place, 0.0)
            if begins or ends:
                found[server] = away(place, server, b"Connection reset by peer")
            else:
                found |= place.run({server: argv}, timeout_s)
        return found

    return place.tools(run=run)


def end(running: subprocess.Popen[bytes], directory: Path) -> None:
    """End what runs on a server, and remove its results."""
    os.killpg(int((directory / "survey.group").read_text()), signal.SIGKILL)
    running.wait(timeout=20)
    shutil.rmtree(directory)


def test_beside_a_survey_that_cannot_be_ended_nothing_is_done(place: Place) -> None:
    slow_down(place)
    running: list[subprocess.Popen[bytes]] = []
    # 0 and 1 are of one server, 2 of its partner, 4 of another pair.
    asked = on_servers("OST0000", "OST0001", "OST0002", "OST0004")
    assert state_of(place).target("OST0004").server not in ("oss1", "oss2")
    found = survey(place, asked, lost(place, "oss1", running))
    (directory,) = (one for one in directories(place) if one.exists())
    try:
        assert place.surveys() == ["oss1", "oss3"]
        assert outcomes(found) == {
            "OST0000": SurveyOutcome.FAILED,
            "OST0001": SurveyOutcome.REFUSED,
            "OST0002": SurveyOutcome.REFUSED,
            "OST0004": SurveyOutcome.MEASURED,
        }
        for target in ("OST0001", "OST0002"):
            assert "OST0000 on oss1 could not be stopped" in reason(found, target)
        assert "the survey may still run" in reason(found, "OST0000")
        assert f"oss1:{directory}" in reason(found, "OST0000")
        touched = [argv for server, argv in place.calls if server == "oss1" and "--device" in argv]
        assert touched == [], "its objects are in use"
        assert isinstance(error_of(found), ToolError)
    finally:
        end(running[0], directory)


def test_the_list_of_objects_stays_where_it_cannot_be_read(place: Place) -> None:
    def answer(server: str, argv: Sequence[str]) -> ProcessResult | None:
        is_list = argv[-1].endswith("survey.detail")
        return away(place, server, b"Broken pipe") if is_list else None

    found = ended_survey(place, answer)
    (directory,) = directories(place)
    assert "is object id 0x2" in (directory / "survey.detail").read_text()
    assert f"oss1:{directory}" in " ".join(found.notes)
    assert f"oss1:{directory}" in reason(found, "OST0000")
    assert "Broken pipe" in reason(found, "OST0000")
    assert isinstance(error_of(found), ToolError)
    shutil.rmtree(directory)


def test_a_survey_that_never_began_leaves_no_directory(place: Place) -> None:
    """It wrote nothing, so there is nothing to keep."""
    before = state_of(place)

    def answer(server: str, argv: Sequence[str]) -> ProcessResult:
        return place.run({server: (*argv[:-1], "no-such-program")}, 60.0)[server]

    found = survey(place, on_servers("OST0000"), instead_of_surveys(place, answer))
    assert (outcomes(found), found.notes) == ({"OST0000": SurveyOutcome.FAILED}, ())
    check_clean(place, before)


class KilledError(BaseException):
    """Stands for SIGKILL of Trimtab itself: nothing more is done."""


def test_after_trimtab_was_killed_its_note_leads_to_the_results(place: Place) -> None:
    slow_down(place)
    running: list[subprocess.Popen[bytes]] = []

    def run(commands: Commands, timeout_s: float) -> Mapping[str, ProcessResult]:
        ((server, argv),) = commands.items()
        if running:
            raise KilledError
        if argv[-1] != "obdfilter-survey":
            return place.run(commands, timeout_s)
        place.calls.append((server, tuple(argv)))
        running.append(writing(place, server, argv))
        raise KilledError

    with pytest.raises(KilledError):
        survey(place, on_servers("OST0000"), place.tools(run=run))
    (directory,) = directories(place)
    try:
        found = survey(place, on_servers("OST0001"))
        assert outcomes(found) == {"OST0001": SurveyOutcome.REFUSED}
        assert f"on OST0000 left oss1:{directory}" in reason(found, "OST0001")
    finally:
        end(running[0], directory)


def test_objects_that_are_gone_already_are_no_trouble(place: Place) -> None:
    detail = (
        "=======================> ost  1 sz    65536K rsz 1024K obj    1 thr   16 \n"
        "=============> Create 1 on localhost:scratch-OST0000_ecc\n"
        "create: 1 objects\ncreate: #1 is object id 0x9\n"
    )
    done, stays = clean(place.run, "oss1", ("scratch-OST0000",), detail)
    assert stays == ()
    assert "removed the objects 0x9" in done[0]
    with place.changing() as state:
        assert state.server("oss1").echo_clients == []


@pytest.mark.unit
def test_the_command() -> None:
    spec = SurveySpec(size_bytes=SIZE, threads=4)
    argv = command(spec, ("scratch-OST0000", "scratch-OST000a"), directory="/tmp/x", deadline_s=60)
    assert argv[:12] == (
        *("setsid", "-w", "sh", "-c", 'echo $$ > "$1" && shift && exec "$@"', "sh"),
        *("/tmp/x/survey.group", "timeout", "-k", "30", "60", "env"),
    )
    assert argv[-1] == "obdfilter-survey"
    assert {
        *("case=disk", "targets=scratch-OST0000 scratch-OST000a", "size=64", "nobjlo=1"),
        *("nobjhi=1", "thrlo=4", "thrhi=4", "rszlo=1024", "rszhi=1024", "rslt=/tmp/x/survey"),
        "tests_str=write rewrite read",
    } <= set(argv)
