"""Output of several benchmarks in one file: what is whose, wherever the file is cut."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.formats.damage import cuts, sampled
from tests.formats.of_formats import Key, read_or_none, values
from tests.formats.recorded import FIXTURES

from trimtab.formats.format_table import formats
from trimtab.formats.source import MixedPart, OutputFile, OutputFormat, parts_of

IOR = (FIXTURES / "ior" / "4.0.0" / "json-repeat.out").read_bytes()
MDTEST = (FIXTURES / "mdtest" / "4.1.0+dev" / "rate-and-time.out").read_bytes()
SURVEY = (FIXTURES / "obdfilter_survey" / "2.17" / "long.out").read_bytes()


def parts(content: bytes) -> tuple[MixedPart, ...]:
    source = OutputFile("slurm-7.out", content)
    form = next((one for one in formats() if one.recognises(source)), None)
    return () if form is None else parts_of(source, form, formats())


def figures(content: bytes) -> dict[tuple[str, Key], float]:
    found: dict[tuple[str, Key], float] = {}
    for part in parts(content):
        read = read_or_none(part.form, OutputFile("x", part.content)) or ()
        found |= {(part.form.kind, key): value for key, value in values(read).items()}
    return found


def of(kind: str) -> OutputFormat:
    return next(one for one in formats() if one.kind == kind)


def test_every_part_keeps_its_lines() -> None:
    content = IOR + MDTEST + IOR + SURVEY
    found = parts(content)
    assert [part.form.kind for part in found] == ["ior", "mdtest", "obdfilter-survey"]
    lines = content.split(b"\n")
    for part in found:
        own = part.content.split(b"\n")
        assert len(own) == len(lines)
        assert all(line in (b"", whole) for line, whole in zip(own, lines, strict=True))
        assert own[part.line - 1] == lines[part.line - 1] != b""
    for other in permutations(found, 2):
        pairs = zip(*(part.content.split(b"\n") for part in other), strict=True)
        assert all(b"" in pair for pair in pairs)  # no line is of two


@sampled
@pytest.mark.calibration
@pytest.mark.parametrize("first", [IOR, MDTEST, SURVEY])
@pytest.mark.parametrize("second", [IOR, MDTEST, SURVEY])
def test_cut(first: bytes, second: bytes) -> None:
    content = first + second
    whole = figures(content)
    for cut in cuts(content, 3):
        assert figures(cut).items() <= whole.items()


def test_a_file_of_one_benchmark_is_read_as_it_is() -> None:
    for one in (IOR, MDTEST * 2, SURVEY, b"WARNING: x\n" + IOR):
        (part,) = parts(one)
        assert part.content == one


def test_words_of_others_within_a_line_begin_nothing() -> None:
    talk = b'echo mdtest-4.0.0 was launched with; see "fio version" and IO500 version 1\n'
    (part,) = parts(IOR + talk + IOR)
    assert part.form.kind == "ior"


def test_what_says_not_where_it_begins_stands_before_what_does() -> None:
    csv = (FIXTURES / "ior" / "4.0.0" / "csv.out").read_bytes()
    assert [(part.form.kind, part.line) for part in parts(csv + MDTEST)] == [
        ("ior", 1),
        ("mdtest", 1 + csv.count(b"\n")),
    ]


@pytest.mark.calibration
@pytest.mark.parametrize(
    "line",
    [b'{ "Version"', b"mdtest-", b"-- started at 1 --\n\n", b"IOR-4: MPI Coordinated Test\n"],
)
def test_a_large_file_is_taken_apart_in_linear_time(line: bytes) -> None:
    """Were it not linear in the size, this would take hours."""
    content = MDTEST + line * (8_000_000 // len(line)) + SURVEY
    assert {
        part.form.kind for part in parts_of(OutputFile("x", content), of("mdtest"), formats())
    } >= {"mdtest", "obdfilter-survey"}
