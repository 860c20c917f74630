"""The commands that act, on a fake Lustre: each failure is told for what it is, and journalled."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.act.lustre_site import LustreSite, lustre
from tests.fake_lustre.state import Fault

from trimtab.act import first_target
from trimtab.base.action import Outcome
from trimtab.base.error import ToolError
from trimtab.base.event import new_identifier, utc_now
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import SiteProbe
from trimtab.probe import site_probe
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.probe.survey import SurveyRequest
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.store.store import Store

__all__ = ["lustre"]
pytestmark = pytest.mark.system

OST = "OST0003"
GIB = 2**30
NOW = 'settle = "1ms"\n'
REQUESTS = f'[policy.tunables]\nsettings = {{"drives/queue/nr_requests" = 64}}\n{NOW}'
QOS = f'[policy.tunables]\nsettings = {{qos_prio_free = "80%"}}\n{NOW}'
SET = "lctl set_param"


def outcomes(document: dict) -> list[str]:
    return [action["outcome"] for action in document["actions"]]


def fill(lustre: LustreSite, name: str, fullness: float) -> None:
    target = lustre.fake.target(name)
    target.used_bytes = int(fullness * (target.capacity_bytes - target.reserved_bytes))


def counts(lustre: LustreSite, name: str = OST) -> list[int]:
    found = lustre.fake.target(name).max_create_count
    return [found.get(mdt.name, 20000) for mdt in lustre.fake.mdts]


def prio_free(lustre: LustreSite, mdt: str) -> str:
    name = f"lod.scratch-{mdt}-mdtlov.qos_prio_free"
    return lustre.fake.lctl(lustre.fake.target(mdt).server, ["get_param", "-n", name]).stdout


# Settings


def test_a_setting_goes_from_one_target_to_all_and_back(lustre: LustreSite) -> None:
    lustre.write_site(QOS)
    planned = lustre.run("tune", "fake")["plan"]
    assert [each["target"] for each in planned["instructions"]] == ["MDT0000"]
    assert lustre.writes() == []
    assert outcomes(lustre.run("tune", "fake", "--apply", "--plan", planned["id"])) == ["done"]
    assert outcomes(lustre.run("tune", "fake", "--apply")) == ["done"]
    assert lustre.run("tune", "fake", "--apply")["actions"] == []
    lustre.fake.pass_time(1000.0)  # confirmed: nothing is put back
    assert [prio_free(lustre, mdt).strip() for mdt in ("MDT0000", "MDT0001")] == ["80%", "80%"]
    assert len(lustre.run("actions", "fake")["actions"]) == 2
    assert outcomes(lustre.run("revert", "fake", "--all", "--apply")) == ["done", "done"]
    lustre.fake.pass_time(1000.0)
    assert [prio_free(lustre, mdt).strip() for mdt in ("MDT0000", "MDT0001")] == ["90%", "90%"]
    assert not any(".pending." in name for s in lustre.fake.servers for name in s.kept)


@pytest.mark.parametrize(
    ("happens", "outcome", "shows"),
    [
        (Fault("refuse", "write", code=errno.EINVAL), "refused", os.strerror(errno.EINVAL)),
        (Fault("refuse", "write", code=errno.EACCES), "refused", os.strerror(errno.EACCES)),
        (Fault("refuse", "write", code=errno.EROFS), "refused", os.strerror(errno.EROFS)),
        (Fault("swallow", "write"), "not-stored", "256"),
        (Fault("hang", "write"), "unknown", ""),
        (Fault("half", "ssh", lines=2), "unknown", "oss1"),
        ("kill_server", "unreachable", "No route to host"),
        ("fail_over", "skipped", "oss1"),
        ("recover", "skipped", "OST0001"),
        ("change", "changed", "128"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_failure_is_told_and_later_stages_are_not_begun(
    lustre: LustreSite, happens: Fault | str, outcome: str, shows: str
) -> None:
    lustre.write_site(REQUESTS)
    assert outcomes(lustre.run("tune", "fake", "--apply")) == ["done", "done"]
    stages = lustre.run("tune", "fake")["plan"]["instructions"]
    assert [(each["stage"], each["target"]) for each in stages] == [(1, "OST0001"), (2, "MDT0001")]

    def now() -> None:
        target = lustre.fake.target("OST0001")
        if isinstance(happens, Fault):
            happens.host = target.server
            lustre.fake.faults.append(happens)
        elif happens == "kill_server":
            lustre.fake.kill_server(target.server)
        elif happens == "fail_over":
            lustre.fake.fail_over(target.name)
        elif happens == "recover":
            target.recovery = "RECOVERING"
        else:
            change(lustre, "OST0001", "nr_requests", "128")

    lustre.before_write.append(now)
    applied = lustre.run("tune", "fake", "--apply", code=4)
    assert outcomes(applied) == [outcome]
    assert shows in applied["actions"][0]["detail"]
    assert [line["do"] for line in lines_of_last_run(lustre)] == ["apply", "begin", "end"]
    end = lustre.lines()[-1]
    assert (end["outcome"], end["detail"]) == (outcome, applied["actions"][0]["detail"])
    lustre.fake.faults.clear()
    assert lustre.run("actions", "fake")["actions"][-1]["outcome"] == outcome


def test_what_was_done_before_the_right_was_lost_is_in_the_log_book(lustre: LustreSite) -> None:
    def overtake() -> None:
        now = utc_now()
        with Store.open(lustre.directory / "t.db") as store:
            store.take_right("fake", "b", now=now, until=now + timedelta(hours=1), gone=bool)

    lustre.write_site(f"{REQUESTS}[servers.ssh]\nfanout = 1\n")
    lustre.before_write.append(overtake)
    lost = lustre.run("tune", "fake", "--apply", code=4)
    assert lost["error"]["code"] == "right-lost"
    with Store.open(lustre.directory / "t.db") as store:
        (action,) = store.actions("fake")
        (event,) = store.events(site="fake")
    assert (event.id, event.targets) == (action.id, (action.instruction.target,))
    assert action.id[:13] in event.detail


def change(lustre: LustreSite, target: str, knob: str, value: str) -> None:
    """Let somebody else write a setting of every drive of a target."""
    state = lustre.fake.target(target)
    server = lustre.fake.server(state.server)
    files = lustre.fake.files(server.name)
    names = {drive.name for drive in state.drives}
    for path in files:
        if path.endswith(f"/queue/{knob}") and path.split("/")[-3] in names:
            server.files[path] = f"{value}\n"


def lines_of_last_run(lustre: LustreSite) -> list[dict]:
    lines = lustre.lines()
    last = max(n for n, line in enumerate(lines) if line["do"] == "apply")
    return lines[last:]


def test_what_a_failover_lost_is_set_again(lustre: LustreSite) -> None:
    lustre.write_site(QOS)
    for _ in range(2):
        lustre.run("tune", "fake", "--apply")
    lustre.fake.fail_over("MDT0000")
    (again,) = lustre.run("tune", "fake", "--apply")["actions"]
    assert again["instruction"]["reason_code"] == "drift"
    assert (again["outcome"], prio_free(lustre, "MDT0000").strip()) == ("done", "80%")


def test_a_parameter_that_hangs_is_unknown_and_holds_what_follows(lustre: LustreSite) -> None:
    lustre.write_site(QOS)
    lustre.fake.faults.append(Fault("hang", SET))
    assert outcomes(lustre.run("tune", "fake", "--apply", code=4)) == ["unknown"]
    lustre.fake.faults.clear()
    held = lustre.run("tune", "fake", "--apply", code=4)
    assert held["plan"]["held_codes"] == ["action-open"]


def test_an_unchanged_site_costs_no_write(lustre: LustreSite) -> None:
    def written() -> tuple[dict[str, bytes], list[str]]:
        files = (path for path in lustre.directory.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}, lustre.writes()

    lustre.write_site(QOS.replace("80%", "90%"))
    before = None
    for command in ("tune", "tune", "balance"):
        applied = lustre.run(command, "fake", "--apply")
        assert (applied["plan"]["instructions"], applied["actions"]) == ([], [])
        before = before or written()  # the first one makes the store
    assert written() == before


# The first target measured


class Surveys:
    """Stands for surveys: a first target is slower where its queue was changed, or one fails."""

    def __init__(self, lustre: LustreSite, *, slower: float = 0.0, fails: int = 0) -> None:
        self.lustre, self.slower, self.fails = lustre, slower, fails
        self.targets: list[tuple[str, ...]] = []

    def prepare(
        self, site: object, driver: object, request: SurveyRequest, tools: object
    ) -> SurveyRequest:
        return request

    def carry_out(
        self, request: SurveyRequest, driver: object, store: Store, **rest: object
    ) -> None:
        self.targets.append(request.targets)
        if len(self.targets) == self.fails:
            raise ToolError("nothing was measured", code="survey-incomplete")
        tuned = any("nr_requests" in line for line in self.lustre.writes())
        at = utc_now()
        samples = tuple(
            Sample("write_bandwidth", 1e9 * (1 - self.slower * (tuned and n == 0)), target=target)
            for n, target in enumerate(request.targets)
        )
        run = Run(new_identifier(at), "fake", "survey", "survey", RunStatus.OK, at=at)
        store.add_run(replace(run, samples=samples))


SURVEYED = f"{REQUESTS}survey = true\n"


@pytest.mark.parametrize(
    ("how", "surveys", "then"),
    [({}, 2, "OST0001"), ({"slower": 0.2}, 2, "canary-worse"), ({"fails": 2}, 3, "OST0001")],
    ids=["unchanged", "slower", "failed once"],
)
def test_the_first_target_is_surveyed_before_and_after_its_change(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch, how: dict, surveys: int, then: str
) -> None:
    stand_in = Surveys(lustre, **how)
    monkeypatch.setattr(first_target, "prepare", stand_in.prepare)
    monkeypatch.setattr(first_target, "carry_out", stand_in.carry_out)
    lustre.write_site(SURVEYED)
    assert outcomes(lustre.run("tune", "fake", "--apply")) == ["done", "done"]
    assert stand_in.targets == [("OST0000", "OST0002", "OST0003", "OST0004")] * 2
    if "fails" in how:
        (pending, *_) = lustre.run("tune", "fake")["plan"]["untouched"]
        assert pending["reason_code"] == "canary-pending"
    plan = lustre.run("tune", "fake", "--apply")["plan"]
    following = [each["target"] for each in plan["instructions"]]
    assert then in [*following, plan["untouched"][0]["reason_code"]]
    assert ("OST0001" in following) is (then == "OST0001")
    assert len(stand_in.targets) == surveys


def test_without_its_survey_a_first_target_is_not_changed(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = Surveys(lustre, fails=1)
    monkeypatch.setattr(first_target, "prepare", stand_in.prepare)
    monkeypatch.setattr(first_target, "carry_out", stand_in.carry_out)
    lustre.write_site(SURVEYED)
    failed = lustre.run("tune", "fake", "--apply", code=3)
    assert failed["error"]["code"] == "survey-incomplete"
    assert lustre.writes() == []


@pytest.mark.parametrize(("slower", "then"), [(0.0, "MDT0001"), (0.2, "canary-worse")])
def test_a_named_probe_runs_before_and_after_the_first_change(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch, slower: float, then: str
) -> None:
    runs_tuned: list[bool] = []

    def measured(probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        tuned = bool(lustre.writes())
        runs_tuned.append(tuned)
        sample = Sample("write_bandwidth", 1e9 * (1 - slower * tuned))
        run = Run(context.run_id, "fake", probe.name, "fio", RunStatus.OK, at=context.at)
        return ProbeOutcome(replace(run, samples=(sample,)))

    monkeypatch.setattr(site_probe, "runner_of", lambda *_: measured)
    lustre.write_site(f'{QOS}probe = "hourly"\n[probe.hourly]\n')
    assert outcomes(lustre.run("tune", "fake", "--apply")) == ["done"]
    assert runs_tuned == [False, True]
    plan = lustre.run("tune", "fake")["plan"]
    told = [each["target"] for each in plan["instructions"]]
    assert then in [*told, *(each["reason_code"] for each in plan["untouched"])]
    assert ("MDT0001" in told) is (then == "MDT0001")


# Permanent settings

PRIO = "lod.scratch-MDT0000-mdtlov.qos_prio_free"
PERMANENT = f'{QOS}permanent = ["qos_prio_free"]\n'


@pytest.mark.parametrize("before", [None, "90%"])
def test_a_permanent_setting_lasts_and_is_taken_back(
    lustre: LustreSite, before: str | None
) -> None:
    if before is not None:
        lustre.fake.permanent[PRIO] = before
    lustre.write_site(PERMANENT)
    (action,) = lustre.run("tune", "fake", "--apply")["actions"]
    assert (action["outcome"], action["facts"]) == ("done", {"permanent_before": before or ""})
    assert lustre.fake.permanent == {PRIO: "80%"}
    lustre.fake.fail_over("MDT0000")
    assert prio_free(lustre, "MDT0000").strip() == "80%"
    assert outcomes(lustre.run("revert", "fake", "--all", "--apply")) == ["done"]
    lustre.fake.pass_time(1000.0)
    assert prio_free(lustre, "MDT0000").strip() == "90%"
    assert lustre.fake.permanent.get(PRIO) == before


def test_nothing_is_permanent_that_is_not_listed(lustre: LustreSite) -> None:
    lustre.write_site(QOS)
    lustre.run("tune", "fake", "--apply")
    assert lustre.fake.permanent == {}
    assert not any("permanent" in line for line in lustre.writes())


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ([Fault("refuse", SET, after_calls=1, times=1, text="error: x: Invalid\n")], "refused"),
        ([Fault("swallow", SET, after_calls=1, times=1)], "not-stored"),
        ([Fault("refuse", "lctl --device", code=22, text="No device found\n")], "skipped"),
    ],
    ids=["refused", "swallowed", "no MGS"],
)
def test_a_running_value_is_put_back_where_the_mgs_does_not_take_it(
    lustre: LustreSite, faults: list[Fault], outcome: str
) -> None:
    lustre.write_site(PERMANENT)
    lustre.fake.faults += faults
    assert outcomes(lustre.run("tune", "fake", "--apply", code=4)) == [outcome]
    lustre.fake.faults.clear()
    lustre.fake.pass_time(1000.0)
    assert (prio_free(lustre, "MDT0000").strip(), lustre.fake.permanent) == ("90%", {})


# Several servers


def test_servers_are_set_at_once_and_each_confirms_its_own(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.write_site(REQUESTS)
    for _ in range(2):
        lustre.run("tune", "fake", "--apply")
    stages = lustre.run("tune", "fake")["plan"]["instructions"]
    names = [f"OST000{number}" for number in range(2, 8)]
    assert [(each["stage"], each["target"]) for each in stages] == [(2, name) for name in names]
    together = threading.Barrier(3, timeout=30.0)
    on_server: dict[str, threading.Lock] = {s.name: threading.Lock() for s in lustre.fake.servers}
    confirmed = threading.Semaphore(0)
    set_, confirm = LustreDriver.set, LustreDriver.confirm

    def counted(driver: LustreDriver, target: str, name: str, value: str) -> object:
        server = lustre.fake.target(target).server
        assert on_server[server].acquire(blocking=False), "two at once on a server"
        try:
            answer = set_(driver, target, name, value)
            if target in {"OST0002", "OST0004", "OST0006"}:
                together.wait()  # all three are set, and none is confirmed
            if target == "OST0004":
                assert confirmed.acquire(timeout=30.0)
                lustre.fake.kill_server(server)
            return answer
        finally:
            on_server[server].release()

    def counted_confirm(driver: LustreDriver) -> None:
        confirm(driver)
        confirmed.release()

    monkeypatch.setattr(LustreDriver, "set", counted)
    monkeypatch.setattr(LustreDriver, "confirm", counted_confirm)
    applied = lustre.run("tune", "fake", "--apply", code=4)["actions"]
    assert {each["instruction"]["target"]: each["outcome"] for each in applied} == {
        **dict.fromkeys(names, "done"),
        "OST0004": "unknown",
        "OST0005": "unreachable",
    }


# The way back by itself


@pytest.mark.parametrize("policy", ["tune", "balance"])
def test_what_an_applier_did_not_confirm_is_put_back_by_the_servers(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    lustre.write_site(QOS)
    fill(lustre, OST, 0.9)

    def die(driver: LustreDriver) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LustreDriver, "confirm", die)
        lustre.run(policy, "fake", "--apply", code=130)
    written = {"tune": prio_free(lustre, "MDT0000").strip(), "balance": counts(lustre)}
    assert written[policy] == {"tune": "80%", "balance": [0, 0]}[policy]
    assert [line["do"] for line in lustre.lines()] == ["apply", "begin"]
    # The next one comes before the servers put it back, and must not call it done.
    (settled,) = lustre.run(policy, "fake", "--apply", code=4)["settled"]
    assert settled["outcome"] == Outcome.UNKNOWN.value
    lustre.fake.pass_time(150.0)
    assert (prio_free(lustre, "MDT0000").strip(), counts(lustre)) == ("90%", [20000, 20000])


def test_a_confirmation_that_does_not_arrive_is_no_success(lustre: LustreSite) -> None:
    lustre.write_site(QOS)
    server = lustre.fake.target("MDT0000").server
    lustre.before_write += [lambda: lustre.fake.kill_server(server), lambda: None]
    (action,) = lustre.run("tune", "fake", "--apply", code=4)["actions"]
    assert action["outcome"] == "unknown"


# Closing and opening


def test_a_full_target_is_closed_and_stays_so(lustre: LustreSite) -> None:
    fill(lustre, OST, 0.9)
    (closed,) = lustre.run("balance", "fake", "--apply")["actions"]
    assert (closed["outcome"], counts(lustre)) == ("done", [0, 0])
    lustre.fake.pass_time(1000.0)
    assert counts(lustre) == [0, 0]
    assert outcomes(lustre.run("revert", "fake", closed["id"], "--apply")) == ["done"]
    assert counts(lustre) == [20000, 20000]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault("refuse", SET, code=22, text="error: x: Invalid argument\n"), "refused"),
        (Fault("swallow", SET), "not-stored"),
        (Fault("hang", SET), "unknown"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_target_is_closed_for_every_mdt_or_for_none(
    lustre: LustreSite, fault: Fault, outcome: str
) -> None:
    fill(lustre, OST, 0.9)
    fault.host = lustre.fake.target("MDT0001").server
    lustre.fake.faults.append(fault)
    assert outcomes(lustre.run("balance", "fake", "--apply", code=4)) == [outcome]
    lustre.fake.faults.clear()
    lustre.fake.pass_time(150.0)
    assert counts(lustre) == [20000, 20000]


def test_a_target_that_failed_over_is_open_again_and_closed_again(lustre: LustreSite) -> None:
    policy = '[policy.balance]\nmechanism = "no_create"\ndwell = "0"\n'
    lustre.write_site(policy)
    fill(lustre, OST, 0.9)
    assert outcomes(lustre.run("balance", "fake", "--apply")) == ["done"]
    assert lustre.fake.target(OST).no_create
    lustre.fake.fail_over(OST)
    assert not lustre.fake.target(OST).no_create
    assert outcomes(lustre.run("balance", "fake", "--apply")) == ["done"]
    assert lustre.fake.target(OST).no_create


# What is still changed on a fake Lustre of which a part is lost, by the commands that act.

POLICY = '[policy.balance]\nmost_closed = "50%"\n'
FIRST, LAST = "OST0000", "OST0007"


@pytest.mark.parametrize(
    ("part", "closed", "why"),
    [
        (LAST, [FIRST], "pool second: no current state of OST0007"),
        ("MDT0001", [], "the snapshot is incomplete"),
    ],
)
def test_a_lost_part_stops_what_rests_on_it_and_nothing_else(
    lustre: LustreSite, part: str, closed: list[str], why: str
) -> None:
    names = [target.name for target in lustre.fake.osts]
    lustre.fake.pools = {"first": names[:4], "second": names[4:]}
    lustre.write_site(POLICY)
    for name, fullness in ((FIRST, 0.9), ("OST0004", 0.92)):
        lustre.fake.target(name).untrimmed_bytes = GIB
        fill(lustre, name, fullness)
    lustre.fake.target(part).up = False
    assert outcomes(lustre.run("trim", "fake", "--targets", FIRST, "--apply")) == ["done"]
    assert lustre.fake.target(FIRST).untrimmed_bytes == 0
    plan = lustre.run("balance", "fake", *(["--apply"] if closed else []))["plan"]
    assert [row["target"] for row in plan["instructions"]] == closed
    assert all(row["reason"].startswith(why) for row in plan["untouched"])
    assert len(plan["untouched"]) == 2 - len(closed)
    assert all(count == 0 for count in counts(lustre, FIRST)) is bool(closed)
    assert all(count == 20000 for count in counts(lustre, "OST0004"))


def test_a_list_of_pools_that_cannot_be_read_closes_nothing(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.write_site(POLICY)
    fill(lustre, FIRST, 0.9)
    execute = lustre.fake.execute

    def without_pools(argv, **options):
        if tuple(argv[:2]) == ("lfs", "pool_list"):
            argv = ("lfs", "pool_list", "another")
        return execute(argv, **options)

    monkeypatch.setattr(lustre.fake, "execute", without_pools)
    plan = lustre.run("balance", "fake")["plan"]
    assert plan["instructions"] == []
    (left,) = plan["untouched"]
    assert left["reason"].startswith("members of pools unknown: lfs pool_list")
