"""What is wrong with a TOML file: one error, its lines and places, and what was meant."""

from __future__ import annotations

import pytest

from trimtab.base.toml_problem import (
    SHOWN_PROBLEMS,
    Lines,
    Problem,
    config_error,
    key_lines,
    unknown_key,
)

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
    lines = key_lines(TEXT)
    assert lines.line_of(("exempt", "0", "user")) == 5
    assert lines.line_of(("exempt", "1")) == 6
    assert lines.line_of(("exempt", "1", "user")) == 7
    assert lines.line_of(("exempt", "1", "more", "x")) == 9
    assert lines.line_of(("other", "user")) == 11
    assert lines.line_of(("policy", "name")) == 2


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
    line_of = key_lines(text).line_of
    assert line_of(("site", "name")) == 2
    assert line_of(("site", "text")) == 3
    assert line_of(("limits",)) == 7
    assert line_of(("limits", "cov")) == 8
    assert line_of(("limits", "full.ness")) == 9
    assert line_of(("limits", "absent", "deeper")) == 7
    assert line_of(("a", "b.c", "d", "x")) == 12
    assert line_of(("a",)) == 11
    assert line_of(("nowhere",)) is None


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
