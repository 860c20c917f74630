"""Outputs with a prefix on each line, or the line ends of Windows: read as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.formats.damage import cuts, damage_sample, sampled
from tests.formats.of_formats import PREFIXES, prefixed, values
from tests.formats.recorded import FIXTURES
from tests.formats.test_formats import OUTPUTS
from tests.support.counts import repetitions
from tests.support.each import for_each

from trimtab.formats.measurement import Measurement
from trimtab.formats.prefix import streams
from trimtab.probe.imports.import_reading import FileReading, read_file
from trimtab.probe.result_file import read_printed

__all__ = ["damage_sample"]

IOR = (FIXTURES / "ior" / "4.0.0" / "deadline.out").read_bytes()
FIO = (FIXTURES / "fio" / "3.42" / "random-read.out").read_bytes()
NORMAL = (FIXTURES / "fio" / "3.33" / "normal-group.out").read_bytes()
LFS_DF = (
    b"UUID 1K-blocks Used Available Use% Mounted on\n"
    b"t-OST0000_UUID 100 10 90 10% /t[OST:0]\n\nfilesystem_summary: 100 10 90 10% /t\n"
)
STEP = repetitions(gate=5, soak=1)
KINDS = {**PREFIXES, "CRLF": b""}
ONE_OF_EACH = ("ior", "fio", "mdtest", "obdfilter_survey", "lnet_selftest", "perf")


def read(folder: Path, content: bytes, kind: str | None = None) -> FileReading:
    path = folder / "output.txt"
    path.write_bytes(content)
    return read_file(str(path), kind)


def in_other_form(content: bytes, name: str) -> bytes:
    if name == "CRLF":
        return content.replace(b"\n", b"\r\n")
    return prefixed(content, PREFIXES[name])


def told(reading: FileReading) -> tuple[object, ...]:
    return reading.measurements, reading.snapshots, reading.notes


@pytest.mark.parametrize("step", STEP)
def test_every_output_gives_the_same_measurements_behind_any_prefix(
    tmp_path: Path, step: int
) -> None:
    """Each output behind one of them in turn; lines and times are those of the output, too."""
    names = list(KINDS)
    for number, path in enumerate(OUTPUTS[::step]):
        content = path.read_bytes()
        if path.suffix == ".darshan":
            continue
        plain = read(tmp_path, content)
        for name in names if step == 1 else [names[number % len(names)]]:
            other = read(tmp_path, in_other_form(content, name))
            assert told(other) == told(plain), (path, name)
            assert (other.problem is None) == (plain.problem is None), (path, name)


@for_each("name", KINDS)
def test_with_and_without_its_kind_it_is_read(tmp_path: Path, name: str) -> None:
    for kind, content in (("ior", IOR), ("fio", FIO), ("fio", NORMAL), ("lfs-df", LFS_DF)):
        plain, other = read(tmp_path, content), in_other_form(content, name)
        assert plain.measurements or plain.snapshots
        assert told(read(tmp_path, other)) == told(plain)
        assert told(read(tmp_path, other, kind)) == told(plain)


def interleaved(*outputs: tuple[bytes, bytes]) -> bytes:
    """Return outputs behind their labels, line by line in turn."""
    lines = [
        (number, prefix + line + b"\n")
        for prefix, content in outputs
        for number, line in enumerate(content.splitlines())
    ]
    return b"".join(line for _, line in sorted(lines, key=lambda entry: entry[0]))


def by_name(reading: FileReading) -> dict[str | None, Measurement]:
    return {measurement.name: measurement for measurement in reading.measurements}


def test_every_node_of_pdsh_has_its_results(tmp_path: Path) -> None:
    reading = read(tmp_path, interleaved((b"n1: ", FIO), (b"n2: ", NORMAL), (b"n3: ", IOR)))
    (alone,) = read(tmp_path, FIO).measurements
    assert reading.kind == "fio, ior"
    runs = by_name(reading)
    first = runs[f"n1: {alone.name}"]
    assert first.host == "n1"
    figures = [(sample.metric, sample.value) for sample in first.samples]
    assert figures == [(sample.metric, sample.value) for sample in alone.samples]
    assert {run.host for run in runs.values()} >= {"n1", "n2"}
    assert any(name and name.startswith("n3") for name in runs)


def test_nodes_without_a_result_are_told(tmp_path: Path) -> None:
    lost = [(b"n%d: " % number, b"ssh: connection refused\n") for number in range(2, 9)]
    reading = read(tmp_path, interleaved((b"n1: ", FIO), *lost))
    assert [run.host for run in reading.measurements] == ["n1"]
    assert reading.notes[0] == "n2: no result: ssh: connection refused"
    assert reading.notes[-1] == "and 3 more have no result"


def test_ranks_that_only_warn_are_part_of_the_output_of_one(tmp_path: Path) -> None:
    warned = interleaved((b" 0: ", IOR), (b"17: ", b"libibverbs: Warning: no driver\n" * 9))
    reading = read(tmp_path, b"srun: job 7 has been allocated resources\n" + warned)
    assert values(reading.measurements) == values(read(tmp_path, IOR).measurements)
    assert reading.notes == ()


def test_ranks_with_outputs_of_their_own_are_results_of_their_own(tmp_path: Path) -> None:
    reading = read(tmp_path, interleaved(*((b"%d: " % rank, FIO) for rank in range(3))))
    names = [run.name or "" for run in reading.measurements]
    assert [name.split(":")[0] for name in names] == ["rank 0", "rank 1", "rank 2"]
    assert {run.host for run in reading.measurements} == {None}


def test_a_time_limit_stands_behind_the_label_or_between_the_lines(tmp_path: Path) -> None:
    whole = IOR[: IOR.rindex(b"\n", 0, len(IOR) // 2) + 1]
    for words in (b"0: slurmstepd: error: ***", b"slurmstepd: error: ***"):
        end = words + b" STEP 7.0 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO TIME LIMIT ***\n"
        (run,) = read(tmp_path, prefixed(whole, b"0: ") + end).measurements
        assert run.status.value == "unfinished"


def test_what_is_known_as_it_is_keeps_its_words(tmp_path: Path) -> None:
    """``WARNING: `` of mdtest is like a label, and says that it failed."""
    for path in (*FIXTURES.glob("mdtest/*/no*.out"), *FIXTURES.glob("ior/*/bad-size.out")):
        content = path.read_bytes()
        (way, *_) = [*streams(content, lambda text: b"mdtest" in text or b"ior" in text), ()]
        assert [stream.content for stream in way] in ([content], [])


@sampled
@pytest.mark.calibration
@for_each("kind", ONE_OF_EACH)
def test_a_cut_behind_a_prefix_tells_nothing_else(tmp_path: Path, kind: str) -> None:
    path = next(path for path in OUTPUTS if path.relative_to(FIXTURES).parts[0] == kind)
    for number, prefix in enumerate((b"0: ", b"node01: ", b"    ")):
        content = prefixed(path.read_bytes(), prefix)
        whole = values(read(tmp_path, content).measurements)
        for cut in cuts(content, number, count=10):
            for key, value in values(read(tmp_path, cut).measurements).items():
                assert whole.get(key) == value, (path, prefix, len(cut))


def test_nonsense_takes_no_longer_than_it_is_long() -> None:
    calls = 0

    def is_known(text: bytes) -> bool:
        nonlocal calls
        calls += len(text)
        return False

    for line in (b"a: b\n", b"%d: b\n", b"    b\n", b"10:00:00 b\n", b"\t[1] 10:00:00 x: b\n"):
        content = b"".join(line % n if b"%" in line else line for n in range(3000))
        calls = 0
        assert [*streams(content, is_known)] == []
        assert calls < 20 * len(content)


def test_what_a_probe_prints_under_a_labelling_launcher_is_read() -> None:
    whole = read_printed(IOR, "ior").measurements
    assert whole
    for prefix in (b"0: ", b"[1,0]<stdout>:", b"Nov 28 10:00:00 "):
        assert read_printed(prefixed(IOR, prefix), "ior").measurements == whole
