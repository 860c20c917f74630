"""The commands, run for real: short writes and reads with every tool that is installed here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support import loopback

from trimtab.base.run import Access, ProbeSpec, RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import phase as workload
from trimtab.formats.format_table import find, names, phases_of
from trimtab.formats.measurement import Measurement
from trimtab.formats.phase import PhaseRequest
from trimtab.reach.launcher import LAUNCHERS
from trimtab.reach.process import execute

pytestmark = pytest.mark.system

MIB = 2**20
SPEC = ProbeSpec("check", "x", 2, MIB, 8 * MIB, 1, 0.4)


def ask(argv: tuple[str, ...]) -> RawOutput:
    return execute(argv, timeout_s=20).raw_output("version")


@dataclass(frozen=True)
class Installed:
    """A tool that is installed here."""

    name: str
    path: str
    wrap: Callable[[tuple[str, ...], int], tuple[str, ...]]

    def run(
        self, spec: ProbeSpec, access: Access, directory: Path, size_bytes: int | None = None
    ) -> tuple[Measurement, RawOutput]:
        benchmark = phases_of(self.name)
        argv = benchmark.arguments(
            PhaseRequest(spec, access, self.path, str(directory), size_bytes=size_bytes)
        )
        result = execute(self.wrap(argv, spec.tasks), timeout_s=60)
        output = result.raw_output(f"{access} 0")
        return benchmark.parse(output), output


@pytest.fixture(params=names("phases"))
def tool(request: pytest.FixtureRequest) -> Installed:
    name: str = request.param
    found = find(name, ask)
    if isinstance(found, NotAvailable):
        pytest.skip(f"{name}: {found.reason}")
    launcher = LAUNCHERS[phases_of(name).launchers[0]]()
    if isinstance(launcher, NotAvailable):
        pytest.skip(f"{name}: {launcher.reason}")
    return Installed(name, found.path, launcher.wrap)


def sizes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in directory.iterdir()}


@pytest.mark.parametrize("direct", [True, False])
def test_write_then_read(tool: Installed, tmp_path: Path, direct: bool) -> None:
    spec = replace(SPEC, direct=direct)
    written, output = tool.run(spec, "write", tmp_path)
    assert written.status is RunStatus.OK, (written.problem, output.stderr)
    held = sizes(tmp_path)
    confirmed = workload.confirm(written, replace(spec, accesses=("write",)), sizes=held)
    assert confirmed.status is RunStatus.OK, confirmed.problem
    (phase,) = written.phases
    assert phase.moved_bytes is not None
    assert phase.elapsed_s is not None
    # IOR counts in whole seconds; stopping takes as long as the transfer in flight.
    assert phase.elapsed_s >= spec.duration_s * 0.9
    assert sum(held.values()) <= phase.moved_bytes
    read, output = tool.run(spec, "read", tmp_path, workload.readable_size_bytes(held, spec))
    assert read.status is RunStatus.OK, (read.problem, output.stderr)
    confirmed = workload.confirm(read, replace(spec, accesses=("read",)), sizes=held)
    assert confirmed.status is RunStatus.OK, confirmed.problem
    assert sizes(tmp_path) == held


def test_data_does_not_compress(tool: Installed, tmp_path: Path) -> None:
    tool.run(replace(SPEC, direct=False), "write", tmp_path)
    blocks: set[bytes] = set()
    total = 0
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        total += len(data) // 4096
        blocks |= {data[start : start + 4096] for start in range(0, len(data), 4096)}
        packed = subprocess.run(["gzip", "-1"], input=data, capture_output=True, check=True).stdout
        assert len(packed) > 0.85 * len(data)
    assert len(blocks) > 0.99 * total > 0


def test_name_with_everything_in_it(tool: Installed, tmp_path: Path) -> None:
    directory = tmp_path / "sp ace:%d$ncpus,é;'\"#"
    directory.mkdir()
    written, output = tool.run(replace(SPEC, direct=False), "write", directory)
    assert written.status is RunStatus.OK, (written.problem, output.stderr)
    assert len(sizes(directory)) == SPEC.tasks


def test_missing_files_are_not_made_by_a_read(tool: Installed, tmp_path: Path) -> None:
    read, _ = tool.run(SPEC, "read", tmp_path, 4 * MIB)
    assert read.status is RunStatus.FAILED
    assert "No such file" in (read.problem or "")
    assert sizes(tmp_path) == {}


def test_short_files_are_not_extended_by_a_read(tool: Installed, tmp_path: Path) -> None:
    tool.run(replace(SPEC, direct=False), "write", tmp_path)
    held = {path.name: 2 * MIB for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        with path.open("r+b") as file:
            file.truncate(2 * MIB)
    tool.run(SPEC, "read", tmp_path, 4 * MIB)  # fails or reads what is there: but changes nothing
    assert sizes(tmp_path) == held


@loopback.needs_loop_devices()
def test_full_file_system(tool: Installed, tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, fs="ext4", size_bytes=64 * MIB) as scratch:
        directory = scratch.mount_point / "probe"
        directory.mkdir()
        spec = replace(SPEC, block_size_bytes=256 * MIB, duration_s=20.0)
        written, output = tool.run(spec, "write", directory)
        assert written.status in (RunStatus.PARTIAL, RunStatus.FAILED)
        assert "No space left on device" in (written.problem or ""), output.stderr
        assert output.exit_code != 0
