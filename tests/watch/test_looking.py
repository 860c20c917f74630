"""Looks for incidents in a process of their own: the same answer, from what was known before."""

from __future__ import annotations

import pytest
from tests.support.small_site import SITE, hour
from tests.web.conftest import keep_small_site

from trimtab.base.error import UsageError
from trimtab.site.place import Place
from trimtab.store.store import Store
from trimtab.watch.incident_watch import look, look_elsewhere

pytestmark = pytest.mark.cli
PLACE = Place(SITE, None)


def test_another_process_finds_and_keeps_the_same(tmp_path):
    answers = []
    for number, looks in enumerate((look, look_elsewhere)):
        with Store.open(keep_small_site(tmp_path / f"{number}.db")) as store:
            first = looks(store, PLACE, hour(200))
            kept = store.incidents(SITE)
            later = looks(store, PLACE, hour(201))
            answers.append((first.explanations, later.explanations, kept))
    assert answers[0] == answers[1]
    assert answers[0][0]


def test_what_it_ends_with_is_said(tmp_path):
    with Store.open(tmp_path / "empty.db") as store, pytest.raises(UsageError):
        look_elsewhere(store, PLACE, hour(1), incidents=False)


def test_a_site_without_runs_has_no_incidents(tmp_path):
    with Store.open(tmp_path / "empty.db") as store:
        assert look_elsewhere(store, PLACE, hour(1)).explanations == ()
