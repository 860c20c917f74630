"""Verdicts that are kept are compared with what judging from nothing gives, or made again."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from tests.probe.verdict import test_keeping
from tests.support.command import trimtab
from tests.support.documents import misfits
from tests.support.small_site import SITE

from trimtab.store.store import Store

pytestmark = pytest.mark.cli


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(test_keeping, "HOURS", 24 * 45)  # long enough that verdicts are kept
    return test_keeping.small_site(tmp_path / "t.db")


@pytest.mark.parametrize("command", ["judge", "incidents"])
def test_afresh_gives_the_same_and_says_so(store, command):
    first = trimtab(command, SITE, "--json", store=store).document
    ended = trimtab(command, SITE, "--json", "--afresh", store=store)
    again = ended.document
    if command == "incidents":
        assert again.pop("judged_at") > first.pop("judged_at")
    assert again == first
    assert "kept values compared, all equal" in ended.stderr


def test_where_nothing_is_kept_there_is_nothing_to_compare(store):
    ended = trimtab("judge", SITE, "--afresh", store=store)
    assert "no kept value is still valid" in ended.stderr


def test_what_is_kept_otherwise_is_said_to_be_a_defect(store):
    first = trimtab("judge", SITE, "--json", store=store)
    with Store.open(store) as kept:
        tails = kept.derived(SITE, "tails")["tails"]
        none = zlib.compress(b"[]")
        kept.keep_derived(SITE, {"tails": replace(tails, document=none)})
    assert trimtab("judge", SITE, "--json", store=store).document != first.document
    ended = trimtab("judge", SITE, "--json", "--afresh", store=store)
    assert ended.document == first.document
    assert "1 of " in ended.stderr
    assert "differ (tails). That is a defect of Trimtab" in ended.stderr


def test_a_table_has_nothing_kept(store):
    ended = trimtab("judge", "--csv", "no.csv", "--afresh", store="none.db")
    assert ended.code == 2
    assert "--afresh" in ended.stderr


@pytest.mark.parametrize("arguments", [(), (SITE,)])
def test_a_store_is_judged_from_nothing(store, arguments):
    commands = (("incidents", SITE), ("judge", SITE), ("status",))
    first = [trimtab(*command, "--json", store=store).document for command in commands]
    ended = trimtab("store", "rebuild", *arguments, "--json", store=store)
    assert ended.code == 0
    assert misfits(ended.document, "store-rebuild") == []
    (site,) = ended.document["sites"]
    assert site["site"] == SITE
    assert site["dropped"] > 5
    assert (site["series"], site["reason"]) == (len(first[2]["series"]), None)
    assert site["incidents"] == len(first[0]["incidents"]) > 0
    again = [trimtab(*command, "--json", store=store).document for command in commands]
    for documents in (first, again):
        del documents[0]["judged_at"], documents[2]["judged"]
    assert again == first


def test_no_run_that_can_be_judged_is_no_error(tmp_path):
    path = tmp_path / "t.db"
    with Store.open(path) as store:
        store.ensure_site(SITE, driver="local", identity="local:x", path="/x")
    ended = trimtab("store", "rebuild", store=path)
    assert ended.code == 0
    assert "0 series" in ended.stdout
