"""What can go wrong does, where and when it is told to."""

from __future__ import annotations

import json

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.narrow import present

from trimtab.base.error import ToolError
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import ServerAnswer, parse_answer, program

PROGRAM = program(server_request(deadline_s=20, sudo=None))


def ask(state: FakeLustre, node: str) -> ServerAnswer:
    """Return the answer of one server."""
    return parse_answer(node, state.fan_out([node], ["python3"], timeout_s=25, stdin=PROGRAM)[node])


def test_a_hang_has_timed_out_at_once_in_simulated_time() -> None:
    state = FakeLustre.small(faults=[Fault("hang", command="lfs", after_calls=1, times=1)])
    runs = [state.execute(["lfs", "df"], timeout_s=20) for _ in range(3)]
    assert [run.timed_out for run in runs] == [False, True, False]
    assert (runs[1].exit_code, runs[1].elapsed_s) == (None, 20)


def test_slow_is_slow_only() -> None:
    state = FakeLustre.small(faults=[Fault("slow", command="lctl", seconds=5)])
    run = state.execute(["lctl", "dl"], timeout_s=20)
    assert (run.timed_out, round(run.elapsed_s)) == (False, 5)
    assert state.execute(["lctl", "dl"], timeout_s=4).timed_out


@pytest.mark.parametrize(
    ("fault", "stdout"),
    [
        (Fault("half", lines=2), "OBDS:\n0: scratch-OST0000_UUID ACTIVE\n"),
        (Fault("half", bytes=9), "OBDS:\n0: "),
        (Fault("garbage", text="\udcff="), "\udcff="),
        (Fault("empty"), ""),
    ],
)
def test_outputs_are_spoilt(fault: Fault, stdout: str) -> None:
    state = FakeLustre.small(faults=[fault])
    assert state.lfs(["osts"]).stdout == stdout
    run = state.execute(["lfs", "osts"], timeout_s=1)
    assert run.stdout == stdout.encode("utf-8", "surrogateescape")


def test_an_exit_code_that_tells_nothing() -> None:
    state = FakeLustre.small(faults=[Fault("exit", command="lctl", code=2)])
    output = state.lctl(None, ["get_param", "version"])
    assert (output.stdout, output.exit_code) == ("version=2.17.57\n", 2)


def test_only_the_host_that_is_meant() -> None:
    state = FakeLustre.pair(faults=[Fault("empty", host="oss2")])
    assert ask(state, "oss1").command("parameters") is not None
    assert ask(state, "oss1").problem is None
    assert ask(state, "oss2").problem is not None
    assert state.lfs(["df"]).stdout


def test_a_target_moves_between_two_calls() -> None:
    fault = Fault("move", command="ssh", host="oss2", target="OST0000")
    state = FakeLustre.pair(faults=[fault])
    answers = {
        node: parse_answer(node, result)
        for node, result in state.fan_out(
            ["oss1", "oss2"], ["python3"], timeout_s=25, stdin=PROGRAM
        ).items()
    }
    for node in ("oss1", "oss2"):  # both served it when they were asked
        devices = present(answers[node].command("devices"))
        assert "obdfilter scratch-OST0000 " in devices.stdout
    later = present(ask(state, "oss1").command("devices"))
    assert "obdfilter scratch-OST0000 " not in later.stdout
    assert state.target("OST0000").server == "oss2"
    imports = state.lctl(None, ["get_param", "osc.*OST0000*.import"]).stdout
    assert 'current_connection: "10.1.1.2@tcp"' in imports
    assert 'failover_nids: [ "10.1.1.1@tcp", "10.1.1.2@tcp" ]' in imports


def test_a_server_dies_in_mid_answer() -> None:
    fault = Fault("die", command="ssh", host="oss1", bytes=1000)
    state = FakeLustre.pair(faults=[fault])
    first = ask(state, "oss1")
    assert first.problem is not None
    assert not first.files
    result = state.fan_out(["oss1"], ["python3"], timeout_s=25, stdin=PROGRAM)["oss1"]
    assert (result.exit_code, b"No route to host" in result.stderr) == (255, True)
    assert "DISCONN" in state.lctl(None, ["get_param", "osc.*OST0001*.import"]).stdout
    status = state.lctl("mds1", ["get_param", "-n", "osp.*OST0001*.prealloc_status"]).stdout
    assert status == "-19\n"


def test_enospc_and_eviction() -> None:
    faults = [Fault("enospc", command="lfs", target="OST0002", after_calls=1)]
    faults += [Fault("evict", command="lfs", target="OST0003", after_calls=1)]
    state = FakeLustre.small(faults=faults)
    assert " 100%" not in state.lfs(["df"]).stdout
    assert " 100%" in state.lfs(["df"]).stdout
    assert (
        "state: EVICTED" in state.lctl(None, ["get_param", "osc.*OST0003-osc-ffff*.import"]).stdout
    )
    status = state.lctl(None, ["get_param", "-n", "osp.*OST0002*.prealloc_status"]).stdout
    assert status == "-28\n-28\n"
    assert "evicted by scratch-OST0003; in progress" in state.run(None, ["dmesg"]).stdout


def test_a_command_that_hangs_on_a_server_costs_that_command() -> None:
    state = FakeLustre.pair(faults=[Fault("hang", command="dmesg", host="mds1")])
    answer = ask(state, "mds1")
    assert answer.problem is None
    log, parameters = answer.command("kernel-log"), answer.command("parameters")
    assert log is not None
    assert parameters is not None
    assert (log.timed_out, log.complete, parameters.complete) == (True, False, True)


def test_a_whole_server_that_hangs_and_one_that_nobody_knows() -> None:
    state = FakeLustre.pair(faults=[Fault("hang", command="ssh", host="oss3")])
    results = state.fan_out(["oss3", "nobody"], ["python3"], timeout_s=25, stdin=PROGRAM)
    assert results["oss3"].timed_out
    assert b"Could not resolve" in results["nobody"].stderr
    by_address = ask(state, "10.1.1.1")
    assert (by_address.problem, by_address.host) == (None, "oss1")


def test_programs_that_are_not_there() -> None:
    with pytest.raises(ToolError):
        FakeLustre.small().execute(["zpool", "list"], timeout_s=1)


def test_a_state_comes_back_from_json() -> None:
    state = FakeLustre.pair(faults=[Fault("hang", command="lfs", after_calls=3)])
    state.lctl("mds1", ["set_param", "osp.*OST0003*.max_create_count=0"])
    state.lfs(["setstripe", "/scratch/f"])
    again = FakeLustre.from_json(state.to_json())
    assert again == state
    assert again.to_json() == json.dumps(json.loads(state.to_json()))


def test_kept_answers_follow_every_change() -> None:
    state = FakeLustre.pair()
    before = ask(state, "oss1")
    changes = (
        lambda: state.write("OST0000", 10**9),
        lambda: setattr(state.target("OST0000"), "degraded", True),
        lambda: setattr(state.target("OST0000").drives[0], "percentage_used", 7),
        lambda: state.server("oss1").kernel_log.append("[ 9.0] LustreError: BAD WRITE CHECKSUM"),
        lambda: state.fail_over("OST0001"),
        lambda: state.pass_time(60),
    )
    for change in changes:
        change()
        kept = ask(state, "oss1")
        fresh = ask(FakeLustre.from_json(state.to_json()), "oss1")
        assert kept == fresh
        assert kept != before
        before = kept


def test_an_mds_sees_what_changes_on_the_osts() -> None:
    state = FakeLustre.pair()

    def status() -> str:
        command = present(ask(state, "mds1").command("parameters"))
        return next(
            line for line in command.stdout.splitlines() if "OST0005-osc-MDT0000.prealloc" in line
        )

    assert status().endswith("=0")
    ost = state.target("OST0005")
    ost.used_bytes = ost.capacity_bytes - ost.reserved_bytes
    assert status().endswith("=-28")
    state.kill_server(ost.server)
    assert status().endswith("=-19")
    state.lctl("mds1", ["set_param", "osp.*OST0005*.active=0"])
    assert status().endswith("=-108")


@pytest.mark.parametrize("letters", ["-lv", "-lvi", "-l"])
def test_df_with_every_server_dead_has_a_summary_of_nothing(letters: str) -> None:
    state = FakeLustre.small()
    for server in state.servers:
        state.kill_server(server.name)
    first, later = (state.lfs(["df", letters, "/scratch"]) for _ in range(2))
    assert (first.exit_code, later.exit_code) == (107, 0)
    assert first.stdout.count("Transport endpoint is not connected") == len(state.targets)
    summary = later.stdout.strip().splitlines()[-1].split()
    assert summary[0] == "filesystem_summary:"
    assert summary[1:5] == ["0", "0", "0", "0%"]
