"""An inventory is kept when something changed, and each change is an event."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.support.codes import raises
from tests.support.documents import misfits
from tests.support.memory_driver import MemoryDriver

from trimtab.base.encode import to_json
from trimtab.base.error import ToolError, UsageError
from trimtab.base.event import EventKind
from trimtab.base.inventory import Inventory, InventoryLook
from trimtab.base.site import Servers, Site
from trimtab.probe.inventory import compared, inventory_at, take
from trimtab.probe.page_inventory import inventory_document
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.store.kept import results_of
from trimtab.store.store import Store

DAY = timedelta(days=1)


class Place:
    """A site on the stand-in for Lustre, with its clock and the calls to its servers."""

    def __init__(self, fake: FakeLustre, store: Store) -> None:
        self.fake, self.store = fake, store
        self.now = datetime(2026, 11, 1, 12, tzinfo=UTC)
        self.calls: list[tuple[str, ...]] = []
        names = tuple(server.name for server in fake.servers)
        servers = Servers(
            oss=tuple(name for name in names if not name.startswith("mds")),
            mds=tuple(name for name in names if name.startswith("mds")),
        )
        self.site = replace(SITE, servers=servers, path=fake.mount)
        self.driver = LustreDriver(
            fake.mount, fake.file_system, servers,
            execute=fake.execute, fan_out=self._fan_out, clock=lambda: self.now,
        )  # fmt: skip

    def _fan_out(self, nodes: Any, argv: Any, **options: Any) -> Any:
        self.calls.append(tuple(nodes))
        return self.fake.fan_out(nodes, argv, **options)

    def take(self, after: timedelta = DAY) -> Any:
        """Return the inventory of a later time."""
        self.now += after
        return take(self.site, self.driver, self.store)

    @property
    def events(self) -> Any:
        return self.store.events(site=self.site.name)

    def release(self, *names: str, release: str = "6.13.0") -> None:
        """Give servers another kernel."""
        for name in names:
            files = self.fake.server(name).files
            files["/proc/sys/kernel/osrelease"] = f"{release}\n"


SITE = Site("scratch", "lustre", "/scratch")


@pytest.fixture
def place(store: Store) -> Place:
    return Place(FakeLustre.pair(), store)


def test_157_servers_in_one_round_trip_each(store: Store) -> None:
    large = Place(FakeLustre.perlmutter(), store)
    odd = large.fake.servers[-1].name
    large.release(odd)
    taken = large.take().inventory
    assert len(large.calls) == 1
    assert len(large.calls[0]) == len(set(large.calls[0])) == 157
    assert taken.count == 157
    (item,) = taken.differences
    assert [(group.value, group.count) for group in item.groups][1:] == [("6.13.0", 1)]
    assert item.groups[1].servers == odd
    size = len(str(store.results("scratch", Inventory.KEPT_AS)[0].document))
    assert size < 60_000


def test_the_document_fits_its_schema(place: Place) -> None:
    place.take()
    place.release("oss2")
    assert misfits(json.loads(to_json(place.take())), "inventory") == []


def test_what_did_not_change_is_kept_once_and_writes_no_event(place: Place) -> None:
    first = place.take()
    for _ in range(3):
        assert place.take().changes == ()
    assert len(results_of(place.store, "scratch", Inventory).held) == 1
    assert place.events == ()
    assert inventory_at(place.store, "scratch") == first.inventory


def test_a_change_is_an_event_between_the_two_looks(place: Place) -> None:
    place.take()
    place.take()
    looked = place.now
    place.release("oss2")
    taken = place.take()
    (event,) = place.events
    assert (event.kind, event.source) == (EventKind.CONFIG_CHANGE, "inventory")
    assert (event.at, event.until) == (looked, place.now)
    assert event.targets == ("OST0002", "OST0003")
    was = place.fake.kernel
    assert event.detail == f"kernel/release {was} -> 6.13.0 on the servers oss2"
    assert [change.servers for change in taken.changes] == ["oss2"]
    assert len(results_of(place.store, "scratch", Inventory).held) == 2


def test_an_upgrade_of_all_is_one_event_of_the_whole_site(place: Place) -> None:
    place.take()
    place.release("oss1", "oss2", "oss3", "oss4")
    place.fake.lustre_version = "2.18.0"
    place.take()
    by_servers = {event.detail.rpartition(" ")[2]: event for event in place.events}
    assert by_servers.keys() == {"oss[1-4]", "mds[1-2]"}
    # What all OSSs have changed concerns everything; the MDSs have their MDTs.
    assert by_servers["mds[1-2]"].targets == ("MDT0000", "MDT0001")
    event = by_servers["oss[1-4]"]
    assert event.targets == ()
    assert event.detail.startswith("kernel/release")
    assert "lustre/version 2.17.57 -> 2.18.0" in event.detail


def test_many_changes_are_one_event_that_counts_the_rest(place: Place) -> None:
    directory = "/sys/module/lnet/parameters"
    files = place.fake.server("oss1").files
    files |= {f"{directory}/p{number:03}": "0\n" for number in range(100)}
    place.take()
    files |= {f"{directory}/p{number:03}": "1\n" for number in range(100)}
    place.release("oss1")
    place.take()
    (event,) = place.events
    assert len(event.detail) < 1200
    assert event.detail.startswith("kernel/release")
    assert " more on the servers oss1" in event.detail


def test_a_silent_server_is_named_and_changes_nothing(place: Place) -> None:
    place.take()
    place.fake.kill_server("oss3")
    taken = place.take()
    assert taken.inventory.silent.keys() == {"oss3"}
    assert taken.changes == ()
    assert len(results_of(place.store, "scratch", Inventory).held) == 1
    text = str(inventory_document(taken))
    assert "oss3 did not answer; shown as last seen" in text


def test_nothing_is_kept_of_a_site_that_is_silent(place: Place) -> None:
    for server in place.fake.servers:
        place.fake.kill_server(server.name)
    with raises(ToolError, "no-answer"):
        place.take()
    assert results_of(place.store, "scratch", Inventory).held == ()


def test_a_site_without_servers_has_no_inventory(store: Store) -> None:
    with raises(ToolError, "inventory-not-available"):
        take(SITE, MemoryDriver(), store)


def test_an_interruption_before_it_was_kept_writes_no_event_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.take()
    place.release("oss2")

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("trimtab.probe.inventory.add_result", killed)
        with pytest.raises(KeyboardInterrupt):
            place.take()
    assert len(place.events) == 1
    place.take()
    assert len(place.events) == 1
    assert len(results_of(place.store, "scratch", Inventory).held) == 2


def test_two_dates_are_compared(place: Place) -> None:
    place.take()
    first = place.now
    place.release("oss2")
    place.take()
    second = place.now
    place.release("oss2", release="6.14.0")
    now = place.take().inventory
    store = place.store
    (change,) = compared(store, "scratch", now, first, None).changes
    assert (change.before, change.after) == (place.fake.kernel, "6.14.0")
    (change,) = compared(store, "scratch", None, first, second + DAY / 2).changes
    assert (change.before, change.after) == (place.fake.kernel, "6.13.0")
    assert compared(store, "scratch", None, None, second).changes == ()
    with raises(UsageError, "no-inventory"):
        compared(store, "scratch", now, first - DAY, None)


def test_a_slow_link_is_on_the_page(place: Place) -> None:
    drive = place.fake.target("OST0004").drives[0].name
    number = int(drive.removeprefix("nvme").split("n")[0])
    function = f"/sys/devices/pci0000:40/0000:40:01.{number % 8}/0000:{0x41 + number:02x}:00.0"
    place.fake.server("oss3").files[f"{function}/current_link_width"] = "2\n"
    taken = place.take()
    (slow,) = taken.inventory.slow_links
    assert (slow.server, slow.link.text) == ("oss3", "x2 at 16 GT/s")
    document = inventory_document(taken)
    assert document.tone == "warning"
    assert document.sections[0].lines[0].startswith("oss3: drive nvme")


def test_old_inventories_are_pruned_and_the_last_stays(place: Place) -> None:
    for release in ("6.13.0", "6.14.0", "6.15.0"):
        place.release("oss2", release=release)
        last = place.take().inventory
    looked = results_of(place.store, "scratch", InventoryLook).held
    assert len(looked) == 3
    place.store.prune("scratch", place.now - DAY / 2, now=place.now)
    assert [each.value for each in results_of(place.store, "scratch", Inventory).held] == [last]
    assert results_of(place.store, "scratch", InventoryLook).held == looked[:1]
    place.store.prune("scratch", place.now + DAY, now=place.now)
    assert inventory_at(place.store, "scratch") == last
    assert len(place.events) == 2
