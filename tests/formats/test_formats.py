"""All formats together: their table, files of each and of several, foreign files, and rubbish."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.damage import cuts, sampled
from tests.formats.of_formats import Key, read_or_none, recognised, source, values
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import instance

import trimtab.formats as package
from trimtab.base.error import UsageError
from trimtab.base.run import ProbeSpec, RawOutput
from trimtab.base.snapshot import NotAvailable
from trimtab.formats.format_table import BENCHMARKS, TABLE, Tool, find, formats, names, phases_of
from trimtab.formats.measurement import MixedPart, OutputFile, OutputFormat, parts_of
from trimtab.formats.phase import PhaseRequest

OUTPUTS = sorted(
    path
    for kind in FIXTURES.iterdir()
    if kind.name not in {"hosts", "record"}
    for path in kind.rglob("*")
    if path.is_file() and path.suffix not in {".cmd", ".err", ".rc", ".md"}
)
"""What real tools printed, of every version that is kept here."""
REAL = sorted(
    path
    for folder in ("fio", "ior", "lst", "obdfilter_survey")
    for path in (REAL_DATA / "lustre-2.17" / folder).glob("*.*")
    if path.suffix in {".out", ".summary", ".detail"}
)
"""Those of the collection, none where it is not here."""
OF_NO_BENCHMARK = ("exports", "lustre", "mfu", "slurm_reservation")
BESIDE = ("bad-firsttest.out", "config.ini", ".yaml", "per_epoch_stats.json")
"""Ends of the names of files that lie beside results and hold none."""


def kind_of(path: Path) -> list[str]:
    """Return whose output a kept file is: nobody's where it is empty or beside a result."""
    folder, *_, name = path.relative_to(FIXTURES).parts
    if folder in OF_NO_BENCHMARK or name.endswith(BESIDE) or not path.stat().st_size:
        return []
    if folder == "io500" and name.startswith(("ior", "mdtest")):
        return [name.partition("-")[0]]
    return [{"ioload": "builtin"}.get(folder, folder.replace("_", "-"))]


@for_each("path", OUTPUTS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_every_file_is_recognised_by_its_own_format_alone(path: Path) -> None:
    for name in (path.name, "x"):
        assert recognised(OutputFile(name, path.read_bytes())) == kind_of(path)


def ids(form: OutputFormat) -> str:
    return form.kind


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_every_format_has_files_of_its_own_here(form: OutputFormat) -> None:
    mine = [path for path in OUTPUTS if form.recognises(OutputFile(path.name, path.read_bytes()))]
    assert mine or form.kind == "darshan", "its fixtures are the text of a child"


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_rubbish_gives_no_numbers(form: OutputFormat) -> None:
    of_formats.check_rubbish(form)


@pytest.mark.parametrize("form", formats(), ids=ids)
def test_what_another_tool_printed_gives_no_numbers(form: OutputFormat) -> None:
    """Every tenth file of the others, as with ``--kind`` that is wrong."""
    for path in OUTPUTS[::10]:
        source = OutputFile(path.name, path.read_bytes())
        if not form.recognises(source):
            assert values(read_or_none(form, source) or ()) == {}, path


def as_whole(kind: str, content: bytes) -> Callable[[Key], bool]:
    """Return for which keys a cut file may rightly say another value: of what is there so far."""
    if kind == "wrf":
        return lambda key: key[4] == "sum" or key[1] == "elapsed"
    # Where -v stands in the output of mdtest, a cut one has task 0's view without the summary's.
    verbose = kind == "mdtest" and b"V-1" in content
    return lambda key: verbose and key[4] == "total"


OF_SEVERAL = {
    *("json-status", "json_status", "normal-status", "status", "nights", "probe-read"),
    "probe-write",
}
"""Files with several states or nights, one of which looks like the last when the rest is cut."""
SEEDS = {"ior": (3,), "mdtest": (5,)}
"""Of changes that once showed something."""


@sampled
@pytest.mark.calibration
@for_each("path", [*OUTPUTS, *REAL], ids=str)
def test_a_damaged_file_gives_no_other_number(path: Path) -> None:
    """Cut, changed, and with the line ends of Windows."""
    whole = source(path, lambda content: content.rstrip() + b"\n")
    size = len(whole.content)
    for form in formats():
        if form.recognises(whole):
            if read_or_none(form, whole) is not None:
                of_formats.check_line_ends(form, source(path))
                if path.stem not in OF_SEVERAL:
                    rightly = as_whole(form.kind, whole.content)
                    seed = size if form.kind == "ior" else 0
                    of_formats.check_cut(form, whole, seed=seed, as_whole=rightly)
            for seed in (size, *SEEDS.get(form.kind, ())):
                of_formats.check_changed(form, source(path), seed=seed)


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
    if not REAL:
        pytest.skip("the collection of real outputs is not here")
    found = Counter((path.parent.name, *recognised(source(path))) for path in REAL)
    assert {key: count for key, count in found.items() if len(key) > 1} == {
        ("fio", "fio"): 13,
        ("ior", "ior"): 30,
        ("ior", "mdtest"): 11,
        ("lst", "lnet-selftest"): 8,
        ("obdfilter_survey", "obdfilter-survey"): 31,
    }
    # What stands beside them and is no output of a benchmark.
    for folder in ("params", "ldiskfs", "jobstats", "quota", "changelog"):
        for path in (REAL_DATA / "lustre-2.17" / folder).glob("*.out"):
            assert recognised(OutputFile(path.name, path.read_bytes())) == [], path


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


ROOT = Path(__file__).resolve().parents[2]

VERSIONS = {
    "ior": b'{\n  "Version": "4.1.0+dev", \n',
    "fio": b"fio-3.33\n",
    "builtin": b"ioload 0.1.0\n",
    "elbencho": b"elbencho\n * Version: 3.1-10\n * Net protocol version: 3.1.3\n",
}


def test_auto_takes_what_the_field_compares_by_first() -> None:
    order = [name for name in names("phases") if name in VERSIONS]
    assert order == ["ior", "fio", "builtin", "elbencho"]
    assert [phases_of(name).launchers[0] for name in order] == ["mpi", "local", "local", "local"]


def test_every_adapter_has_its_line_and_the_name_in_it() -> None:
    """An adapter is a file or folder beside the table that has ``FORMAT``."""
    modules = [
        import_module(f"{package.__name__}.{path.stem}")
        for path in Path(package.__file__).parent.iterdir()
        if not path.name.startswith("__")
    ]
    adapters = {
        module.__name__: module.FORMAT.kind for module in modules if hasattr(module, "FORMAT")
    }
    assert {benchmark.adapter: benchmark.name for benchmark in TABLE} == adapters
    assert len(BENCHMARKS) == len(TABLE) == len(formats())
    phased = {module.PHASES.name for module in modules if hasattr(module, "PHASES")}
    assert set(names("phases")) == phased


def test_options_of_a_probe_reach_every_benchmark_or_are_refused() -> None:
    spec = ProbeSpec("hourly", "auto", 1, 2**20, 2**20, 1, 1.0, options={"further": "4"})
    for name in names("phases"):
        phases = phases_of(name)
        assert phases.arguments(PhaseRequest(spec, "write", "p", "/x"))[-1] == "--further=4"
        (reserved,) = {"t", "bs", "transfer-size"} & phases.reserved_options
        refused = replace(spec, options={reserved: "4k"})
        with raises(UsageError, "option-reserved"):
            phases.arguments(PhaseRequest(refused, "write", "p", "/x"))


@pytest.mark.system
def test_a_name_is_known_without_reading_any_adapter() -> None:
    """A site file is read often; what a benchmark prints seldom."""
    code = "import sys, trimtab.formats.format_table as t; t.names('phases'); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()).isdisjoint({benchmark.adapter for benchmark in TABLE})


@pytest.mark.system
def test_every_benchmark_is_documented() -> None:
    script = FIXTURES.parent.parent / "scripts" / "benchmarks_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/benchmarks_page.py"


def test_every_benchmark_has_its_page() -> None:
    pages = [benchmark.documentation.partition("#")[0] for benchmark in TABLE]
    assert [page for page in pages if page and not (ROOT / "docs" / page).is_file()] == []


def test_a_probe_of_one_command_is_mdtest_alone() -> None:
    """`trimtab.probe.site_command` makes the command of that one."""
    assert [*names("one command")] == ["mdtest"]


def found(name: str, path: str | None = None) -> Tool | NotAvailable:
    """Return what is found of a benchmark that prints its version."""
    return find(name, lambda argv: RawOutput("version", argv, VERSIONS[name]), path=path)


def program(place: Path, name: str) -> Path:
    """Put a program there."""
    path = place / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", VERSIONS)
def test_found_on_the_path_or_where_it_is_said_to_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path, phases_of(name).programs[0])
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = instance(Tool, found(name))
    assert (tool.name, tool.path) == (name, str(path))
    assert tool.version.encode() in VERSIONS[name]
    assert instance(Tool, found(name, "/opt/tool")).path == "/opt/tool"


@pytest.mark.parametrize("name", VERSIONS)
def test_missing_is_an_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert found(name) == NotAvailable(f"{phases_of(name).programs[0]} is not on PATH")


def test_our_own_is_found_beside_its_python(tmp_path: Path, monkeypatch: Any) -> None:
    path = program(tmp_path, "trimtab-ioload")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert instance(Tool, found("builtin")).path == str(path)


def test_unknown_benchmark_is_a_bug() -> None:
    with pytest.raises(KeyError):
        find("dd", lambda argv: RawOutput("version", argv, b""))
