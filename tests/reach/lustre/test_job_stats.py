"""``job_stats`` as a running Lustre 2.17.0 printed it, whole, cut, and damaged."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.formats.measurement import OutputFile
from trimtab.probe.target_dump import lctl_shown
from trimtab.reach.lustre.parameter import JobCounters, parse_job_stats, parse_parameters

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0"
NAMES = (RECORDED / "job_stats_names.out").read_bytes()
KIB = 1024


def jobs_of(printed: bytes) -> dict[str, JobCounters]:
    """Return the jobs of all targets of an output; each is on one target there."""
    parameters = parse_parameters(printed.decode("utf-8", "surrogateescape"))
    return {
        name: job
        for text in parameters.matching("*.*.job_stats").values()
        for name, job in parse_job_stats(text).items()
    }


WHOLE = jobs_of(NAMES)


def test_names_are_those_that_the_programs_had() -> None:
    assert list(WHOLE) == [
        "dd.2097", "cp.2097", "my job.2097", "a:b.2097", "{x}.2097", "- job_id: z.2097",
        "naïve.2097", "tab\tq'\".2097", "new\nline.2097", "back\\slash.2097", "#hash.2097",
        "%n.2097", "averylongprogra.2097", "tar.2098", "c1.2097.dd.902", "c1.2098.cp.906",
    ]  # fmt: skip


def test_bytes_are_those_of_this_target() -> None:
    written = {name: job.sums["write_bytes"] // KIB for name, job in WHOLE.items()}
    assert list(written.values()) == [
        4096, 4096, 256, 0, 768, 0, 256, 512, 0, 1024, 1024, 1024, 1024, 1320, 2048, 4096,
    ]  # fmt: skip
    assert WHOLE["tar.2098"].samples["write_bytes"] == 2


def test_operations_of_an_mdt_are_counted() -> None:
    jobs = jobs_of((RECORDED / "job_stats_mdt.out").read_bytes())
    assert list(jobs) == ["mkdir.0", "chmod.0", "lfs.0", "mkdir.2098", "mv.2098", "ls.0"]
    assert jobs["mkdir.0"].samples["getattr"] == 1
    assert jobs["mkdir.0"].sums["getattr"] == 154


def test_without_a_jobid_there_are_no_jobs() -> None:
    assert jobs_of((RECORDED / "job_stats_none.out").read_bytes()) == {}


def test_names_that_differ_in_bytes_that_are_no_text_are_two_jobs() -> None:
    first = NAMES.replace(b"na\xc3\\xAFve", b"na\xc3ve")
    second = NAMES.replace(b"na\xc3\\xAFve", b"na\xe3ve").partition(b"\n")[2]
    beside = first + b"obdfilter.scratch-OST0001.job_stats=\n" + second
    names = list(jobs_of(beside))
    assert "na\udcc3ve.2097" in names
    assert "na\udce3ve.2097" in names


def test_an_import_shows_them_as_text() -> None:
    odd = NAMES.replace(b"na\xc3\\xAFve", b"na\xc3ve")
    lines = lctl_shown(OutputFile("oss1.txt", NAMES))
    assert any(line.startswith("job dd.2097: ") for line in lines)
    for line in (*lines, *lctl_shown(OutputFile("oss1.txt", odd))):
        line.encode()


def test_what_is_cut_is_a_part_of_the_whole() -> None:
    for end in range(0, 6000, 61):
        for name, job in parse_job_stats(NAMES[:end].decode("utf-8", "surrogateescape")).items():
            assert job.samples.items() <= WHOLE[name].samples.items(), (end, name)
            assert job.sums.items() <= WHOLE[name].sums.items(), (end, name)
            assert job.sums.keys() == WHOLE[name].sums.keys() & job.samples.keys(), (end, name)


@settings(max_examples=40)
@given(st.data())
def test_rubbish_is_no_number_and_no_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(NAMES)))
    rubbish = data.draw(st.binary(max_size=300))
    damaged = NAMES[:at] + rubbish + NAMES[at + data.draw(st.integers(0, 300)) :]
    jobs = parse_job_stats(damaged.decode("utf-8", "surrogateescape"))
    assert len(jobs) <= len(WHOLE) + rubbish.count(b"job_id") + 1
    for job in jobs.values():
        assert job.samples
        assert all(number >= 0 for number in (*job.samples.values(), *job.sums.values()))
