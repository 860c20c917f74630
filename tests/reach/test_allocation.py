"""This host as the place where a probe's commands run."""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime

import pytest
from tests.support.narrow import instance

from trimtab.base.error import UsageError
from trimtab.reach.allocation import HostAllocation, NodeDemand
from trimtab.reach.launcher import Local, OpenMpi


@pytest.mark.system
def test_commands_run_here_through_the_launcher() -> None:
    program = "import sys; print(sys.argv[1])"
    allocation = Local().allocate(NodeDemand("x", tasks_per_node=4))
    assert allocation.facts["started_at"] is None
    with allocation:
        result = allocation.execute((sys.executable, "-c", program, "a b"), tasks=4, timeout_s=60)
        assert (result.stdout, result.problem) == (b"a b\n", None)
        late = allocation.execute(("sleep", "60"), tasks=1, timeout_s=0.1)
        assert late.timed_out
        long = allocation.execute(("yes",), tasks=1, timeout_s=60, output_limit_bytes=1000)
        assert long.truncated
    facts = allocation.facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["nodes"] == [platform.node()] == list(allocation.nodes)
    assert (facts["launcher"], facts["job_id"], facts["queued_s"]) == ("local", None, None)
    hours = instance(float, facts["node_hours"])
    assert 0 < hours < 1


def test_mpirun_is_put_in_front() -> None:
    seen: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], **_options: object) -> None:
        seen.append(argv)

    launcher = OpenMpi("mpirun", "4.1.4", cores=8, as_root=False)
    with launcher.allocate(NodeDemand("x"), run=run) as allocation:  # type: ignore[arg-type]
        allocation.execute(("ior",), tasks=3, timeout_s=1)
    assert seen == [("mpirun", "--bind-to", "none", "-n", "3", "ior")]
    assert allocation.facts["version"] == "4.1.4"


def test_an_unset_clock_costs_no_node_hours_that_were_not_spent() -> None:
    moments = iter([datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)])
    allocation = HostAllocation(
        "local",
        lambda argv, _tasks: tuple(argv),
        NodeDemand("x"),
        run=lambda *_argv, **_options: pytest.fail("nothing is to be run"),
        clock=lambda: next(moments),
    )
    with allocation:
        pass
    hours = instance(float, allocation.facts["node_hours"])
    assert 0 <= hours < 1


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (NodeDemand("x", nodes=2), "only on this host, but 2 nodes"),
        (
            NodeDemand("x", options={"partition": "main"}),
            "launcher local has no option 'partition'",
        ),
        (NodeDemand("x", options={"a\x1b[2J": ""}), r"launcher local has no option 'a\\\\x1b"),
    ],
)
def test_what_this_host_cannot_be_is_refused(demand: NodeDemand, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Local().allocate(demand)


@pytest.mark.parametrize("name", ["nodes", "tasks_per_node", "time_limit_s", "pending_limit_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_demand_for_nothing_is_a_bug(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        NodeDemand("x", **{name: value})  # type: ignore[arg-type]
