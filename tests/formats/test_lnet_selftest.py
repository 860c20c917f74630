"""LNet selftest: what ``lst stat`` printed, its units and sides, and the commands beside it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.damage import sampled
from tests.formats.of_formats import believed, check_cut, read_or_none, recognised, values
from tests.formats.recorded import FIXTURES
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats.lnet_selftest import FORMAT, count_of_nids, read
from trimtab.formats.measurement import Measurement, OutputFile

MIB = 2**20
HERE = FIXTURES / "lnet_selftest" / "2.17"

TWO_NODES = """\
SESSION: t FEATURES: 1 TIMEOUT: 300 FORCE: No
10.0.0.[1-2]@tcp are added to session
10.0.0.3@tcp are added to session
Test was added successfully
b is running now
[LNet Rates of clients]
[R] Avg: 2000     RPC/s Min: 1900     RPC/s Max: 2100     RPC/s
[W] Avg: 2000     RPC/s Min: 1900     RPC/s Max: 2100     RPC/s
[LNet Bandwidth of clients]
[R] Avg: 0.31     MiB/s Min: 0.30     MiB/s Max: 0.32     MiB/s 
[W] Avg: 1000.15  MiB/s Min: 950.10   MiB/s Max: 1050.20  MiB/s 
[LNet Rates of oss1]
[R] Avg: 4000     RPC/s Min: 4000     RPC/s Max: 4000     RPC/s
[W] Avg: 4000     RPC/s Min: 4000     RPC/s Max: 4000     RPC/s
[LNet Bandwidth of oss1]
[R] Avg: 2000.30  MiB/s Min: 2000.30  MiB/s Max: 2000.30  MiB/s 
[W] Avg: 0.61     MiB/s Min: 0.61     MiB/s Max: 0.61     MiB/s 
"""  # noqa: W291

COMMANDS = """\
+ lst add_group clients 10.0.0.[1-2]@tcp
+ lst add_group oss1 10.0.0.3@tcp
+ lst add_test --batch b --concurrency 8 --from clients --to oss1 brw write check=simple size=1M
"""


def source(text: str | bytes) -> OutputFile:
    return OutputFile("lst.out", text.encode() if isinstance(text, str) else text)


def of_file(name: str) -> tuple[Measurement, ...]:
    return read(source((HERE / f"{name}.out").read_bytes()))


def in_mib(*figures: float) -> Any:
    return pytest.approx([figure * MIB for figure in figures])


def named(text: str, name: str) -> Measurement:
    (found,) = (one for one in read(source(text)) if one.name == name)
    return found


@pytest.mark.parametrize("prompt", ["[root@mds01 ~]# ", "root@mds01:/tmp# ", "mds01:~ # "])
def test_a_prompt_before_it_on_its_line_hides_nothing(prompt: str) -> None:
    """``lst stat clients &`` prints behind the prompt that the shell has given out already."""
    typed = f"{prompt}lst add_test --batch b --from clients --to oss1 brw write size=1M\n"
    text = typed + TWO_NODES.replace("SESSION", f"{prompt}SESSION")
    behind = text.replace("[LNet Rates of clients]", f"{prompt}[LNet Rates of clients]")
    assert read(source(behind))[0].requested["transfer_size_bytes"] == MIB
    alone = TWO_NODES[TWO_NODES.index("[LNet") :]
    for prompted, plain in ((behind, text), (prompt + alone, alone)):
        assert recognised(source(prompted)) == ["lnet-selftest"]
        assert values(read(source(prompted))) == values(read(source(plain)))


def test_each_interval_is_a_repetition_and_servers_receive_what_is_written() -> None:
    clients, servers = of_file("brw-write")
    assert (clients.name, servers.name) == ("clients", "servers")
    assert (clients.status, servers.status, clients.layer) == (
        RunStatus.OK,
        RunStatus.OK,
        "network",
    )
    assert believed(clients, "write_bandwidth") == in_mib(627.12, 662.08, 642.35, 629.67)
    assert believed(clients, "rpc_rate") == [2513.0, 2653.0, 2578.0, 2521.0]
    assert believed(clients, "rpc_rate", "received") == [2511.0, 2654.0, 2578.0, 2521.0]
    assert clients.reported == {"clients": 1, "session": "bw"}
    assert believed(servers, "write_bandwidth")[:1] == in_mib(626.62)
    assert believed(servers, "read_bandwidth")[:1] == in_mib(627.61)
    lines = (HERE / "brw-write.out").read_text().split("\n")
    for sample in clients.samples:
        figure = (sample.value or 0) / (1 if sample.metric == "rpc_rate" else MIB)
        line = lines[present(sample.line) - 1]
        assert f": {figure:.0f} " in line or f": {figure:.2f} " in line


def test_other_ways_to_ask() -> None:
    """``--bw --mbs``, ``--rate``, ``--bw --read --avg`` (which prints W), ``--max --min --avg``."""
    clients, servers = of_file("brw-read")
    assert believed(clients, "read_bandwidth")[4:] == pytest.approx([800.26e6, 798.23e6])
    assert believed(clients, "rpc_rate")[4:] == [1588.0, 1581.0]
    reads = believed(servers, "read_bandwidth")
    assert (reads[4:6], len(reads)) == (in_mib(725.42, 723.99), 8)
    assert len(believed(servers, "write_bandwidth")) == 6


def test_requests_without_data_are_no_bandwidth() -> None:
    for found in of_file("ping"):
        assert (found.status, len(believed(found, "rpc_rate"))) == (RunStatus.OK, 3)
        assert believed(found, "write_bandwidth") == believed(found, "read_bandwidth") == []


def test_only_one_direction_has_data() -> None:
    lines = [line for line in TWO_NODES.split("\n") if "RPC/s" not in line]
    for text in (TWO_NODES, "\n".join(line for line in lines if "Rates" not in line)):
        clients = named(text, "clients")
        assert believed(clients, "write_bandwidth") == in_mib(1000.15)
        assert believed(clients, "write_bandwidth", "node_min") == in_mib(950.1)
        assert believed(clients, "read_bandwidth") == []


def test_a_group_of_an_unknown_side() -> None:
    found = named(TWO_NODES, "oss1")
    assert believed(found, "write_bandwidth") == []
    assert {code_of(sample.reason) for sample in found.samples[:3]} == {"side-unknown"}
    assert found.status is RunStatus.PARTIAL or believed(found, "rpc_rate", "sent") == [4000.0]


def test_commands_tell_sides_nodes_and_parameters() -> None:
    text = COMMANDS + TWO_NODES.partition("\n")[2]
    found = named(text, "oss1")
    assert (believed(found, "write_bandwidth"), found.reported["nodes"]) == (in_mib(2000.3), 1)
    assert found.requested == {
        "side": "server",
        "concurrency": "8",
        "check": "simple",
        "transfer_size_bytes": MIB,
        "tests": ["brw write"],
    }
    assert named(text, "clients").reported["nodes"] == 2


def old(text: str) -> str:
    """Return the text as Lustre 2.8 and older printed it: always MB/s, no blanks at the end."""
    return "\n".join([line.replace("MiB/s", "MB/s ").rstrip() for line in text.split("\n")])


def test_mb_of_which_nobody_can_tell_what_it_is() -> None:
    found = named(old(TWO_NODES), "clients")
    assert (believed(found, "write_bandwidth"), believed(found, "rpc_rate")) == ([], [2000.0])
    reasons = [one.reason or "" for one in found.samples if one.metric == "write_bandwidth"]
    assert all("until Lustre 2.8" in reason for reason in reasons)


@pytest.mark.parametrize("proof", ["+ lst stat --mbs clients\n", None])
def test_mb_that_is_known_to_be_new(proof: str | None) -> None:
    text = old(TWO_NODES)
    if proof is None:
        text = text.replace("Max: 1050.20  MB/s", "Max: 1050.20  MB/s  ")
        assert "MB/s  \n" in text
    found = named((proof or "") + text, "clients")
    assert believed(found, "write_bandwidth") == pytest.approx([1000.15e6])


def test_nodes_that_did_not_answer() -> None:
    found = named(TWO_NODES.replace("[LNet", "Failed to stat on 1 nodes\n[LNet", 1), "clients")
    assert (found.status, found.codes) == (RunStatus.PARTIAL, ("nodes-silent",))
    assert found.problems[0].startswith("1 ")


def test_wrong_data_is_told() -> None:
    line = "12345-10.0.0.3@tcp: [Session 4 brw errors, 0 ping errors] \n"
    found = named(TWO_NODES + line, "clients")
    assert found.status is RunStatus.PARTIAL
    assert "4 brw errors" in (found.problem or "")


def test_intervals_after_the_end_are_not_believed() -> None:
    begin, end = (TWO_NODES.index(f"[LNet Rates of {name}]") for name in ("clients", "oss1"))
    found = named(TWO_NODES + "Batch is stopped\n" + TWO_NODES[begin:end], "clients")
    assert (believed(found, "write_bandwidth"), found.warnings) == (in_mib(1000.15), ())


def test_each_batch_is_a_result() -> None:
    again = TWO_NODES + "Batch is stopped\n" + TWO_NODES.replace("1000.15", "1000.25")
    names = [one.name for one in read(source(again))]
    assert names == ["clients", "oss1", "clients #2", "oss1 #2"]
    assert believed(named(again, "clients #2"), "write_bandwidth") == in_mib(1000.25)


@pytest.mark.parametrize("name", ["ping-hung", "bad-nid"])
def test_a_session_without_a_measurement(name: str) -> None:
    with raises(DataError, "no-result", "Group is deleted"):
        of_file(name)


@sampled
def test_two_nodes_cut() -> None:
    check_cut(FORMAT, source(TWO_NODES))
    check_cut(FORMAT, source(COMMANDS + TWO_NODES))


def without(text: str, at: int) -> OutputFile:
    """Return a text that lost a character."""
    return source(text[:at] + text[at + 1 :])


def rounded(runs: tuple[Measurement, ...]) -> set[int]:
    return {round(one) for one in values(runs).values()}


def test_a_group_whose_name_lost_a_character_is_not_believed() -> None:
    at = TWO_NODES.index("[LNet Bandwidth of oss1]") + len("[LNet Bandwidth of oss")
    assert rounded(read(without(TWO_NODES, at))) <= rounded(read(source(TWO_NODES)))


@given(st.data())
def test_a_lost_character_gives_no_figure_of_another_size(data: st.DataObject) -> None:
    at = data.draw(st.integers(TWO_NODES.index("[LNet"), len(TWO_NODES) - 1))
    found = read_or_none(FORMAT, without(TWO_NODES, at)) or ()
    assert rounded(found) <= rounded(read(source(TWO_NODES)))


@given(st.lists(st.booleans(), min_size=20, max_size=60))
def test_two_outputs_that_run_into_one_another(order: list[bool]) -> None:
    """Their lines in any order: a figure is of the group and kind that it was printed for."""
    other = TWO_NODES.replace("clients", "readers")
    first, second = (iter(text.splitlines(keepends=True)) for text in (TWO_NODES, other))
    mixed = "".join(next(first, "") if turn else next(second, "") for turn in order)
    mixed += "".join((*first, *second))
    printed = {
        ((one.name or "").partition(" ")[0], sample.metric, sample.statistic): sample.value
        for text in (TWO_NODES, other)
        for one in read(source(text))
        for sample in one.samples
    }
    found = values(read_or_none(FORMAT, source(mixed)) or ())
    for (name, metric, _, _, statistic), value in found.items():
        assert printed[(name or "").partition(" ")[0], metric, statistic] == value


@pytest.mark.parametrize(
    ("nid", "count"),
    [
        ("10.0.2.15@tcp", 1),
        ("10.0.2.[15-18]@o2ib1", 4),
        ("10.0.[1-2].[1-9/2]@tcp", 10),
        ("10.0.2.*@tcp", None),
        ("10.0.2.[9-2]@tcp", None),
        ("servers", None),
        ("fe80::1@tcp", 1),
    ],
)
def test_how_many_nodes(nid: str, count: int | None) -> None:
    assert count_of_nids(nid) == count


ECHOED = """\
+ lst new_session --timeout 125 trimtab
+ lst add_group servers 10.0.0.3@tcp
+ lst add_group clients 10.0.0.[1-2]@tcp
+ lst add_batch measure
+ lst add_test --batch measure --concurrency 8 --distribute 1:1 --from clients --to servers \
brw write check=simple size=1048576
+ lst run measure
+ lst stat --delay 5 --count 12 clients servers
"""


def test_what_the_commands_say_is_read() -> None:
    servers = named(ECHOED + TWO_NODES.partition("\n")[2].replace("oss1", "servers"), "servers")
    assert servers.requested["tests"] == ["brw write"]
    assert (servers.requested["transfer_size_bytes"], servers.reported["nodes"]) == (MIB, 1)
