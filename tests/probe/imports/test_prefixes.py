"""Outputs as people keep them: behind prefixes and preambles, cut, copied, beside their reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.formats.damage import cuts, damage_sample, sampled
from tests.formats.of_formats import PREFIXES, prefixed, values
from tests.formats.recorded import FIXTURES
from tests.formats.test_formats import OUTPUTS
from tests.support.counts import repetitions
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.run import RunStatus
from trimtab.formats.prefix import streams
from trimtab.probe.import_reading import PREAMBLE_BYTES, FileReading, mains, read_file
from trimtab.probe.import_result import ImportedFile, ImportTerms
from trimtab.probe.importer import import_files
from trimtab.probe.result_file import read_printed
from trimtab.store.store import Store

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
def test_every_output_gives_the_same_behind_any_prefix(tmp_path: Path, step: int) -> None:
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


def test_every_node_of_pdsh_has_its_results(tmp_path: Path) -> None:
    reading = read(tmp_path, interleaved((b"n1: ", FIO), (b"n2: ", NORMAL), (b"n3: ", IOR)))
    (alone,) = read(tmp_path, FIO).measurements
    assert reading.kind == "fio, ior"
    runs = {measurement.name: measurement for measurement in reading.measurements}
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


BEHIND_PREAMBLES = {
    "ior": FIXTURES / "ior" / "4.0.0" / "deadline.out",
    "mdtest": FIXTURES / "io500" / "io500-isc26" / "standard" / "mdtest-easy-write.txt",
    "fio": FIXTURES / "fio" / "3.42" / "two-jobs.out",
}

COMPLAINT = b"[nid%05d] libibverbs: Warning: couldn't load driver, no userspace support\n"


def preamble(size: int) -> bytes:
    """Return warnings of ranks, `size` bytes of them and a few more."""
    return b"".join([COMPLAINT % rank for rank in range(size // len(COMPLAINT) + 2)])


@pytest.mark.parametrize("kind", BEHIND_PREAMBLES)
def test_what_stands_before_a_benchmark_hides_nothing(tmp_path: Path, kind: str) -> None:
    content = BEHIND_PREAMBLES[kind].read_bytes()
    short, long = tmp_path / "short.out", tmp_path / "long.out"
    short.write_bytes(content)
    long.write_bytes(preamble(300_000) + content)
    alone, behind = read_file(str(short)), read_file(str(long))
    assert (behind.kind, behind.problem) == (kind, None)
    assert values(behind.measurements) == values(alone.measurements) != {}


def test_other_texts_and_bytes_of_any_size_are_of_no_format(tmp_path: Path) -> None:
    for name, content in {
        "log": preamble(300_000),
        "quoted": preamble(300_000) + b"we ran mdtest and IOR-4.0.0: fine\n",
        "binary": b"\0" * 100_000 + BEHIND_PREAMBLES["ior"].read_bytes(),
        "cut": preamble(300_000) + BEHIND_PREAMBLES["ior"].read_bytes()[:20],
    }.items():
        (tmp_path / name).write_bytes(content)
        reading = read_file(str(tmp_path / name))
        assert reading.measurements == ()
        assert reading.problem
    assert PREAMBLE_BYTES > 3_300_000, "as long as published ones"


LOG = FIXTURES / "darshan" / "3.5.0" / "writer-reader.darshan"


@pytest.mark.system
@pytest.mark.parametrize("size", [100, 600])
def test_without_its_kind_it_says_why_it_cannot_be_read(size: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.darshan"
    path.write_bytes(LOG.read_bytes()[:size])
    recognised, named = read_file(str(path)), read_file(str(path), "darshan")
    assert (recognised.kind, recognised.problem) == ("darshan", named.problem)
    assert "PyDarshan cannot read this" in (recognised.problem or "")


@pytest.mark.system
def test_a_whole_log_is_read_without_its_kind() -> None:
    reading = read_file(str(LOG))
    assert (reading.kind, reading.problem) == ("darshan", None)
    assert reading.measurements


RUN = FIXTURES / "mlperf-storage" / "dlio-2.0.0" / "success"

FIGURES = {
    "model": "unet3d",
    "train_num_accelerators": "2",
    "train_throughput_samples_per_second": 10.0,
    "train_throughput_MB_per_second": 1000.0,
}

OVERALL = {
    "train_throughput_mean_samples_per_second": 10.0,
    "train_throughput_mean_MB_per_second": 1000.0,
}


def report(place: Path) -> Path:
    """Return the file of a report that names one run."""
    path = place / "mlperf_storage_report.json"
    path.write_text(json.dumps({"overall": OVERALL, "runs": {"run-1": FIGURES}}))
    return path


def results_of(path: Path) -> list[str | None]:
    return [one.name for one in read_file(str(path)).measurements]


@pytest.mark.parametrize("name", ["run-1", "run_1", "run1", "runs/run1", "runs/run-1"])
def test_the_run_counts_and_not_its_report(name: str, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / name)
    path, summary = report(tmp_path), tmp_path / name / "summary.json"
    reading = read_file(str(path))
    assert present(reading.source).name == str(summary)
    assert [one.name for one in reading.measurements] == [None]
    # Where the run itself is read too, the report adds nothing.
    assert str(summary) in mains(str(path))
    assert read_file(str(path), others={str(summary)}).measurements == ()


@pytest.mark.parametrize("name", ["run-2", "rerun1", "run1/more"])
def test_a_report_without_its_first_run_is_read_itself(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir(parents=True)
    shutil.copy(RUN / "summary.json", tmp_path / name)
    assert results_of(report(tmp_path)) == ["run-1", "overall"]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\0" * 100, b'{"metric": 1}'])
def test_rubbish_in_place_of_a_run_hides_no_report(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "summary.json").write_bytes(content)
    assert results_of(report(tmp_path)) == ["run-1", "overall"]


LIMITS = (
    "slurmstepd: error: *** JOB 812 ON nid001 CANCELLED AT 2026-03-02T10:30:12 DUE TO TIME LIMIT"
    " ***",
    "=>> PBS: job killed: walltime 1843 exceeded limit 1800",
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
)

WHOLE = FIXTURES / "ior" / "4.0.0" / "text-shared.out"


def cut(tmp_path: Path, line: str, *, before: str = "read        11063") -> Path:
    text = WHOLE.read_text().replace("Nov 21", "Nov 22")
    path = tmp_path / "job.out"
    path.write_text(f"{text[: text.index(before)]}\n{line}\n")
    return path


def imported(store: Store, *paths: Path) -> list[ImportedFile]:
    return list(import_files([*map(str, paths)], ImportTerms(site="s", timezone="UTC"), store))


@pytest.mark.cli
@pytest.mark.parametrize("line", LIMITS)
def test_a_run_cut_off_by_its_time_limit_is_unfinished(tmp_path: Path, line: str) -> None:
    (measurement,) = read_file(str(cut(tmp_path, line))).measurements
    assert measurement.status is RunStatus.UNFINISHED
    assert "time limit before it finished" in measurement.problems[0]


@pytest.mark.cli
def test_it_counts_as_nothing_in_its_series(tmp_path: Path, store: Store) -> None:
    imported(store, WHOLE, cut(tmp_path, LIMITS[0]))
    (series,) = store.series("s")
    points = store.history("s", series.comparability, metric="write_bandwidth")
    assert [point.unfinished for point in points] == [False, True]
    assert points[1].value == 0.0


@pytest.mark.cli
@pytest.mark.parametrize("name", ["text-shared", "odd-sizes", "random"])
def test_it_is_of_the_series_of_those_that_ended(tmp_path: Path, store: Store, name: str) -> None:
    """Without results nothing but the command line tells the block size exactly."""
    whole, ended = WHOLE.with_name(f"{name}.out"), tmp_path / "cut.out"
    later = whole.read_text().replace("Nov 21", "Nov 22").replace(" 4 MiB", " 4.00 MiB")
    options = later[: later.index("\nwrite ")]
    ended.write_text(f"{options}\n{LIMITS[0]}\n")
    imported(store, whole, ended)
    assert [series.runs for series in store.series("s")] == [2]


@pytest.mark.cli
def test_what_ended_otherwise_is_not_unfinished(tmp_path: Path) -> None:
    (killed,) = read_file(
        str(cut(tmp_path, "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2026-03-02 ***"))
    ).measurements
    assert killed.status is not RunStatus.UNFINISHED
    whole = tmp_path / "job.out"
    whole.write_text(f"{WHOLE.read_text()}\n{LIMITS[0]}\n")
    (finished,) = read_file(str(whole)).measurements
    assert finished.status is RunStatus.OK


COPIED = {
    "ior": FIXTURES / "ior" / "4.0.0" / "deadline.out",
    "fio": FIXTURES / "fio" / "3.42" / "two-jobs.out",
    "mdtest": FIXTURES / "io500" / "io500-isc26" / "standard" / "mdtest-easy-write.txt",
    "mlperf-storage": FIXTURES / "mlperf-storage" / "dlio-2.0.0" / "success" / "summary.json",
}


@pytest.mark.cli
@pytest.mark.parametrize("kind", COPIED)
def test_one_more_newline_makes_no_other_result(kind: str, tmp_path: Path, store: Store) -> None:
    content = COPIED[kind].read_bytes().rstrip(b"\n")
    # Of text the last line counts only with its end; JSON says the same without.
    without = (b"",) if kind in ("fio", "mlperf-storage") else ()
    files = []
    for number, end in enumerate((b"\n", b"\n\n", b"\n\n\n", *without)):
        (tmp_path / f"{number}.out").write_bytes(content + end)
        files += imported(store, tmp_path / f"{number}.out")
        assert len({file.results[0].run for file in files}) == 1, end
    assert len(store.runs(site="s")) == len(files[-1].results)


@pytest.mark.cli
@pytest.mark.parametrize("kind", COPIED)
@pytest.mark.parametrize("first", [b"\n", b"\r\n"])
def test_a_copy_of_windows_is_the_same(
    kind: str, first: bytes, tmp_path: Path, store: Store
) -> None:
    content = COPIED[kind].read_bytes().rstrip(b"\n") + b"\n"
    windows = content.replace(b"\n", b"\r\n")
    copies = [content, windows] if first == b"\n" else [windows, content]
    kept = set()
    for number, copy in enumerate((*copies, windows + b"\r\n")):
        (tmp_path / f"{number}.out").write_bytes(copy)
        (file,) = imported(store, tmp_path / f"{number}.out")
        kept.add(tuple((result.run, result.samples) for result in file.results))
        assert file.status.value == "ok"
    assert len(kept) == 1


@pytest.mark.cli
def test_a_text_cut_at_its_end_is_not_the_whole_one(tmp_path: Path, store: Store) -> None:
    """Without its end, the last number of the only repetition may be half of one."""
    lines = COPIED["ior"].read_bytes().splitlines(keepends=True)
    last = min(place for place, line in enumerate(lines) if line.startswith(b"write "))
    (tmp_path / "cut").write_bytes(b"".join(lines[: last + 1]).rstrip(b"\n"))
    (tmp_path / "row").write_bytes(b"".join(lines[: last + 1]))
    ((first,), (second,)) = (imported(store, tmp_path / name) for name in ("cut", "row"))
    assert first.results[0].run != second.results[0].run
    assert second.results[0].new
