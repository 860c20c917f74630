"""The watch takes the inventory of a site with servers once a day, and outlives its errors."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.support.watched import Ended, Moving, a_log, a_site, a_watch

from trimtab.base.error import ToolError
from trimtab.base.inventory import Inventory, InventoryLook
from trimtab.base.site import Servers, Site
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.store.kept import results_of
from trimtab.store.store import Store
from trimtab.watch.upkeep import DailyInventory

HOUR = timedelta(hours=1)


class Asked:
    """A driver of the stand-in that counts how often it was asked for an inventory."""

    def __init__(self, fake: FakeLustre, clock: Any) -> None:
        names = tuple(server.name for server in fake.servers)
        self._driver = LustreDriver(
            fake.mount, fake.file_system, Servers(oss=names),
            execute=fake.execute, fan_out=fake.fan_out, clock=clock,
        )  # fmt: skip
        self.at: list[datetime] = []
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def inventory(self) -> Any:
        self.at.append(self._driver.clock())
        if self.error is not None:
            raise self.error
        return self._driver.inventory()


def lustre_site() -> Site:
    return replace(a_site(snapshots="every 1h"), driver="lustre")


def watched(store: Store, clock: Moving, driver: Asked, hours: int, site: Site) -> Any:
    """Watch for some hours; return the log."""
    log, lines = a_log()
    watch = a_watch(site, store, clock, until=clock.at + hours * HOUR, driver=driver, log=log)
    with pytest.raises(Ended):
        watch.run()
    return lines


def test_once_a_day_whoever_took_the_last(store: Store) -> None:
    clock = Moving()
    driver, site = Asked(FakeLustre.pair(), clock), lustre_site()
    start = clock.at
    watched(store, clock, driver, 30, site)
    assert [round((at - start) / HOUR) for at in driver.at] == [0, 24]
    # Another process begins 6 hours after that.
    watched(store, clock, driver, 17, site)
    assert len(driver.at) == 2
    watched(store, clock, driver, 3, site)
    assert [round((at - start) / HOUR) for at in driver.at] == [0, 24, 48]
    assert len(results_of(store, site.name, Inventory).held) == 1
    assert len(results_of(store, site.name, InventoryLook).held) == 3


@pytest.mark.parametrize("error", [ToolError("no ssh", code="no-answer"), RuntimeError("a bug")])
def test_an_error_ends_no_watch_and_is_tried_again_in_a_day(store: Store, error: Exception) -> None:
    clock = Moving()
    driver, site = Asked(FakeLustre.pair(), clock), lustre_site()
    driver.error = error
    lines = watched(store, clock, driver, 26, site)
    assert len(driver.at) == 2
    assert "no inventory" in lines.text()
    assert results_of(store, site.name, Inventory).held == ()


def test_a_site_without_servers_is_not_asked(store: Store) -> None:
    clock = Moving()
    driver = Asked(FakeLustre.pair(), clock)
    daily = DailyInventory(a_site(), store, driver, a_log()[0])  # type: ignore[arg-type]
    daily.take(clock.at)
    assert driver.at == []
