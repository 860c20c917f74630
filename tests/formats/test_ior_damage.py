"""IOR's outputs damaged: cut, changed, mixed, or not IOR's at all; no wrong number comes of it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.damage import sampled
from tests.formats.ior_captures import capture, captures
from tests.formats.of_formats import (
    check_changed,
    check_cut,
    check_line_ends,
    read_or_none,
    sources,
    values,
)
from tests.formats.recorded import REAL_DATA
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base.error import DataError
from trimtab.base.run import RawOutput, RunStatus
from trimtab.formats import ior, ior_line
from trimtab.formats.ior_line import runs_of
from trimtab.formats.measurement import Measurement
from trimtab.formats.source import OutputFile

CAPTURES = captures()
each = for_each("version, case, path", CAPTURES, ids=[f"{one[0]}-{one[1]}" for one in CAPTURES])


def only(source: OutputFile) -> Measurement:
    (measured,) = ior.read(source)
    return measured


@sampled
@pytest.mark.calibration
@each
def test_cut_file_gives_no_other_number(version: str, case: str, path: Path) -> None:
    source = OutputFile(path.name, path.read_bytes())
    if read_or_none(ior.FORMAT, source) is not None:
        check_cut(ior.FORMAT, source, seed=len(source.content))
        check_line_ends(ior.FORMAT, source)


@sampled
@pytest.mark.calibration
@pytest.mark.parametrize(
    ("version", "case"),
    [
        *(("3.0.1", "script"), ("3.2.1", "json-verbose"), ("3.3.0", "summary-of-three")),
        *(("4.0.0", "csv"), ("4.0.0", "repeat"), ("4.1.0+dev", "json-script")),
    ],
)
def test_changed_file_is_read_or_refused(version: str, case: str) -> None:
    check_changed(ior.FORMAT, capture(version, case), seed=3)


def test_cut_file_is_not_ok_before_its_end() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0"):
        source = capture(version, "repeat")
        for size in range(0, source.content.index(b"Finished"), 37):
            for one in read_or_none(ior.FORMAT, OutputFile("x", source.content[:size])) or ():
                assert one.status is not RunStatus.OK


def test_csv_row_whose_figures_do_not_fit_is_not_believed() -> None:
    source = capture("4.0.0", "csv")
    row = source.text.split("\n")[1].split(",")
    for column in (1, 2, 7, 9):
        words = [*row]
        words[column] = str(round(float(words[column]) * 1.3, 4))
        changed = source.text.replace(",".join(row), ",".join(words))
        assert not only(OutputFile("x", changed.encode())).samples[0].believed


def _texts() -> list[OutputFile]:
    return [
        capture(version, case)
        for version, case in (("3.0.1", "repeat"), ("3.2.1", "repeat"), ("4.0.0", "random"))
    ]


def test_decimal_commas_are_not_read_as_other_numbers() -> None:
    for source in [*_texts(), capture("4.0.0", "json-repeat"), capture("4.0.0", "csv")]:
        whole = values(ior.read(source))
        changed = re.sub(r"([0-9])\.([0-9])", r"\1,\2", source.text)
        for key, value in values(
            read_or_none(ior.FORMAT, OutputFile("x", changed.encode())) or ()
        ).items():
            assert value == whole[key]  # a figure without decimals may stand


def test_decimal_commas_are_said_to_be_what_is_wrong() -> None:
    for source in [*_texts(), capture("4.0.0", "json-repeat"), capture("4.0.0", "csv")]:
        changed = re.sub(r"([0-9])\.([0-9]+)(?=[ ,\n])", r"\1,\2", source.text)
        (one,) = ior.read(OutputFile("x", changed.encode()))
        assert "decimal-commas" in one.codes
        assert "LC_ALL=C" in (one.problem or "")
        (whole,) = ior.read(source)
        assert "decimal-commas" not in whole.codes


@given(data=st.data())
def test_lines_of_ranks_within_one_another(data: st.DataObject) -> None:
    """Another rank's text is put anywhere, in the middle of a line too."""
    source = data.draw(st.sampled_from([*_texts(), capture("4.0.0", "json-repeat")]))
    whole = values(ior.read(source))
    content = source.text
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content)))
        noise = data.draw(
            st.sampled_from(
                [
                    "task 1 writing /tmp/x/f.00000001\n",
                    "Test 0: Iter=0, Task=1, Time=0.000366, write start\n",
                    "WARNING: task 1, partial write(), 4096 of 8192 bytes at offset 0\n",
                    "[1] a line of rank 1\n",
                    "\0\0\0",
                    "\xff",
                ]
            )
        )
        content = content[:place] + noise + content[place:]
    mixed = OutputFile("x", content.encode("latin-1", "replace"))
    for key, value in values(read_or_none(ior.FORMAT, mixed) or ()).items():
        # A noise that ends within a number leaves two halves: neither may pass as the whole.
        assert value == whole.get(key), (key, value)


@given(data=st.data())
def test_a_changed_digit_shows_or_hides_in_rounding(data: st.DataObject) -> None:
    source = data.draw(
        st.sampled_from([*_texts(), capture("4.0.0", "csv"), capture("4.1.0+dev", "json-script")])
    )
    whole = values(ior.read(source))
    digits = [match.start() for match in re.finditer(r"[0-9]", source.text)]
    place = data.draw(st.sampled_from(digits))
    digit = data.draw(st.sampled_from("0123456789"))
    changed = source.text[:place] + digit + source.text[place + 1 :]
    for key, value in values(
        read_or_none(ior.FORMAT, OutputFile("x", changed.encode())) or ()
    ).items():
        if key in whole:
            assert value == pytest.approx(whole[key], rel=0.025)


def test_two_jobs_in_one_file_at_once() -> None:
    """Their lines mixed: a row that lands in the other's table is not believed there."""
    one, two = capture("4.0.0", "repeat"), capture("4.0.0", "random")
    right = set(values(ior.read(one)).values()) | set(values(ior.read(two)).values())
    for seed in range(40):
        chance = random.Random(seed)
        queues = [one.text.splitlines(keepends=True), two.text.splitlines(keepends=True)]
        mixed: list[str] = []
        while any(queues):
            queue = chance.choice([queue for queue in queues if queue])
            mixed += [queue.pop(0) for _ in range(min(len(queue), chance.randrange(1, 6)))]
        found = read_or_none(ior.FORMAT, OutputFile("x", "".join(mixed).encode())) or ()
        assert set(values(found).values()) <= right


def test_row_that_was_printed_twice_is_not_believed() -> None:
    source = capture("4.0.0", "repeat")
    row = next(line for line in source.text.split("\n") if line.startswith("write "))
    measured = only(OutputFile("x", source.text.replace(row, f"{row}\n{row}").encode()))
    assert measured.status is RunStatus.PARTIAL
    reasons = [one.reason for one in measured.samples if one.metric == "write_bandwidth"]
    assert (reasons[:2], reasons[2:]) == (["repetition 0 was printed 2 times"] * 2, [None, None])


def test_what_is_not_iors_is_a_data_error() -> None:
    with pytest.raises(DataError) as caught:
        ior.read(OutputFile("x", b"hello\nworld\n"))
    assert caught.value.line == 1


def test_more_parts_than_a_file_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ior_line, "PARTS_MAX", 50)
    head = b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nTestID : 0\n"
    row = b"write 1 1 1 1 1 1 1 1 1 0\n"
    assert ior.read(OutputFile("x", head + row * 45))
    for content in (head + row * 60, head * 60):
        with raises(DataError, "too-many-results") as caught:
            ior.read(OutputFile("x", content))
        assert caught.value.line is not None
        assert ior.parse(RawOutput("x", (), content)).status is RunStatus.FAILED


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b" " * 200 + b"\n",
        b"ior: " * 40 + b"\n",
        b"A" * 300 + b"\n",
        b"[[[[\n",
        b'"\n',
        b"{\n",
    ],
)
def test_lines_of_nothing_end(line: bytes) -> None:
    head = b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
    content = head + line * (400_000 // len(line)) + line.rstrip(b"\n") * 2000
    (measured,) = ior.read(OutputFile("x", content))
    assert measured.status is RunStatus.FAILED


def test_environment_of_the_first_task_is_passed_over() -> None:
    loop = "STARTING ENVIRON LOOP\nFinished: x\nTestID : 7\nWARNING: x\nENDING ENVIRON LOOP\n"
    (run,) = runs_of("IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n" + loop)
    assert (run.finished, run.tests, run.early.warnings) == (None, [], [])


REAL_FOLDER = REAL_DATA / "lustre-2.17" / "ior"


def real_sources() -> list[OutputFile]:
    return sources(
        path for path in sorted(REAL_FOLDER.glob("*.out")) if not path.name.startswith("mdtest")
    )


@sampled
@pytest.mark.calibration
def test_real_files_survive_damage() -> None:
    for source in real_sources():
        check_cut(ior.FORMAT, source, seed=1)
        check_line_ends(ior.FORMAT, source)
        check_changed(ior.FORMAT, source, seed=2)


def test_a_summary_beside_rows_without_a_beginning_is_not_taken_as_alone() -> None:
    """The line that begins the test and the headings are damaged; a property found it once."""
    (source,) = [one for one in _texts() if one.name == "repeat.out" and "IOR-3.0.1" in one.text]
    damaged = source.text.replace("Test 0 started", "[1] a line\nTest 0 sta").replace(
        "access    bw", "task 1 writing\ncess    bw"
    )
    assert damaged.count("task 1") == 1
    found = values(read_or_none(ior.FORMAT, OutputFile("x", damaged.encode())) or ())
    assert set(found) <= set(values(ior.read(source)))
