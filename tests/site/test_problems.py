"""How what is wrong with a strict TOML file is told: one error, lines of lists, what was meant."""

from __future__ import annotations

import pytest

from trimtab.site.checks import Problem
from trimtab.site.locate import line_of
from trimtab.site.problems import SHOWN_PROBLEMS, lines_of, one_error, told, unknown_key


def tell(problem: Problem) -> str:
    return told(problem, "f.toml", None, f"[{problem.location[0]}]")


def test_one_problem_keeps_its_hint_apart():
    error = one_error([Problem(("a",), "is missing", "write it")], tell)
    assert (error.message, error.hint) == ("f.toml: [a]: is missing", "write it")


def test_several_are_one_line_with_their_hints():
    found = [Problem(("a",), "is missing", "write it"), Problem(("b",), "is wrong")]
    error = one_error(found, tell)
    assert error.message == "f.toml: [a]: is missing (write it); f.toml: [b]: is wrong"
    assert error.hint is None


@pytest.mark.parametrize(
    ("given", "count", "shown", "more"),
    [
        (SHOWN_PROBLEMS, None, SHOWN_PROBLEMS, None),
        (SHOWN_PROBLEMS + 2, None, SHOWN_PROBLEMS, "and 2 more"),
        (1, 40, 1, "and 39 more"),
        (SHOWN_PROBLEMS, 6, SHOWN_PROBLEMS, "and 1 more"),
    ],
)
def test_only_the_first_are_told_and_the_rest_counted(given, count, shown, more):
    found = [Problem((f"t{number}",), "is wrong", "hint") for number in range(given)]
    message = one_error(found, tell, count=count).message
    assert message.count("is wrong") == shown
    assert ("more" in message) == (more is not None)
    assert more is None or message.endswith(more)


TEXT = """\
[policy]
name = "x"
[[exempt]]
user = "a"
[[ exempt ]]
user = "b"
[other]
user = 1
"""


def test_tables_of_a_list_go_by_their_number():
    lines = lines_of(TEXT, ("exempt",))
    assert line_of(lines, ("exempt", "0", "user")) == 4
    assert line_of(lines, ("exempt", "1")) == 5
    assert line_of(lines, ("exempt", "1", "user")) == 6
    assert line_of(lines, ("other", "user")) == 8
    assert line_of(lines_of(TEXT), ("policy", "name")) == 2


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        (("policy", "taget"), "there is no such key", "did you mean 'target'?"),
        (("policy", "files"), "there is no such key", "files is a key of [caps] and [keep]"),
        (("policy", "zzz"), "there is no such key", "known: target, name"),
        (("polcy",), "there is no such table", "known: target, name"),
    ],
)
def test_what_was_probably_meant(key, message, hint):
    elsewhere = ("caps", "keep") if key[-1] == "files" else ()
    problem = unknown_key(key, ("target", "name"), elsewhere)
    assert (problem.location, problem.message, problem.hint) == (key, message, hint)
