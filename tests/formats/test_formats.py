"""All formats together: each file has one, foreign files have none, rubbish gives no numbers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.damage import sampled
from tests.formats.of_formats import (
    check_changed,
    check_line_ends,
    check_rubbish,
    read_or_none,
    recognised,
    values,
)
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.each import for_each

from trimtab.formats.format_table import formats
from trimtab.formats.source import OutputFile, OutputFormat

OUTPUTS = sorted(
    path
    for kind in FIXTURES.iterdir()
    if kind.name not in {"hosts", "record"}
    for path in kind.rglob("*")
    if path.is_file() and path.suffix not in {".cmd", ".err", ".rc", ".md"}
)
"""What real tools printed, of every version that is kept here."""


OF_FOLDER = {"io500": {"io500", "ior", "mdtest"}, "ioload": {"builtin"}}
"""Kinds of the outputs in a folder of fixtures, where they are not all of the folder's name."""


@for_each("path", OUTPUTS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_no_file_is_claimed_by_another_format(path: Path) -> None:
    folder = path.relative_to(FIXTURES).parts[0].replace("_", "-")
    kinds = recognised(OutputFile(path.name, path.read_bytes()))
    assert len(kinds) <= 1
    assert set(kinds) <= OF_FOLDER.get(folder, {folder})


def ids(form: OutputFormat) -> str:
    return form.kind


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_every_format_has_files_of_its_own_here(form: OutputFormat) -> None:
    mine = [path for path in OUTPUTS if form.recognises(OutputFile(path.name, path.read_bytes()))]
    assert mine or form.kind == "darshan", "its fixtures are the text of a child"


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_rubbish_gives_no_numbers(form: OutputFormat) -> None:
    check_rubbish(form)


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_what_another_tool_printed_gives_no_numbers(form: OutputFormat) -> None:
    """Every tenth file of the others, as with ``--kind`` that is wrong."""
    for path in OUTPUTS[::10]:
        source = OutputFile(path.name, path.read_bytes())
        if not form.recognises(source):
            assert values(read_or_none(form, source) or ()) == {}, path


@sampled
@pytest.mark.calibration
@for_each("path", OUTPUTS[::4], ids=lambda path: str(path.relative_to(FIXTURES)))
def test_line_ends_of_windows_and_damage(path: Path) -> None:
    source = OutputFile(path.name, path.read_bytes())
    for form in formats():
        if form.recognises(source):
            if read_or_none(form, source) is not None:
                check_line_ends(form, source)
            check_changed(form, source, seed=len(source.content))


@pytest.mark.parametrize("form", formats(), ids=ids)
@given(content=st.binary(max_size=3000))
def test_any_bytes_are_read_or_refused(form: OutputFormat, content: bytes) -> None:
    source = OutputFile("x", content)
    form.recognises(source)
    read_or_none(form, source)


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_a_large_file_of_nonsense_does_not_hang(form: OutputFormat) -> None:
    """Ten times as much takes about ten times as long: no pattern looks back again and again."""
    shapes = (b"a" * 400_000, b" \t" * 200_000, b"1 " * 200_000, b"[({" * 100_000, b"x\n" * 200_000)
    for shape in shapes:
        started_s = time.process_time()
        source = OutputFile("x", shape)
        form.recognises(source)
        read_or_none(form, source)
        # A pattern that looks back over 400 KB would take minutes; this machine is shared.
        assert time.process_time() - started_s < 20


def test_real_outputs_have_one_format_each() -> None:
    if not REAL_DATA.is_dir():
        pytest.skip("the collection of real outputs is not here")
    expected = {
        "lustre-2.17/ior/text_fpp.out": "ior",
        "lustre-2.17/ior/mdtest_text.out": "mdtest",
        "lustre-2.17/fio/json_plus.out": "fio",
        "lustre-2.17/lst/02_brw_write.out": "lnet-selftest",
        "lustre-2.17/obdfilter_survey/ost0.file.ofs_ost0.summary": "obdfilter-survey",
        "lustre-2.17/obdfilter_survey/ost0.file.ofs_ost0.detail": "obdfilter-survey",
    }
    for name, kind in expected.items():
        path = REAL_DATA / name
        assert recognised(OutputFile(path.name, path.read_bytes())) == [kind], name
    # What stands beside them and is no output of a benchmark.
    for folder in ("params", "ldiskfs", "jobstats", "quota", "changelog"):
        for path in (REAL_DATA / "lustre-2.17" / folder).glob("*.out"):
            assert recognised(OutputFile(path.name, path.read_bytes())) == [], path
