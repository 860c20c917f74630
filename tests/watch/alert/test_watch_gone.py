"""The alert of a watch that is gone: found by another process, sent once, closed by the next."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.watched import HOURLY, MONDAY, Ended, Moving, a_log, a_site, a_watch
from tests.watch.alert.test_alerting import DOWN, Chat

from trimtab.base.alert import Phase
from trimtab.base.site import Site
from trimtab.store.store import Store
from trimtab.watch.alert.alerting import Alerting
from trimtab.watch.watch_state import overdue

pytestmark = pytest.mark.system
HOUR = timedelta(hours=1)
SITE = a_site(HOURLY, snapshots="every 6h")


def alerting_of(site: Site, store: Store, clock: Moving, chat: Chat) -> Alerting:
    return Alerting(site, store, log=a_log()[0], clock=clock, receivers=(chat,), threads=False)


def watch_until(store: Store, clock: Moving, hour: float, chat: Chat) -> None:
    """Watch, and be killed at that hour: the lease stays."""
    observers = (alerting_of(SITE, store, clock, chat),)
    watch = a_watch(SITE, store, clock, until=MONDAY + hour * HOUR, observers=observers)
    with pytest.raises(Ended):
        watch.run()


def test_a_slot_is_overdue_only_where_no_process_watches(tmp_path: Path) -> None:
    clock = Moving()
    with Store.open(tmp_path / "t.db") as store:
        watch_until(store, clock, 2.1, Chat())
        assert overdue(SITE, store, MONDAY + 2.5 * HOUR) == {}  # its lease has not lapsed
        assert overdue(SITE, store, MONDAY + 3.5 * HOUR) == {}  # the slot may still be begun
        late = overdue(SITE, store, MONDAY + 3.6 * HOUR)
        assert late == {"probe:hourly": MONDAY + 3 * HOUR}
        late = overdue(SITE, store, MONDAY + 7 * HOUR)
        assert late == {"probe:hourly": MONDAY + 3 * HOUR, "snapshot": MONDAY + 6 * HOUR}
        store.renew_lease("scratch", "here:1:1", MONDAY + 9 * HOUR)  # a probe may take hours
        assert overdue(SITE, store, MONDAY + 7 * HOUR) == {}
        clock.at = MONDAY + 7 * HOUR
        watch_until(store, clock, 7.6, Chat())
        assert overdue(SITE, store, clock.at) == {}


def test_it_is_sent_once_though_the_receiver_was_down_and_closed_by_the_next_watch(
    tmp_path: Path,
) -> None:
    clock, chat = Moving(MONDAY + 5 * HOUR), Chat()
    with Store.open(tmp_path / "t.db") as store:
        chat.problem = DOWN
        alerting_of(SITE, store, clock, chat).watch_gone("probe hourly", MONDAY + 3 * HOUR)
        chat.problem = None
        for _ in range(3):  # another process each time, as cron starts them
            clock.at += HOUR / 4
            alerting_of(SITE, store, clock, chat).watch_gone("probe hourly", MONDAY + 3 * HOUR)
        watch_until(store, clock, 7.1, chat)
        clock.at += HOUR
        alerting_of(SITE, store, clock, chat).watch_gone("probe hourly", MONDAY + 8 * HOUR)
    sent = [alert for parcel in chat.parcels for alert in parcel.alerts]
    assert [(alert.name, alert.phase) for alert in sent] == [
        ("watch-gone", Phase.OPENED),
        ("watch-gone", Phase.CLOSED),
        ("watch-gone", Phase.OPENED),
    ]
    assert len({alert.id for alert in sent}) == 3
    assert sent[0].since == MONDAY + 3 * HOUR
