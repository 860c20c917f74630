"""What pages are made of is worked out in a process beside the server, and kept in the store."""

import numpy as np
import pytest
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.errors import UsageError
from trimtab.judge import variability
from trimtab.loop import site_judgement
from trimtab.loop.event_log import Place, add_event
from trimtab.record.store import Store
from trimtab.web.desk import Desk, prepare
from trimtab.web.remembering import LONG

pytestmark = pytest.mark.cli


@pytest.fixture
def store(tmp_path):
    values = np.random.default_rng(3).normal(1e9, 2e7, 1100)  # of fewer runs nothing is kept
    site = SmallSite({"write_bandwidth": values, "read_bandwidth": values * 1.5})
    with Store.open(site.keep(tmp_path / "t.db")) as opened:
        yield opened


def test_the_server_judges_nothing_itself_and_shows_the_same(store, monkeypatch):
    expected = Desk(store)
    whole = {name: getattr(expected, name)(SITE) for name in LONG}
    store.drop_derived()
    prepared = []

    def elsewhere(site):
        prepare(store.location.url, None, site)
        prepared.append(site)

    monkeypatch.setattr(site_judgement, "judge_series", lambda *a, **k: 1 / 0)
    monkeypatch.setattr(variability, "judge_history", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Desk(store).judged(SITE)
    waiting: list = []
    ticks = iter(range(10**6))
    desk = Desk(store, elapsed_s=ticks.__next__, beside=waiting.append, elsewhere=elsewhere)
    judged = desk.judged(SITE)
    assert judged is not None
    assert judged.judgement == whole["judged"].judgement
    for name in ("status", "standing", "targets", "panels"):
        assert getattr(desk, name)(SITE) == whole[name]
    assert prepared == [SITE]  # once for all
    add_event(store, Place(SITE, None), kind="note", detail="something", now=hour(1200))
    assert desk.judged(SITE) is judged
    waiting.pop()()
    again = desk.judged(SITE)
    assert again is not None
    assert again is not judged
    assert again.judgement == judged.judgement
    assert prepared == [SITE, SITE]
    assert not waiting  # the state that was worked out is the one that is there


def test_what_it_ends_with_reaches_who_asked(store):
    with pytest.raises(UsageError) as caught:
        prepare(store.location.url, None, "nowhere")
    assert caught.value.code == "site-unknown"
