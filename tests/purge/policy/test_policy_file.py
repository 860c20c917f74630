"""A policy file says exactly what it says, or is refused with the line and the key."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import instance

from trimtab.base.error import UsageError
from trimtab.base.toml_problem import ConfigError
from trimtab.base.toml_schema import value_at
from trimtab.purge.owner import number_of
from trimtab.purge.policy_file import load_policy, parse_policy
from trimtab.purge.purge_policy import (
    DAY_S,
    SCHEMA,
    WEEK_S,
    Arming,
    Exemption,
    Guards,
    Notices,
    Policy,
    RunCaps,
    Throttle,
)

LOGIN = 'user = "trimtab"\npassword = '
LEAST = '[policy]\nname = "scratch"\nroot = "/scratch"\ntarget = "70%"\n'


def directory(kind: str, name: str) -> int | None:
    """Return the number of one of three accounts."""
    return {("user", "alice"): 1001, ("user", "bob"): 1002, ("group", "staff"): 50}.get(
        (kind, name)
    )


def parsed(text: str) -> Policy:
    return parse_policy(text, "p.toml", directory).policy


def warnings(text: str) -> list[str]:
    return [warning.code for warning in parse_policy(text, "p.toml", directory).warnings]


def exempt(*lines: str) -> Exemption:
    (result,) = parsed("\n".join([LEAST, "[[exempt]]", *lines])).exemptions
    return result


def in_hex(path: bytes) -> str:
    return f'path_hex = "{path.hex()}"'


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_policy(text, "p.toml", directory)
    return caught.value


def test_the_least_file_has_every_default() -> None:
    assert parsed(LEAST) == Policy("scratch", "/scratch", target=0.7)


def test_every_default_is_careful() -> None:
    policy = Policy("scratch", "/scratch")
    assert (policy.minimum_age_s, policy.publish_factor) == (8 * WEEK_S, 2.0)
    assert policy.counted == ("atime", "mtime", "ctime")
    keep = {policy.open_files, policy.linked_files, policy.immutable_files, policy.moved_files}
    assert (keep, policy.keep_root_files) == ({"keep"}, True)
    assert policy.notice_s >= WEEK_S
    assert None not in (policy.caps.user_fraction, policy.caps.filesystem_fraction)


def test_a_whole_file() -> None:
    policy = parsed(
        """
[policy]
name = "nightly"
root = "/scratch"
target_ost = 0.75
[age]
counted = ["ctime", "mtime"]
minimum = "12w"
[keep]
minimum_size = "1MiB"
root_files = false
open_files = false
linked_files = true
[notice]
period = "21d"
valid = "7d"
publish_factor = 3
forecast = "28d"
mail_to = "{user}@example.org"
mail_from = "storage@example.org"
[caps]
files = "unlimited"
bytes = "100TiB"
user = "10%"
file_system = "unlimited"
[arming]
kind = "second-person"
[guards]
index_age = "48h"
[throttle]
latency = "20ms"
"""
    )
    assert policy == Policy(
        "nightly",
        "/scratch",
        target_ost=0.75,
        counted=("mtime", "ctime"),
        minimum_age_s=12 * WEEK_S,
        minimum_size_bytes=2**20,
        keep_root_files=False,
        open_files="delete",
        linked_files="keep",
        notice_s=21 * DAY_S,
        valid_s=7 * DAY_S,
        publish_factor=3,
        forecast_s=28 * DAY_S,
        caps=RunCaps(files=None, bytes=100 * 2**40, user_fraction=0.1, filesystem_fraction=None),
        arming=Arming("second-person"),
        guards=Guards(index_age_max_s=2 * DAY_S),
        throttle=Throttle(latency_s=0.02),
        notices=Notices(mail_to="{user}@example.org", mail_from="storage@example.org"),
    )


def test_exemptions_of_every_kind() -> None:
    assert exempt('path = "/scratch/shared//reference/"').value == b"shared/reference"
    assert exempt('path = "/scratch"').value == b""
    assert exempt(in_hex(b"/scratch/caf\xe9")).value == b"caf\xe9"
    assert exempt('user = "alice"', "until = 2027-01-31", 'reason = "leave"') == Exemption(
        "user", 1001, date(2027, 1, 31), "leave", "alice"
    )
    assert exempt("user = 4711").value == 4711
    assert exempt('group = "staff"').value == 50
    assert exempt("project = 12").value == 12
    assert exempt('until = "2027-01-31"', "user = 1").until == date(2027, 1, 31)
    assert exempt('user = "gone"', "id = 1234") == Exemption("user", 1234, name="gone")


@for_each(
    "lines, code",
    [
        (['path = "shared"'], "path-relative"),
        (['path = "/scratch/../home"'], "path-with-dots"),
        (['path = "/scratch/./a"'], "path-with-dots"),
        (['path = "/scratch/.."'], "path-with-dots"),
        (['path = "/scratchy/a"'], "path-outside-root"),
        (['path = "/home"'], "path-outside-root"),
        (['path = "/"'], "path-outside-root"),
        (['path = ""'], "text-empty"),
        (['path = "/scratch/a\\u0000b"'], "control-character"),
        (['path = "/scratch/a\\nb"'], "control-character"),
        (['path_hex = "/scratch"'], "malformed-value"),
        ([in_hex(b"/scratch/a\0")], "control-character"),
        ([in_hex(b"/scratch/../etc")], "path-with-dots"),
        (['user = "mallory"'], "account-unknown"),
        (['group = "alice"'], "account-unknown"),
        (['user = "1001"'], "account-ambiguous"),
        (['user = "-rf"'], "malformed-value"),
        (['user = "a b"'], "malformed-value"),
        (['user = "alice"', "id = 7"], "account-number"),
        (["user = -1"], "malformed-value"),
        (["user = 4294967295"], "malformed-value"),
        (["user = true"], "malformed-value"),
        (["project = 0"], "out-of-range"),
        (['project = "x"'], "wrong-type"),
        (["user = 1", "group = 2"], "exemption-ambiguous"),
        (['reason = "none"'], "exemption-ambiguous"),
        (['path = "/scratch/a"', "id = 1"], "exemption-id"),
        (["user = 1", "until = 2027-13-01"], "not-toml"),
        (["user = 1", "until = 2027-01-01T00:00:00"], "wrong-type"),
        (["user = 1", 'until = "soon"'], "wrong-type"),
        (["user = 1", "untill = 2027-01-01"], "unknown-key"),
    ],
)
def test_an_exemption_that_would_not_hold_is_refused(lines: list[str], code: str) -> None:
    error = refused("\n".join([LEAST, "[[exempt]]", *lines]))
    assert error.code == code
    assert error.message.startswith("p.toml:")


def test_the_line_is_that_of_the_exemption_itself() -> None:
    text = LEAST + '[[exempt]]\nuser = "alice"\n\n[[exempt]]\n# gone\nuser = "mallory"\n'
    error = refused(text)
    assert error.message.startswith("p.toml:10: [[exempt]] 2 user: unknown user 'mallory'")
    assert "number" in (error.hint or "")


@for_each(
    "table, line, code",
    [
        ("policy", 'target = "170%"', "out-of-range"),
        ("policy", "target = 70", "out-of-range"),
        ("policy", "target = 0", "out-of-range"),
        ("policy", "target = nan", "out-of-range"),
        ("age", 'minimum = "8m"', "out-of-range"),
        ("age", 'minimum = "8 weeks"', "malformed-value"),
        ("age", "minimum = 56", "wrong-type"),
        ("age", 'minimum = "1000000d"', "out-of-range"),
        ("age", "counted = []", "malformed-value"),
        ("age", 'counted = ["birth"]', "malformed-value"),
        ("age", 'counted = ["atime", "atime"]', "malformed-value"),
        ("age", 'counted = "atime"', "malformed-value"),
        ("age", "counted = [[]]", "malformed-value"),
        ("notice", 'period = "2m"', "out-of-range"),
        ("notice", 'valid = "0"', "out-of-range"),
        ("notice", "publish_factor = 0.5", "out-of-range"),
        ("notice", "publish_factor = nan", "out-of-range"),
        ("notice", "publish_factor = inf", "out-of-range"),
        ("notice", 'mail_to = "all@example.org"', "address-pattern"),
        ("notice", 'mail_to = "{user}@{host}"', "address-pattern"),
        ("notice", 'mail_to = "{user}@example.org, x@y"', "address-pattern"),
        ("notice", 'mail_to = "{user}@example.org\\nBcc: x"', "control-character"),
        ("notice", 'mail_to = "{user}@example.org"', "missing-key"),
        ("notice", 'directory = "lists"', "path-relative"),
        ("notice.mail", 'user = "trimtab"', "login-incomplete"),
        ("notice.mail", f'server = "mx"\n{LOGIN}"file:/etc/smtp"', "password-in-the-clear"),
        ("notice.mail", 'password = "sesame"', "secret-inline"),
        ("notice.mail", 'security = "ssl"', "unknown-value"),
        ("notice.mail", 'ca_file = "/scratch/ca.pem"', "path-below-root"),
        ("notice.mail", f'{LOGIN}"file:/scratch/smtp"', "path-below-root"),
        ("caps", "files = 0", "out-of-range"),
        ("caps", "files = true", "wrong-type"),
        ("caps", "files = 1.5", "wrong-type"),
        ("caps", 'files = "many"', "wrong-type"),
        ("caps", 'bytes = "0"', "out-of-range"),
        ("caps", 'user = "0%"', "out-of-range"),
        ("caps", "user = true", "wrong-type"),
        ("caps", 'user = "none"', "out-of-range"),
        ("arming", 'kind = "none"', "unknown-value"),
        ("guards", 'kill_switch = "/scratch/stop"', "path-below-root"),
        ("guards", 'allow_list = "/scratch/u/roots"', "path-below-root"),
        ("guards", 'allow_list = "roots"', "path-relative"),
        ("guards", 'allow_list = "/etc/../scratch/roots"', "path-relative"),
        ("guards", "jump_factor = 0.1", "out-of-range"),
        ("guards", 'settle = "0.5s"', "malformed-value"),
        ("keep", "immutable_files = false", "always-kept"),
        ("keep", "moved_files = false", "always-kept"),
        ("keep", 'open_files = "no"', "wrong-type"),
        ("keep", 'minimum_size = "-1"', "out-of-range"),
        ("throttle", "batch_files = 5000", "out-of-range"),
        ("throttle", 'latency = "0s"', "out-of-range"),
        ("ages", "x = 1", "unknown-table"),
        ("keep", "open = true", "unknown-key"),
    ],
)
def test_what_does_not_belong_there_is_refused(table: str, line: str, code: str) -> None:
    text = f"{LEAST}[{table}]\n{line}\n"
    if table == "policy":
        text = LEAST.replace('target = "70%"\n', f"{line}\n")
    error = refused(text)
    assert error.code == code
    assert error.message.startswith("p.toml:")


@pytest.mark.parametrize(
    ("root", "code"),
    [
        ("scratch", "path-relative"),
        ("/scratch/..", "path-with-dots"),
        ("/./scratch", "path-with-dots"),
        ("/", "root-of-host"),
        ("//", "root-of-host"),
        ("//scratch", "path-not-plain"),
        ("/scratch/", "path-not-plain"),
        ("/a//b", "path-not-plain"),
        ("", "text-empty"),
    ],
)
def test_a_root_that_is_none_is_refused(root: str, code: str) -> None:
    assert refused(LEAST.replace('"/scratch"', f'"{root}"')).code == code


def test_one_target_and_one_only() -> None:
    assert refused(LEAST.replace('target = "70%"\n', "")).code == "missing-key"
    assert refused(LEAST + 'target_ost = "75%"\n').code == "targets-several"
    both = refused(LEAST + 'target_pool = { flash = "75%" }\n')
    assert "[policy] target_pool: there are two targets" in both.message
    assert "target_ost" in (both.hint or "")


OF_POOLS = LEAST.replace('target = "70%"', "target_pool = { %s }")


def test_a_target_of_pools_is_read_in_the_order_of_their_names() -> None:
    policy = parsed(OF_POOLS % 'flash = "75%", disk = 0.9')
    assert (policy.target, policy.target_ost, policy.is_of_osts) == (None, None, True)
    assert policy.target_pool == (("disk", 0.9), ("flash", 0.75))
    as_table = LEAST.replace('target = "70%"\n', "") + '[policy.target_pool]\nflash = "75%"\n'
    assert parsed(as_table).target_pool == (("flash", 0.75),)


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("", "names no pool"),
        ('flash = "175%"', "target_pool flash"),
        ("flash = true", "target_pool flash"),
        ('flash = { limit = "75%" }', "target_pool flash"),
        ('"" = "75%"', "is not the name of a pool"),
        ('"sixteen_letters!" = "75%"', "is not the name of a pool"),
        ('"scratch/flash" = "75%"', "is not the name of a pool"),
        ('"a\\u001b[2J" = "75%"', "is not the name of a pool"),
    ],
)
def test_what_is_no_target_of_pools(inside: str, why: str) -> None:
    error = refused(OF_POOLS % inside)
    assert why in error.message
    assert "\x1b" not in error.message
    assert error.message.startswith("p.toml:")


def test_pools_that_are_no_table_are_told_how_to_be_written() -> None:
    error = refused(LEAST.replace('target = "70%"', 'target_pool = "75%"'))
    assert error.code == "malformed-value"
    assert error.hint == 'write target_pool = { flash = "75%" }'


def test_a_misspelt_key_is_named_with_what_was_meant() -> None:
    error = refused(LEAST + '[age]\nminimun = "8w"\n')
    assert error.message == "p.toml:6: [age] minimun: there is no such key"
    assert error.hint == "did you mean 'minimum'?"
    elsewhere = refused(LEAST + '[age]\nperiod = "8w"\n')
    assert elsewhere.hint == "period is a key of [notice]"


def test_several_mistakes_are_told_at_once() -> None:
    error = refused(LEAST + '[age]\nminimum = "8m"\n[caps]\nfiles = 0\n')
    locations = [problem.location for problem in instance(ConfigError, error).problems]
    assert locations == [("age", "minimum"), ("caps", "files")]
    assert "[age] minimum" in error.message
    assert "[caps] files" in error.message


def test_an_amount_of_mistakes_ends() -> None:
    error = refused(LEAST + "".join(f'[[exempt]]\nuser = "u{n}"\n' for n in range(20)))
    assert error.message.endswith("and 15 more")


def test_names_with_numbers_need_nobody_who_knows_them() -> None:
    text = LEAST + '[[exempt]]\nuser = "alice"\nid = 1001\n'
    assert parse_policy(text, "plan", None).policy.exemptions[0].value == 1001
    with raises(UsageError, "account-without-number"):
        parse_policy(LEAST + '[[exempt]]\nuser = "alice"\n', "plan", None)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ('[age]\nminimum = "7d"\n', "age-short"),
        ('[age]\nminimum = "0"\n', "age-short"),
        ('[age]\ncounted = ["atime", "mtime"]\n', "ctime-not-counted"),
        ('[age]\ncounted = ["ctime"]\n', "mtime-not-counted"),
        ('[notice]\nperiod = "0"\n', "notice-none"),
        ('[notice]\nperiod = "2d"\n', "notice-short"),
        ('[caps]\nfile_system = "unlimited"\n', "bytes-uncapped"),
        ('[caps]\nuser = "unlimited"\n', "user-uncapped"),
        ('[arming]\ndelay = "1h"\n', "delay-short"),
        ("[keep]\nroot_files = false\n", "root-files-deleted"),
        ('[[exempt]]\npath = "/scratch"\n', "root-exempt"),
        ("", "notice-unsent"),
    ],
)
def test_what_is_probably_not_meant_is_said(lines: str, code: str) -> None:
    assert code in warnings(LEAST + lines)


def test_a_careful_file_has_no_warnings() -> None:
    assert warnings(LEAST + '[notice]\ndirectory = "/var/spool/lists"\n') == []


def test_a_low_target_is_doubted() -> None:
    for text in (LEAST.replace("70%", "10%"), OF_POOLS % 'flash = "10%"'):
        assert "target-low" in warnings(text)


def test_every_key_has_its_place_in_a_policy() -> None:
    policy = Policy("a", "/a")
    for entry in SCHEMA.every_key():
        value = value_at(policy, entry.path)
        assert entry.is_required or value == entry.default


@given(st.text(max_size=200))
def test_rubbish_is_refused_and_nothing_else(text: str) -> None:
    with pytest.raises(UsageError):
        parse_policy(text, "p.toml", directory)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=40))
def test_a_value_of_rubbish_is_refused_or_kept(text: str) -> None:
    quoted = "".join(
        f"\\U{ord(sign):08x}" if sign in '"\\' or ord(sign) < 32 or ord(sign) == 127 else sign
        for sign in text
    )
    for line in (f'path = "{quoted}"', f'user = "{quoted}"', f'path_hex = "{quoted}"'):
        message = ""
        try:
            result = exempt(line)
        except UsageError as error:
            message = error.message
        else:
            assert result.kind != "user" or text in ("alice", "bob")
        assert message.isprintable()  # it goes to terminals


def test_a_policy_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "purge.toml"
    path.write_text(LEAST + '[[exempt]]\nuser = "root"\n')
    loaded = load_policy(path)
    exemptions = (Exemption("user", 0, name="root"),)
    assert loaded.policy == Policy("scratch", "/scratch", target=0.7, exemptions=exemptions)
    assert loaded.text == path.read_text()
    assert len(loaded.sha256) == 64


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others need root")
def test_root_reads_no_policy_that_others_can_change(tmp_path: Path) -> None:
    path = tmp_path / "purge.toml"
    path.write_text(LEAST)
    path.chmod(0o666)
    with raises(UsageError, "file-writable-by-others"):
        load_policy(path)


def test_this_host_knows_its_accounts() -> None:
    for kind in ("user", "group"):
        assert number_of(kind, "root") == 0
        assert number_of(kind, "no such account") is None
    assert number_of("user", "a\0b") is None
