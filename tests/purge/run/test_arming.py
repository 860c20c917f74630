"""Who armed a plan: on record, bound to the plan, and nobody twice two people."""

import json
import os

import pytest

from trimtab.base.error import RefusedError
from trimtab.purge.plan.arming import ARMED_SUFFIX, arm, person_now, read_arming
from trimtab.purge.run.situation import ArmingFacts

OWNER = os.geteuid()
HASH = "ab" * 32


def armed_by(directory, person, at_s=100.0):
    return arm(directory, "plan-1", HASH, at_s=at_s, person=person, owner=OWNER)


def read_back(directory, plan="plan-1", sha256=HASH):
    return read_arming(directory, plan, sha256, owner=OWNER)


def test_a_plan_that_nobody_armed_is_armed_by_nobody(tmp_path):
    assert read_back(tmp_path) == ArmingFacts(None, ())


def test_all_who_armed_it_are_on_record(tmp_path):
    first = armed_by(tmp_path, 0)
    second = armed_by(tmp_path, None, 200.0)
    third = armed_by(tmp_path, 4_000_000_000, 300.0)
    assert read_back(tmp_path) == ArmingFacts(None, (first, second, third))
    assert first.name == "root"
    assert (second.name, third.name) == ("", "")
    assert (tmp_path / f"plan-1{ARMED_SUFFIX}").stat().st_mode & 0o777 == 0o600


def test_the_arming_of_another_plan_is_none(tmp_path):
    armed_by(tmp_path, 0)
    assert "another plan" in (read_back(tmp_path, sha256="cd" * 32).trouble or "")
    (tmp_path / f"plan-1{ARMED_SUFFIX}").rename(tmp_path / f"plan-2{ARMED_SUFFIX}")
    assert "another plan" in (read_back(tmp_path, plan="plan-2").trouble or "")


LINE = {"plan": "plan-1", "sha256": HASH, "at_s": 1.0, "person": 5, "name": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        json.dumps({**LINE, "person": "5"}),
        json.dumps({**LINE, "person": True}),
        json.dumps({**LINE, "at_s": "soon"}),
        json.dumps({key: value for key, value in LINE.items() if key != "plan"}),
    ],
)
def test_rubbish_arms_nothing(tmp_path, text):
    path = tmp_path / f"plan-1{ARMED_SUFFIX}"
    path.write_text(text + "\n")
    path.chmod(0o600)
    result = read_back(tmp_path)
    assert result.trouble is not None
    assert not result.armed_by


def test_a_file_that_others_can_write_arms_nothing(tmp_path):
    armed_by(tmp_path, 0)
    (tmp_path / f"plan-1{ARMED_SUFFIX}").chmod(0o606)
    assert "open to others" in (read_back(tmp_path).trouble or "")
    tmp_path.chmod(0o777)
    with pytest.raises(RefusedError):
        armed_by(tmp_path, 0)


def test_a_person_is_the_login_or_who_called_sudo(tmp_path, monkeypatch):
    login = tmp_path / "loginuid"
    login.write_text("1001")
    monkeypatch.setenv("SUDO_UID", "1002")
    assert person_now(login) == 1001
    login.write_text("4294967295")
    assert person_now(login) == 1002
    for wrong in ("", "-1", "x", "4294967295", "٣"):
        monkeypatch.setenv("SUDO_UID", wrong)
        assert person_now(login) is None
    monkeypatch.delenv("SUDO_UID")
    assert person_now(tmp_path / "none") is None
