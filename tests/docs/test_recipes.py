"""Recipes of CONTRIBUTING.md, followed in a copy of the program: no place but those they name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import trimtab

pytestmark = pytest.mark.cli

FORMAT = '''
"""What a made-up tool prints: ``copier 1: wrote 3000000 B/s``."""

import re
from typing import Final

from trimtab.base.error import DataError
from trimtab.base.run import RunStatus, Sample
from trimtab.formats.measurement import Measurement, OutputFile, OutputFormat

LINE: Final = re.compile(r"copier 1: wrote ([0-9]{1,15}) B/s")


def read(source: OutputFile) -> tuple[Measurement, ...]:
    found = LINE.match(source.text)
    if found is None:
        raise DataError(f"{source.name}:1: no line of copier")
    bandwidth = Sample("write_bandwidth", float(found[1]), 0, output=0, line=1)
    return (Measurement("copier", RunStatus.OK, samples=(bandwidth,), layer="client"),)


FORMAT: Final = OutputFormat("copier", lambda file: LINE.match(file.head) is not None, read)
'''
BENCHMARK = '    Benchmark("copier", "import", "copier", "its line", layer="client"),\n'
FINDING = '''

def a_drive_at_all(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding for a path that lies on anything."""
    yield Finding(
        id="a-drive-at-all",
        severity=Severity.INFO,
        title="There is a file system",
        target=observed.target,
        seen=Seen(1.0, "file systems", "at the path"),
        source="mountinfo",
        why="It was asked for.",
        fix=Fix("Nothing is to be done."),
        confidence=0.9,
    )
'''


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return the package in a copy that may be edited."""
    source = Path(trimtab.__file__).parent
    return shutil.copytree(
        source, tmp_path / "src" / "trimtab", ignore=shutil.ignore_patterns("__pycache__")
    )


def insert(path: Path, before: str, text: str) -> None:
    """Write text before the last place where a file has these words."""
    content = path.read_text()
    place = content.rindex(before)
    path.write_text(content[:place] + text + content[place:])


def run(copy: Path, *arguments: str, codes: Sequence[int] = (0,)) -> dict[str, Any]:
    """Return the ``--json`` of a command of the copy."""
    program = "import sys; from trimtab.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, *arguments, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(copy.parent), "HOME": str(copy.parent)}
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode in codes, ended.stderr
    return json.loads(ended.stdout)


def test_a_format_is_a_file_and_a_line_of_the_table(copy: Path, tmp_path: Path) -> None:
    (copy / "formats" / "copier.py").write_text(FORMAT.lstrip())
    insert(copy / "formats" / "format_table.py", '    Benchmark(\n        "ost-survey",', BENCHMARK)
    output = tmp_path / "night.out"
    output.write_text("copier 1: wrote 3000000 B/s\n")
    at = ("--at", "2026-03-01T02:00:00Z", "--site", "recipe", "--store", str(tmp_path / "store.db"))
    for kind, new in ((), True), (("--kind", "copier"), False):
        (file,) = run(copy, "import", str(output), *kind, *at)["files"]
        (result,), (sample,) = file["results"], file["samples"]
        assert (file["kind"], file["status"], result["new"]) == ("copier", "ok", new)
        assert (sample["value"], sample["unit"], sample["line"]) == (3e6, "B/s", 1)


def test_a_finding_is_a_function_and_a_line_of_the_table(copy: Path, tmp_path: Path) -> None:
    module = copy / "explain" / "drive_finding.py"
    module.write_text(module.read_text() + FINDING)
    table = copy / "explain" / "finding_table.py"
    insert(table, "    drive_link_slow,\n    drive_media_errors,", "    a_drive_at_all,\n")
    insert(table, '    "probe-files-left":', '    "a-drive-at-all": a_drive_at_all,\n')
    findings = run(copy, "check", str(tmp_path), "--no-probe", codes=(0, 1))["findings"]
    (found,) = [finding for finding in findings if finding["id"] == "a-drive-at-all"]
    assert found["seen"]["what"] == "at the path"
