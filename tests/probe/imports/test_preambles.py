"""Outputs behind what thousands of ranks said before the benchmark began to print."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.formats.of_formats import values
from tests.formats.recorded import FIXTURES

from trimtab.probe.imports.import_reading import PREAMBLE_BYTES, read_file

OUTPUTS = {
    "ior": FIXTURES / "ior" / "4.0.0" / "deadline.out",
    "mdtest": FIXTURES / "io500" / "io500-isc26" / "standard" / "mdtest-easy-write.txt",
    "fio": FIXTURES / "fio" / "3.42" / "two-jobs.out",
}
COMPLAINT = b"[nid%05d] libibverbs: Warning: couldn't load driver, no userspace support\n"


def preamble(size: int) -> bytes:
    """Return warnings of ranks, `size` bytes of them and a few more."""
    return b"".join([COMPLAINT % rank for rank in range(size // len(COMPLAINT) + 2)])


@pytest.mark.parametrize("kind", OUTPUTS)
def test_what_stands_before_a_benchmark_hides_nothing(tmp_path: Path, kind: str) -> None:
    content = OUTPUTS[kind].read_bytes()
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
        "binary": b"\0" * 100_000 + OUTPUTS["ior"].read_bytes(),
        "cut": preamble(300_000) + OUTPUTS["ior"].read_bytes()[:20],
    }.items():
        (tmp_path / name).write_bytes(content)
        reading = read_file(str(tmp_path / name))
        assert reading.measurements == ()
        assert reading.problem
    assert PREAMBLE_BYTES > 3_300_000, "as long as published ones"
