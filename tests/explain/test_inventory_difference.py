"""Which machine differs, which link is slow, what changed: whatever the order of the machines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.base.finding import Severity
from trimtab.base.inventory import DeviceLink, Inventory, ServerInventory
from trimtab.base.name_set import unfold_nodes
from trimtab.base.site import SiteLimits
from trimtab.base.snapshot import HostSnapshot, Setting, Snapshot
from trimtab.explain.inventory_difference import (
    change_text,
    group_text,
    inventory_changes,
    inventory_headline,
    inventory_of,
    slow_link_text,
    slow_links,
)
from trimtab.explain.trouble import site_state, state_findings

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
KERNEL = "kernel/release"


def oss(number: int, release: str = "6.12.5", role: str = "oss", **more: str) -> ServerInventory:
    values = {KERNEL: release, "cpu/governor": "performance", **more}
    return ServerInventory(f"oss{number:03}", role, values)


def inventory(*readings: ServerInventory, before: Inventory | None = None) -> Inventory:
    return inventory_of(readings, AT, before)


def many(last: ServerInventory) -> list[ServerInventory]:
    return [*(oss(number) for number in range(1, 157)), last]


def test_one_of_157_servers() -> None:
    seen = inventory(*many(oss(157, "6.12.1")))
    (item,) = seen.differences
    assert group_text(item) == "oss[001-156]: 6.12.5; oss157: 6.12.1"
    assert item.minority == 1
    assert seen.items[0] is item
    assert inventory_headline(seen) == (
        "157 machines, 1 difference: oss157: kernel/release 6.12.1 (others 6.12.5)."
    )


def test_of_two_halves_none_is_the_different_one() -> None:
    seen = inventory(oss(1), oss(2), oss(3, "6.12.1"), oss(4, "6.12.1"))
    assert "kernel/release: oss[003-004]: 6.12.1; oss[001-002]: 6.12.5" in inventory_headline(seen)


def test_servers_are_compared_with_those_of_their_role() -> None:
    seen = inventory(oss(1), oss(2), oss(3, "6.1", role="mds"))
    assert seen.differences == ()
    assert inventory_headline(seen) == "3 machines, no difference between machines of one role."


def test_what_a_machine_lacks_is_no_difference() -> None:
    assert inventory(oss(1), oss(2, module="x")).differences == ()


def test_few_before_many() -> None:
    readings = [oss(n, governor="a" if n < 4 else "b") for n in range(1, 9)]
    seen = inventory(*readings, oss(9, "6.12.1", governor="b"))
    assert [item.minority for item in seen.differences] == [1, 3]


def test_numbers_without_zeros_are_folded_in_their_order() -> None:
    readings = [replace(oss(n), server=f"oss{n}") for n in range(1, 13)]
    assert inventory(*readings).servers == {"oss": "oss[1-12]"}


names = st.sampled_from(["6.12.1", "6.12.5", "5.14"])
machines = st.lists(
    st.builds(oss, st.integers(1, 20), names, st.sampled_from(["oss", "mds"])),
    unique_by=lambda reading: reading.server,
    min_size=1,
)


@given(st.data(), machines)
def test_the_order_of_machines_is_irrelevant(
    data: st.DataObject, readings: list[ServerInventory]
) -> None:
    shuffled = data.draw(st.permutations(readings))
    assert inventory(*shuffled) == inventory(*readings)


@given(machines)
def test_every_machine_is_in_one_group_with_its_own_value(readings: list[ServerInventory]) -> None:
    values: dict[str, str] = {}
    for item in inventory(*readings).items:
        if item.name == KERNEL:
            for group in item.groups:
                assert len(unfold_nodes(group.servers)) == group.count
                values |= dict.fromkeys(unfold_nodes(group.servers), group.value)
    assert values == {reading.server: reading.values[KERNEL] for reading in readings}


@given(machines, machines)
def test_changes_are_those_of_machines_in_both(
    first: list[ServerInventory], second: list[ServerInventory]
) -> None:
    changed = {
        (change.role, name): (change.before, change.after)
        for change in inventory_changes(inventory(*first), inventory(*second))
        for name in unfold_nodes(change.servers)
    }
    old = {(each.role, each.server): each.values[KERNEL] for each in first}
    new = {(each.role, each.server): each.values[KERNEL] for each in second}
    assert changed == {
        place: (old[place], new[place])
        for place in old.keys() & new.keys()
        if old[place] != new[place]
    }


def test_an_upgrade_of_all_is_one_change_everywhere() -> None:
    before = inventory(*(oss(n, "6.12.1") for n in range(1, 5)))
    after = inventory(*(oss(n) for n in range(1, 5)))
    (change,) = inventory_changes(before, after)
    assert change_text(change) == "kernel/release 6.12.1 -> 6.12.5"
    assert (change.servers, change.everywhere) == ("oss[001-004]", True)
    (part,) = inventory_changes(before, inventory(*(oss(n) for n in (1, 2)), oss(3, "6.12.1")))
    assert (part.servers, part.everywhere) == ("oss[001-002]", False)


def test_what_changed_while_a_machine_was_silent_is_noticed_when_it_answers() -> None:
    before = inventory(oss(1), oss(2))
    silent = ServerInventory("oss002", "oss", problem="no route to host")
    meanwhile = inventory(oss(1), silent, before=before)
    assert meanwhile.silent == {"oss002": "no route to host"}
    assert meanwhile.items == before.items
    (change,) = inventory_changes(meanwhile, inventory(oss(1), oss(2, "6.13")))
    assert change.servers == "oss002"


def link(device: str, lanes: int, kind: str = "drive", model: str = "A") -> DeviceLink:
    return DeviceLink(device, model, kind, f"x{lanes} at 16 GT/s", lanes * 1e9)


def linked(number: int, *links: DeviceLink) -> ServerInventory:
    return replace(oss(number), links=links)


def test_a_drive_at_half_its_lanes_and_a_card_at_half_width() -> None:
    readings = [
        linked(n, link("nvme0", 4), link("nvme1", 4), link("ens1", 16, "network", "ens1 (1:2)"))
        for n in range(1, 10)
    ]
    bad = linked(10, link("nvme0", 4), link("nvme1", 2), link("ens1", 8, "network", "ens1 (1:2)"))
    slow = list(slow_links([*readings, bad]))
    assert [(each.server, each.link.device, each.equals) for each in slow] == [
        ("oss010", "nvme1", 19),
        ("oss010", "ens1", 9),
    ]
    assert slow_link_text(slow[0]) == (
        "drive nvme1 (A): x2 at 16 GT/s; 19 others of its kind have x4 at 16 GT/s"
    )


@pytest.mark.parametrize("lanes", [(2, 2, 2), (2,), (2, 4, 2, 2)])
def test_slots_that_are_narrow_by_design_are_no_finding(lanes: tuple[int, ...]) -> None:
    """A faster one among slow ones is no fault, nor are links of which all are alike."""
    readings = [linked(n, link("nvme0", width)) for n, width in enumerate(lanes)]
    assert list(slow_links(readings)) == []


def test_models_are_not_compared_with_one_another() -> None:
    readings = [linked(1, link("a", 2, model="M.2")), linked(2, link("b", 4), link("c", 4))]
    assert list(slow_links(readings)) == []


def snapshot(*hosts: tuple[str, str]) -> Snapshot:
    seen = (
        HostSnapshot(name, "server", True, settings={
            "kernel_release": Setting("kernel_release", release, "/proc")})
        for name, release in hosts
    )  # fmt: skip
    return Snapshot(AT, "lustre", True, (), tuple(seen))


def test_troubles_of_a_site() -> None:
    odd = replace(oss(3, **{"drive/firmware of A": "F2"}), links=(link("nvme0", 2),))
    alike = [
        replace(oss(n, **{"drive/firmware of A": "F1"}), links=(link("nvme0", 4),)) for n in (1, 2)
    ]
    seen = snapshot(("oss001", "6.12.5"), ("oss002", "6.12.5"), ("oss003", "6.12.1"))
    state = site_state("s", seen, SiteLimits(), inventory=inventory(*alike, odd))
    found = {finding.id: finding for finding in state_findings(state)}
    assert found.keys() == {"slow-link", "mixed-firmware", "mixed-versions"}
    assert found["slow-link"].severity is Severity.WARNING
    assert found["slow-link"].target == "oss003"
    assert "oss[001-002]: F1; oss003: F2" in found["mixed-firmware"].title
    assert "kernel differs: oss[001-002]: 6.12.5; oss003: 6.12.1" in found["mixed-versions"].title
    assert {host.name for host in state.hosts} == {"all oss", "all servers", "oss003"}


def test_servers_that_are_alike_are_in_no_trouble() -> None:
    seen = snapshot(("oss001", "6.12.5"), ("oss002", "6.12.5"))
    state = site_state("s", seen, SiteLimits(), inventory=inventory(oss(1), oss(2)))
    assert state.hosts == ()
    assert inventory(oss(1)).at - AT == timedelta()
