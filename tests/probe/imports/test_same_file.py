"""The same file again, as editors and copies change its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES

from trimtab.probe.imports.importer import ImportTerms, import_files
from trimtab.store.store import Store

pytestmark = pytest.mark.cli

OUTPUTS = {
    "ior": FIXTURES / "ior" / "4.0.0" / "deadline.out",
    "fio": FIXTURES / "fio" / "3.42" / "two-jobs.out",
    "mdtest": FIXTURES / "io500" / "io500-isc26" / "standard" / "mdtest-easy-write.txt",
    "mlperf-storage": FIXTURES / "mlperf-storage" / "dlio-2.0.0" / "success" / "summary.json",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store" / "t.db") as opened:
        yield opened


@pytest.mark.parametrize("kind", OUTPUTS)
def test_one_more_newline_makes_no_other_result(kind: str, tmp_path: Path, store: Store) -> None:
    content = OUTPUTS[kind].read_bytes().rstrip(b"\n")
    kept, results = set(), 0
    # Of text the last line counts only with its end; JSON says the same without.
    without = (b"",) if kind in ("fio", "mlperf-storage") else ()
    for number, end in enumerate((b"\n", b"\n\n", b"\n\n\n", *without)):
        path = tmp_path / f"{number}.out"
        path.write_bytes(content + end)
        (file,) = import_files([str(path)], ImportTerms(site="s"), store)
        kept.add(file.results[0].run)
        results = len(file.results)
        assert len(kept) == 1, end
    assert len(store.runs(site="s")) == results


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("first", [b"\n", b"\r\n"])
def test_a_copy_with_the_line_ends_of_windows_is_the_same(
    kind: str, first: bytes, tmp_path: Path, store: Store
) -> None:
    content = OUTPUTS[kind].read_bytes().rstrip(b"\n") + b"\n"
    windows = content.replace(b"\n", b"\r\n")
    copies = [content, windows] if first == b"\n" else [windows, content]
    kept = set()
    for number, copy in enumerate((*copies, windows + b"\r\n")):
        path = tmp_path / f"{number}.out"
        path.write_bytes(copy)
        (file,) = import_files([str(path)], ImportTerms(site="s"), store)
        kept.add(tuple((result.run, result.samples) for result in file.results))
        assert file.status.value == "ok"
    assert len(kept) == 1


def test_a_text_cut_at_its_end_is_not_the_whole_one(tmp_path: Path, store: Store) -> None:
    """Without its end, the last number of the only repetition may be half of one."""
    lines = OUTPUTS["ior"].read_bytes().splitlines(keepends=True)
    last = min(place for place, line in enumerate(lines) if line.startswith(b"write "))
    for name, content in (
        ("cut", b"".join(lines[: last + 1]).rstrip(b"\n")),
        ("row", b"".join(lines[: last + 1])),
    ):
        (tmp_path / name).write_bytes(content)
    (first,) = import_files([str(tmp_path / "cut")], ImportTerms(site="s"), store)
    (second,) = import_files([str(tmp_path / "row")], ImportTerms(site="s"), store)
    assert first.results[0].run != second.results[0].run
    assert second.results[0].new
