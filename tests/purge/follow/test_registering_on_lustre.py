"""Changelog users registered and removed on a fake Lustre: planned, confirmed, read back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
from tests.act.lustre_site import LustreSite, lustre
from tests.fake_lustre import changelog_users
from tests.fake_lustre.changelog_users import DEFAULT_MASK
from tests.fake_lustre.state import Fault

from trimtab.cli import main
from trimtab.purge import registration
from trimtab.reach.lustre.changelog import Registrar

__all__ = ["lustre"]
pytestmark = pytest.mark.system

DEVICE = "lctl --device"
REGISTER = ("purge", "follow", "fake", "--register")
DEREGISTER = ("purge", "follow", "fake", "--deregister")


@pytest.fixture(autouse=True)
def _reached(lustre: LustreSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "fan_out", lustre.fan_out)


def users(lustre: LustreSite) -> list[list[str]]:
    return [[row[0] for row in mdt.changelog_users] for mdt in lustre.fake.mdts]


def outcomes(document: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [
        (action["instruction"]["target"], action["outcome"], action["found"])
        for action in document["actions"]
    ]


def untouched(document: dict[str, Any]) -> dict[str, str]:
    return {each["target"]: each["reason_code"] for each in document["plan"]["untouched"]}


def test_nothing_is_registered_unless_somebody_says_so(lustre: LustreSite) -> None:
    document = lustre.run(*REGISTER, code=4)
    (planned,) = document["plan"]["instructions"]
    server = lustre.fake.target("MDT0000").server
    assert (planned["target"], planned["server"]) == ("MDT0000", server)
    assert planned["value"] == "lctl --device scratch-MDT0000 changelog_register -u trimtab"
    assert any("hung an MDS" in danger for danger in document["dangers"])
    assert not document["applied"]
    assert (users(lustre), lustre.writes()) == ([[], []], [])


def test_the_first_mdt_comes_alone_and_the_rest_with_the_same_command(lustre: LustreSite) -> None:
    document = lustre.run(*REGISTER, "--yes")
    assert outcomes(document) == [("MDT0000", "done", "cl1-trimtab")]
    assert untouched(document) == {"MDT0001": "first-target-alone"}
    document = lustre.run(*REGISTER, "--yes")
    assert outcomes(document) == [("MDT0001", "done", "cl1-trimtab")]
    assert untouched(document) == {"MDT0000": "registered-already"}
    assert lustre.run(*REGISTER, "--yes")["plan"]["instructions"] == []
    assert users(lustre) == [["cl1-trimtab"], ["cl1-trimtab"]]
    journalled = [line["kind"] for line in lustre.lines() if line["do"] == "begin"]
    assert journalled == ["register", "register"]
    ledger = lustre.run("actions", "fake")["actions"]
    assert [row["instruction"]["kind"] for row in ledger] == ["register", "register"]
    back = lustre.run("revert", "fake", "--all")["plan"]
    assert back["instructions"] == []
    assert {each["reason_code"] for each in back["untouched"]} == {"not-revertible"}


def test_users_of_others_stay(lustre: LustreSite) -> None:
    target = lustre.fake.target("MDT0001")
    target.changelog_users = [("cl4", 2, 3), ("cl7-robinhood", 3, 3)]
    target.changelog_index = 9
    lustre.run(*REGISTER, "--yes", "--mdt", "MDT0001")
    assert users(lustre) == [[], ["cl4", "cl7-robinhood", "cl8-trimtab"]]
    document = lustre.run(*DEREGISTER, code=4)
    (planned,) = document["plan"]["instructions"]
    assert planned["value"] == "lctl --device scratch-MDT0001 changelog_deregister -u trimtab"
    assert "index" in document["dangers"][0]
    document = lustre.run(*DEREGISTER, "--yes")
    assert outcomes(document) == [("MDT0001", "done", "")]
    assert untouched(document) == {"MDT0000": "not-in-force"}
    assert users(lustre) == [[], ["cl4", "cl7-robinhood"]]


FULL = "error: changelog_register: No space left on device\n"


def _fault(kind: Any, **more: Any) -> Callable[[LustreSite], None]:
    return lambda lustre: lustre.fake.faults.append(Fault(kind, DEVICE, **more))


def _recover(lustre: LustreSite) -> None:
    lustre.fake.target("MDT0000").recovery = "RECOVERING"


def _kill(lustre: LustreSite) -> None:
    server = lustre.fake.target("MDT0000").server
    lustre.before_write.append(lambda: lustre.fake.kill_server(server))


def _move(lustre: LustreSite) -> None:
    lustre.before_write.append(lambda: lustre.fake.fail_over("MDT0000"))


def _no_rights(lustre: LustreSite) -> None:
    lustre.fake.server(lustre.fake.target("MDT0000").server).euid = 1000


def _narrow(lustre: LustreSite) -> None:
    changelog_users.DEFAULT_MASK = DEFAULT_MASK.replace("RENME ", "")


@pytest.mark.parametrize(
    ("happens", "outcome", "shows"),
    [
        (_fault("refuse", code=28, text=FULL), "refused", "No space left on device"),
        (_fault("swallow"), "not-stored", "no such user"),
        (_fault("hang", seconds=3600), "unknown", "timed out"),
        (_recover, "skipped", "in recovery"),
        (_kill, "unreachable", "No route to host"),
        (_move, "skipped", "not mounted here"),
        (_no_rights, "refused", "Permission denied"),
        (_narrow, "not-stored", "changelog_mask=+RENME"),
    ],
)
def test_what_goes_wrong_is_told_for_what_it_is(
    lustre: LustreSite,
    happens: Callable[[LustreSite], None],
    outcome: str,
    shows: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changelog_users, "DEFAULT_MASK", DEFAULT_MASK)
    happens(lustre)
    both = ("--mdt", "MDT0000", "--mdt", "MDT0001")
    document = lustre.run(*REGISTER, *both, "--yes", code=4)
    assert [action["outcome"] for action in document["actions"]] == [outcome]
    assert shows in document["actions"][0]["detail"]
    assert users(lustre)[1] == [], "nothing is begun behind one that failed"


class Killed(BaseException):
    """The process is gone."""


def test_a_registration_whose_process_was_killed_is_looked_at(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Registrar.change

    def killed(*arguments: Any, **options: Any) -> None:
        change(*arguments, **options)
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(Registrar, "change", killed)
        with pytest.raises(Killed):
            lustre.run(*REGISTER, "--yes")
    document = lustre.run(*REGISTER, "--yes")
    (settled,) = document["settled"]
    assert (settled["outcome"], settled["found"]) == ("done", "cl1-trimtab")
    assert outcomes(document) == [("MDT0001", "done", "cl1-trimtab")]


def test_somebody_who_registers_meanwhile_is_seen(lustre: LustreSite) -> None:
    target = lustre.fake.target("MDT0000")
    lustre.before_write.append(lambda: target.changelog_users.append(("cl1-trimtab", 0, 0)))
    document = lustre.run(*REGISTER, "--yes")
    assert outcomes(document) == [("MDT0000", "done", "cl1-trimtab")]
    assert users(lustre)[0] == ["cl1-trimtab"], "the user that is there is used"
    lustre.before_write.append(lambda: target.changelog_users.__setitem__(0, ("cl5-trimtab", 0, 0)))
    document = lustre.run(*DEREGISTER, "--yes", code=4)
    assert outcomes(document) == [("MDT0000", "changed", None)]
    assert users(lustre)[0] == ["cl5-trimtab"]


def test_a_user_that_this_store_did_not_register_stays(lustre: LustreSite) -> None:
    """Its name may be that of another Trimtab's, which follows with it."""
    target = lustre.fake.target("MDT0000")
    target.changelog_users, target.changelog_mask = [("cl3-trimtab", 0, 0)], DEFAULT_MASK
    assert untouched(lustre.run(*REGISTER, "--yes"))["MDT0000"] == "registered-already"
    document = lustre.run(*DEREGISTER, "--yes")
    assert untouched(document)["MDT0000"] == "changelog-user-foreign"
    (reason,) = (row["reason"] for row in document["plan"]["untouched"] if "cl3" in row["reason"])
    assert reason.endswith("lctl --device scratch-MDT0000 changelog_deregister -u trimtab")
    assert users(lustre)[0] == ["cl3-trimtab"]


def test_a_user_with_a_mask_that_is_too_small_is_told(lustre: LustreSite) -> None:
    target = lustre.fake.target("MDT0000")
    target.changelog_users, target.changelog_mask = [("cl1-trimtab", 0, 0)], "MARK CREAT "
    document = lustre.run(*REGISTER, "--yes")
    assert untouched(document)["MDT0000"] == "changelog-mask-short"


def test_a_server_that_is_silent_is_told(lustre: LustreSite) -> None:
    lustre.fake.kill_server("mds2")
    document = lustre.run(*REGISTER, "--yes")
    assert outcomes(document) == [("MDT0000", "done", "cl1-trimtab")]
    assert untouched(document)["mds2"] == "server-silent"
    lustre.run(*REGISTER, "--mdt", "MDT0007", "--mdt", "MDT0001")
    lustre.fake.kill_server("mds1")
    lustre.run(*REGISTER, code=3)


def test_what_excludes_one_another_is_refused(lustre: LustreSite) -> None:
    for words in (
        (*REGISTER, "--deregister"),
        (*REGISTER, "--once"),
        ("purge", "follow", "fake", "--index", "/index", "--once", "--rescan"),
        (*REGISTER, "--index", "/index"),
        ("purge", "follow", "fake", "--yes", "--index", "/index"),
        ("purge", "follow", "fake"),
        (*REGISTER, "--mdt", "MDT0009"),
    ):
        lustre.run(*words, code=2)


def test_a_person_sees_command_and_danger_before_anything_is_done(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter((False, True))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: next(answers))
    store = str(lustre.directory / "t.db")
    for code, registered in ((4, []), (0, ["cl1-trimtab"])):
        lustre.captured.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*REGISTER, "--store", store])
        assert ended.value.code == code
        shown = " ".join(lustre.captured.readouterr().out.split())
        assert "lctl --device scratch-MDT0000 changelog_register -u trimtab" in shown
        assert "hung an MDS for good" in shown
        assert users(lustre)[0] == registered
