"""What an error says: its code, its lines and places in a TOML file, and what was meant."""

from __future__ import annotations

import pickle

import pytest

from trimtab.base.error import DataError, JobLost, Message, ToolError, UsageError, code_of
from trimtab.base.toml_problem import (
    SHOWN_PROBLEMS,
    Lines,
    Problem,
    config_error,
    key_lines,
    unknown_key,
)


def test_a_code_survives_another_process():
    message = pickle.loads(pickle.dumps(Message("too-few-runs", "3 of at least 24 runs")))
    assert (message, message.code) == ("3 of at least 24 runs", "too-few-runs")


@pytest.mark.parametrize("code", ["", "Too-few", "too_few", "-few", "few-", "too--few", "zu wenig"])
def test_codes_have_one_form(code):
    with pytest.raises(ValueError, match="no code"):
        Message(code, "text")


def test_plain_text_has_no_code():
    assert code_of("as read from a store") is None
    assert code_of(None) is None


def test_an_error_has_the_code_it_was_given_else_its_message_s_else_its_class_s():
    assert UsageError("no such site", code="site-unknown").code == "site-unknown"
    assert UsageError(Message("site-unknown", "no such site")).code == "site-unknown"
    assert ToolError("it failed").code == "tool-failed"
    assert JobLost("node failed", state="NODE_FAIL").code == "job-lost"


def test_a_data_error_keeps_its_code_when_its_file_becomes_known():
    error = DataError("not a number", line=3, code="not-a-number").of("results.csv")
    assert (error.code, error.message) == ("not-a-number", "results.csv:3: not a number")


NOWHERE = Lines()


def test_one_problem_keeps_its_hint_apart() -> None:
    error = config_error([Problem(("a",), "is missing", "write it")], "f.toml", NOWHERE)
    assert (error.message, error.hint) == ("f.toml: [a]: is missing", "write it")


def test_several_are_one_line_with_their_hints() -> None:
    problems = [
        Problem(("a",), "is missing", "write it", "missing-key"),
        Problem(("b",), "is wrong"),
    ]
    error = config_error(problems, "f.toml", NOWHERE)
    assert error.message == "f.toml: [a]: is missing (write it); f.toml: [b]: is wrong"
    assert error.hint is None
    assert error.code == "missing-key"
    assert [problem.code for problem in error.problems] == ["missing-key", "contradiction"]


@pytest.mark.parametrize(
    ("count", "shown", "more"),
    [
        (SHOWN_PROBLEMS, SHOWN_PROBLEMS, None),
        (SHOWN_PROBLEMS + 1, SHOWN_PROBLEMS, "and 1 more"),
        (40, SHOWN_PROBLEMS, f"and {40 - SHOWN_PROBLEMS} more"),
    ],
)
def test_only_the_first_are_shown_and_the_rest_counted(
    count: int, shown: int, more: str | None
) -> None:
    problems = [Problem((f"t{number}",), "is wrong", "hint") for number in range(count)]
    error = config_error(problems, "f.toml", NOWHERE)
    assert error.message.count("is wrong") == shown
    assert ("more" in error.message) == (more is not None)
    assert more is None or error.message.endswith(more)
    assert len(error.problems) == count


TEXT = """\
[policy]
name = "x"
pool = { a = 1 }
[[exempt]]
user = "a"
[[ exempt ]]
user = "b"
[exempt.more]
x = 1
[other]
user = 1
"""


def test_tables_of_a_list_go_by_their_number() -> None:
    keys = ("exempt.0.user", "exempt.1", "exempt.1.user", "exempt.1.more.x", "other.user")
    lines = [key_lines(TEXT).line_of(tuple(key.split("."))) for key in (*keys, "policy.name")]
    assert lines == [5, 6, 7, 9, 11, 2]


@pytest.mark.parametrize(
    ("location", "place"),
    [
        (("policy",), "[policy]"),
        (("policy", "name"), "[policy] name"),
        (("policy", "pool", "a"), "[policy] pool a"),
        (("exempt", "1", "user"), "[[exempt]] 2 user"),
        (("exempt", "1"), "[[exempt]] 2"),
        (("probe", "hourly", "nodes"), "[probe.hourly] nodes"),
        (("probe", "a\x1bb", "nodes"), '[probe."a\\x1bb"] nodes'),
    ],
)
def test_a_place_is_written_as_in_the_file(location: tuple[str, ...], place: str) -> None:
    assert key_lines(TEXT).place_of(location) == place


def test_lines_are_found_whatever_the_writing() -> None:
    text = (
        '# [limits]\n"site" . name = "a"\nsite.text = """\n[limits]\ncov = 1\n"""\r\n'
        "  [ limits ]  # x\n\tcov=2\n'full.ness' = 1\n[[list]]\n[a.'b.c'.d]\nx = 1\n"
    )
    expected = {
        ("site", "name"): 2, ("site", "text"): 3, ("limits",): 7, ("limits", "cov"): 8,
        ("limits", "full.ness"): 9, ("limits", "absent", "deeper"): 7, ("a", "b.c", "d", "x"): 12,
        ("a",): 11, ("nowhere",): None,
    }  # fmt: skip
    assert {key: key_lines(text).line_of(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("key", "code", "hint"),
    [
        (("policy", "taget"), "unknown-key", "did you mean 'target'?"),
        (("policy", "files"), "unknown-key", "files is a key of [caps] and [keep]"),
        (("policy", "zzz"), "unknown-key", "known: target, name"),
        (("polcy",), "unknown-table", "known: target, name"),
    ],
)
def test_what_was_probably_meant(key: tuple[str, ...], code: str, hint: str) -> None:
    elsewhere = ("caps", "keep") if key[-1] == "files" else ()
    problem = unknown_key(key, ("target", "name"), elsewhere)
    assert (problem.location, problem.code, problem.hint) == (key, code, hint)
