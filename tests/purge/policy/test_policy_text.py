"""A policy that is written reads back to the same policy, and the page on policies is true."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import reduce
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.policy.policies import policies
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.toml_schema import Entry, json_schema
from trimtab.purge.policy_file import parse_policy, policy_text
from trimtab.purge.purge_policy import SCHEMA, Policy

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE_FILE = DOCS / "purge-policy.md"
EXAMPLE = DOCS / "examples" / "purge-policy.toml"
MARKED = re.compile(r"<!-- made: keys -->\n(.*?)<!-- end -->", re.DOTALL)
USUAL = Policy("scratch", "/scratch", target=0.7)


@pytest.mark.system
@given(policies(), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_reads_back(policy: Policy, every_key: bool) -> None:
    text = policy_text(policy, every_key=every_key)
    assert parse_policy(text, "p.toml").policy == policy


@pytest.mark.system
@given(policies())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_what_the_schema_describes(policy: Policy) -> None:
    values = tomllib.loads(policy_text(policy))
    for one in values.get("exempt", ()):
        if "until" in one:
            one["until"] = one["until"].isoformat()  # JSON has no dates
    jsonschema.Draft202012Validator(json_schema(SCHEMA)).validate(values)


def test_defaults_stand_behind_a_sign() -> None:
    lines = policy_text(USUAL).splitlines()
    assert any(line.startswith('# minimum = "8w"') for line in lines)
    assert any(line.startswith('target = "70%"') for line in lines)


def test_every_key_can_be_written() -> None:
    values = tomllib.loads(policy_text(USUAL, every_key=True))
    missing = {
        ".".join(entry.location)
        for entry in SCHEMA.every_key()
        if entry.name not in reduce(lambda table, name: table[name], entry.location[:-1], values)
    }
    # What has no value by default cannot stand there.
    assert missing == {
        "policy.target_ost",
        "policy.target_pool",
        "notice.forecast",
        "notice.directory",
        "notice.mail_to",
        "notice.mail_map",
        "notice.mail_from",
        "notice.contact",
        "notice.names_most",
        "notice.mail.user",
        "notice.mail.password",
        "notice.mail.ca_file",
    }


def test_limits_of_pools_are_a_table_in_a_line() -> None:
    policy = replace(USUAL, target=None, target_pool=(("a.b", 0.8), ("flash", 0.755)))
    assert '\ntarget_pool = { "a.b" = "80%", flash = "75.5%" }  #' in policy_text(policy)
    assert '\n# target_pool = { flash = "75%" }' in policy_text(USUAL)


def test_a_policy_that_contradicts_itself_is_not_written() -> None:
    for target, code in ((None, "missing-key"), (1.5, "out-of-range")):
        with raises(UsageError, code):
            policy_text(replace(USUAL, target=target))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE_FILE.read_text(), re.DOTALL)


def row(entry: Entry) -> str:
    """Return a row of the table of all keys: key, what, default."""
    can_say = entry.default is not None or entry.kind.absent is not None
    text = None if entry.is_required or not can_say else entry.kind.write(entry.default)
    default = "required" if entry.is_required else "" if text is None else f"`{text}`"
    return f"| `[{'.'.join(entry.location[:-1])}] {entry.name}` | {entry.comment} | {default} |\n"


def test_the_table_is_the_schema_s() -> None:
    (table,) = MARKED.findall(PAGE_FILE.read_text())
    assert table == "".join(map(row, SCHEMA.every_key()))


def test_the_least_file_works() -> None:
    (least,) = blocks("toml")
    assert parse_policy(least, "least.toml").policy == USUAL


def test_the_example_is_a_careful_policy() -> None:
    loaded = parse_policy(EXAMPLE.read_text(), "example")
    assert loaded.warnings == ()
    assert loaded.policy.arming.kind == "second-person"
    assert len(loaded.policy.exemptions) == 3


def test_the_library_s_example_does_what_it_says() -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)  # the page's own text
    assert parse_policy(str(names["text"]), "mine").policy == names["loaded"].policy  # type: ignore[attr-defined]
    assert names["horizon"].cut_off_hour == 490_001  # type: ignore[attr-defined]
