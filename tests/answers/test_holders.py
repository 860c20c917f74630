"""Who holds the space: growth since a month ago, who fills the fullest OST, whose grace ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.reach.lustre.test_quota_account import ACCOUNTS, DEVICES, server
from tests.support.codes import raises
from tests.support.documents import misfits
from tests.support.memory_driver import MemoryDriver, MemoryTarget

from trimtab.answers import holders as answers
from trimtab.answers.holders import holders_of
from trimtab.answers.page_holders import holders_document
from trimtab.base.encode import to_json
from trimtab.base.error import ToolError
from trimtab.base.holder import HolderKind, Holders, Holding, QuotaLimit, TargetHolders
from trimtab.base.site import Servers, Site
from trimtab.reach.lustre.quota_account import QuotaTally
from trimtab.reach.lustre.server_query import ask_holders
from trimtab.reach.process import ProcessResult
from trimtab.store.kept import results_of
from trimtab.store.store import Store

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TIB = 2**40
SITE = Site("scratch", "lustre", "/scratch")
USER = HolderKind.USER


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "user_name", {7: "ada\x1b[2J"}.get)
    monkeypatch.setattr(answers, "group_name", {}.get)


class Accounts(MemoryDriver):
    """A driver whose users hold what a test says."""

    def __init__(self, *holdings: Holding, problems: tuple[str, ...] = ()) -> None:
        super().__init__(
            MemoryTarget("OST0000", used_bytes=int(0.93 * TIB)), MemoryTarget("OST0001")
        )
        largest = tuple((each.id, each.bytes) for each in holdings)
        targets = (TargetHolders("OST0000", USER, int(0.9 * TIB), largest),)
        whole = not problems
        self.read = Holders(NOW, "accounts", holdings, targets, problems=problems, whole=whole)

    def holders(self) -> Any:
        return self.read

    def at(self, at: datetime) -> Accounts:
        self.read = replace(self.read, at=at)
        return self


def user(id_: int, tib: float, **more: Any) -> Holding:
    return Holding(USER, id_, int(tib * TIB), 10, **more)


def test_growth_since_a_month_ago(store: Store) -> None:
    for days in (75, 31, 5):
        tib = 100.0 - days
        holders_of(SITE, Accounts(user(7, tib), user(8, 1.0)).at(NOW - days * DAY).holders(), store)
    made = holders_of(SITE, Accounts(user(7, 100.0), user(9, 2.0)).holders(), store)
    assert made.before == NOW - 31 * DAY
    ada, new = made.holders.holdings
    assert ada.before_bytes == 69 * TIB
    assert new.before_bytes is None
    text = str(holders_document(made))
    assert "31.0 TiB" in text
    assert misfits(json.loads(to_json(made)), "holders") == []


def test_a_gap_of_months_is_no_result_of_last_month(store: Store) -> None:
    holders_of(SITE, Accounts(user(7, 1.0)).at(NOW - 60 * DAY).holders(), store)
    made = holders_of(SITE, Accounts(user(7, 2.0)).holders(), store)
    assert made.before is None
    assert made.holders.holdings[0].before_bytes is None
    assert "no result of a month ago is kept" in str(holders_document(made).subtitle)


def test_it_is_kept_once_a_week_without_names(store: Store) -> None:
    for days in range(16):
        made = holders_of(SITE, Accounts(user(7, 1.0)).at(NOW + days * DAY).holders(), store)
    assert made.holders.holdings[0].name == r"ada\x1b[2J"
    held = results_of(store, "scratch", Holders).held
    assert [(each.at - NOW) // DAY for each in held] == [14, 7, 0]
    assert {each.value.holdings[0].name for each in held} == {""}
    store.prune("scratch", NOW + 30 * DAY, now=NOW + 30 * DAY)
    assert [each.at for each in results_of(store, "scratch", Holders).held] == [held[0].at]


def test_what_is_not_whole_is_shown_and_not_kept(store: Store) -> None:
    made = holders_of(SITE, Accounts(user(7, 1.0), problems=("oss2 is silent",)).holders(), store)
    assert results_of(store, "scratch", Holders).held == ()
    document = holders_document(made)
    assert "(sums are too small)" in document.answer
    assert "oss2 is silent" in str(document)


def test_nobody_is_an_error_with_the_reason(store: Store) -> None:
    with raises(ToolError, "no-holders", "accounting is off"):
        holders_of(SITE, Accounts(problems=("accounting is off",)).holders(), store)
    with raises(ToolError, "holders-not-available"):
        holders_of(SITE, MemoryDriver().holders(), store)


def test_the_first_line(store: Store) -> None:
    soft = QuotaLimit(soft=TIB // 4, grace_until=NOW + 2 * DAY)
    driver = Accounts(user(7, 0.6, of_bytes=soft), user(8, 0.1, of_bytes=QuotaLimit(soft=TIB)))
    store.ensure_site("scratch", driver="lustre", path="/scratch")
    store.add_snapshot("scratch", driver.snapshot(NOW))
    document = holders_document(holders_of(SITE, driver.holders(), store))
    assert document.answer == (
        r"OST0000 is 93 % full: user ada\x1b[2J has 614 GiB of its 922 GiB; 1 holder over a soft "
        "limit, the first grace ends in 2.0 d."
    )
    assert document.tone == "warning"
    ended = QuotaLimit(soft=TIB // 4, grace_until=NOW - DAY)
    late = holders_document(
        holders_of(SITE, Accounts(user(7, 0.6, of_bytes=ended)).holders(), store)
    )
    assert "the first grace has ended" in late.answer
    one = Accounts(user(9, 2.0)).holders()
    alone = holders_document(holders_of(replace(SITE, name="other"), one, store))
    assert alone.answer == "user 9 has most: 2.00 TiB; nobody is over a soft limit."


def test_servers_are_asked_once_each_and_some_at_a_time() -> None:
    names = tuple(f"oss{number:02}" for number in range(40))
    calls: list[tuple[str, ...]] = []

    def fan_out(nodes: Any, _argv: Any, **_options: Any) -> dict[str, ProcessResult]:
        calls.append(tuple(nodes))
        results = {}
        for name in nodes:
            target = f"OST{int(name[3:]):04x}"
            printed = ACCOUNTS.replace("OST0003", target) + "version=2.17.57\n"
            devices = DEVICES.splitlines()[1].replace("OST0003", target) + "\n"
            results[name] = result_of(server(printed, devices, name))
        return results

    tally = QuotaTally("scratch", {"flash": {5, 6}})
    found = ask_holders(Servers(oss=names), tally, fan_out=fan_out, at=NOW)
    assert [len(call) for call in calls] == [16, 16, 8]
    assert [name for call in calls for name in call] == list(names)
    of = {each.target: each for each in found.targets if each.kind is USER}
    assert len(of) == 41
    assert of["pool flash"].accounted_bytes == 2 * of["OST0005"].accounted_bytes
    assert of["pool flash"].largest[1] == (65534, 2 * 8192 * 1024)


def result_of(view: Any) -> ProcessResult:
    """Return an answer as ssh would have brought it."""
    answer = view.answer
    whole = {
        "format": 1, "host": answer.node, "euid": 0, "started": 1.0, "elapsed_s": 0.1, "files": {},
        "links": {}, "directories": {}, "times": {}, "skipped": [], "end": True,
        "commands": [
            {name: getattr(command, name) for name in command.__slots__}
            for command in answer.commands
        ],
    }  # fmt: skip
    return ProcessResult(("ssh",), json.dumps(whole).encode() + b"\n", b"", 0, None, NOW, 1.0, 20.0)
