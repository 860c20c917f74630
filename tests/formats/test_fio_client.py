"""What ``fio --client`` prints for people: every server's results, and none that are not whole."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from tests.formats.damage import sampled
from tests.formats.of_formats import believed, check_cut, figure, values
from tests.formats.recorded import FIXTURES

from trimtab.base.run import RunStatus
from trimtab.formats.fio import FORMAT, read
from trimtab.formats.measurement import Measurement
from trimtab.formats.source import OutputFile

TEXT = (FIXTURES / "fio" / "3.33" / "client-groups.out").read_text()
GROUP = re.compile(r"(READ|WRITE): bw=\S+ \(\S+\), .*, io=([\d.]+)MiB .*, run=\d+-(\d+)msec")
MIB = 2**20


def measured(text: str) -> tuple[Measurement, ...]:
    return read(OutputFile("client.out", text.encode()))


def totals(text: str) -> list[tuple[str, float]]:
    """Return what fio itself says of each group of each server, in its order."""
    return [
        (f"{access.lower()}_bandwidth", float(size) * MIB / (int(time_ms) / 1000))
        for access, size, time_ms in GROUP.findall(text)
    ]


def of_one_group(text: str) -> str:
    """Return the output as of a job file without the group that reads."""
    parts = re.split(r"(?=^rd: \(groupid=1)|(?=^Run status|^Disk stats|^<vm> $)", text, flags=re.M)
    kept = [part for part in parts if not part.startswith(("rd: ", "Run status group 1"))]
    return "".join(kept).replace("total=64,64,0,0", "total=0,64,0,0")


def test_every_server_has_its_results() -> None:
    runs = measured(TEXT)
    assert [run.name for run in runs] == ["vm: w", "vm: rd", "vm: w 2", "vm: rd 2"]
    assert {run.status for run in runs} == {RunStatus.OK}
    assert {run.host for run in runs} == {"vm"}
    assert [run.requested["tasks"] for run in runs] == [2] * 4
    assert {run.requested["transfer_size_bytes"] for run in runs} == {MIB}
    assert {run.tool_version for run in runs} == {"3.33"}
    for run, (metric, bandwidth) in zip(runs, totals(TEXT), strict=True):
        assert figure(run, metric).value == pytest.approx(bandwidth)


@pytest.mark.parametrize("first", ["08:25:31", "08:25:37", "08:25:39", "09:00:00"])
def test_servers_that_end_seconds_apart_are_no_states_of_one(first: str) -> None:
    """A second apart the first was taken for what ``--status-interval`` prints of the other."""
    head, block = TEXT.split("<vm> \n", 1)
    changed = head + "<vm> \n" + block.replace("08:25:38", first, block.count("08:25:38") // 2)
    assert values(measured(changed)) == values(measured(TEXT))
    ended = measured(changed)[1].ended
    assert ended is not None
    assert f"{ended:%H:%M:%S}" == first


def test_one_group_of_all_servers_is_one_result() -> None:
    text = of_one_group(TEXT)
    (run,) = measured(text)
    assert (run.name, run.status, run.requested["tasks"]) == ("w", RunStatus.OK, 4)
    times_s = [int(time_ms) / 1000 for _, _, time_ms in GROUP.findall(text)]
    assert len(times_s) == 2
    assert figure(run, "write_bandwidth").value == pytest.approx(64 * MIB / max(times_s))


def test_without_the_last_server_nothing_is_believed() -> None:
    """A client sums all up at its end: until then results of a server may be still to come."""
    for text in (TEXT, of_one_group(TEXT)):
        cut = text[: text.index("<vm> \n", text.index("Run status"))]
        for run in measured(cut):
            assert run.status is not RunStatus.OK
            assert believed(run, None) == []
        lost = cut + text[text.index("All clients") :]
        assert values(measured(lost)) == {}


def test_hosts_are_told_apart_where_their_names_stand_before_their_results() -> None:
    """Not where two say that they end before either has printed anything."""
    places = [match.start() for match in re.finditer("^<vm> $", TEXT, re.M)]
    named = TEXT
    for place, name in zip(places[::-1], ("n2", "n1"), strict=True):
        named = f"{named[:place]}<{name}> {named[place + 5 :]}"
    assert [run.host for run in measured(named)] == ["n1", "n1", "n2", "n2"]
    together = named.replace("<n2> \n", "").replace("<n1> \n", "<n1> \n<n2> \n")
    assert [run.host for run in measured(together)] == [None] * 4
    assert len(values(measured(together))) == len(values(measured(TEXT)))


def test_two_clients_one_after_the_other() -> None:
    runs = measured(TEXT + TEXT)
    assert [run.status for run in runs] == [RunStatus.OK] * 8
    assert {a.host for a, _ in pairwise(runs)} == {"vm"}


def test_json_of_groups_does_not_depend_on_the_order_in_which_servers_end() -> None:
    document = json.loads((FIXTURES / "fio" / "3.42" / "client.out").read_text())
    sums = document["client_stats"].pop()
    jobs = [
        {**job, "jobname": name, "groupid": group}
        for group, name in enumerate(("w", "rd"))
        for job in document["client_stats"]
    ]
    runs: list[object] = []
    for order in (jobs, sorted(jobs, key=lambda job: str((job["hostname"], job["port"])))):
        text = json.dumps({**document, "client_stats": [*order, sums]}, indent=2)
        results = measured(text)
        assert {run.name for run in results} == {
            f"{job['hostname']}: {job['jobname']}" for job in jobs
        }
        runs.append(values(results))
    assert runs[0] == runs[1]


@sampled
def test_a_cut_output_tells_nothing_else() -> None:
    for text in (TEXT, of_one_group(TEXT)):
        check_cut(FORMAT, OutputFile("client.out", text.encode()))
