"""A policy that is written reads back to the same policy."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import reduce

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.policy.policies import policies

from trimtab.base.error import UsageError
from trimtab.base.toml_schema import json_schema
from trimtab.purge.policy_file import parse_policy, policy_text
from trimtab.purge.purge_policy import SCHEMA, Policy

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
        with pytest.raises(UsageError) as caught:
            policy_text(replace(USUAL, target=target))
        assert caught.value.code == code
