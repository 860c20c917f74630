"""Compare the built-in load generator with fio: same files, same parameters, interleaved pairs.

What bounds both is the device (direct mode) or the kernel's copy (buffered mode): a generator is
good when its bandwidth is that of fio and its processor time per byte is no more. Run it on a quiet
machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
# As users run it: the console script beside this interpreter.
PROGRAM = str(Path(sys.executable).parent / "trimtab-ioload")
Tool = Literal["ioload", "fio"]
Access = Literal["write", "read"]
ACCESSES: tuple[Access, ...] = ("write", "read")
BANDWIDTH_RATIO_LIMITS = (0.9, 1.1)
CPU_RATIO_LIMIT = 1.1
INTERVAL_LEVEL = 0.95
LOAD_LIMIT = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """What both tools are asked to do."""

    directory: Path
    tasks: int
    transfer_bytes: int
    block_bytes: int
    duration_s: float
    direct: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one tool; ``cpu_s`` is that of the whole process, start-up included."""

    bytes: int
    bandwidth_bytes_per_s: float
    cpu_s: float

    @property
    def cpu_s_per_gib(self) -> float:
        """Processor seconds for one GiB moved."""
        return self.cpu_s / self.bytes * 1024**3


def ioload_command(workload: Workload, access: Access, *, fill: bool = False) -> list[str]:
    """Command line of the built-in generator; ``fill`` writes every file once."""
    command = [PROGRAM, "--dir", str(workload.directory), "--name", "bench", f"--{access}"]
    command += ["--tasks", str(workload.tasks), "--transfer-size", str(workload.transfer_bytes)]
    command += ["--block-size", str(workload.block_bytes), "--fsync", "--keep", "--overwrite"]
    if not fill:
        duration = str(workload.duration_s)
        command += ["--deadline", duration, "--minimum-duration", duration]
    return [*command, "--direct"] if workload.direct else command


def fio_command(workload: Workload, access: Access) -> list[str]:
    """Command line of fio for the same calls on the same files.

    ``invalidate=0``: fio otherwise drops the files from the page cache first, which makes a
    buffered read another experiment. Buffer contents are left at fio's default (random, scrambled
    for each transfer).
    """
    return [
        *("fio", "--name=bench", f"--directory={workload.directory}"),
        *("--filename_format=bench.0000000$jobnum", f"--rw={access}", "--ioengine=psync"),
        *("--thread", f"--numjobs={workload.tasks}", f"--bs={workload.transfer_bytes}"),
        *(f"--size={workload.block_bytes}", "--time_based", f"--runtime={workload.duration_s}"),
        *("--end_fsync=1", "--invalidate=0", f"--direct={int(workload.direct)}"),
        *("--group_reporting", "--output-format=json"),
    ]


def run(command: Sequence[str]) -> tuple[str, float]:
    """Run a command; return its stdout and the processor seconds of the child and its children.

    Raises
    ------
    SystemExit
        The command failed; its own message comes first.
    """
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
        output.seek(0)
        return output.read(), usage.ru_utime + usage.ru_stime


def measure(tool: Tool, workload: Workload, access: Access) -> Measurement:
    """Run one tool once; bandwidth is the tool's own figure over its own timed region."""
    if tool == "ioload":
        text, cpu_s = run(ioload_command(workload, access))
        report = json.loads(text)
        if report["direct"]["used"] != workload.direct:
            sys.exit(f"direct I/O was not used: {report['direct']['reason']}")
        phase = report["phases"][0]
        return Measurement(phase["bytes"], phase["bandwidth_bytes_per_s"], cpu_s)
    text, cpu_s = run(fio_command(workload, access))
    figures = json.loads(text)["jobs"][0][access]
    return Measurement(figures["io_bytes"], figures["bw_bytes"], cpu_s)


def measure_pairs(
    workload: Workload, access: Access, pairs: int
) -> list[tuple[Measurement, Measurement]]:
    """Pairs of (built-in, fio), in the order A B, B A, A B ... so that a drift meets both alike."""
    measured = []
    for index in range(pairs):
        order: tuple[Tool, Tool] = ("ioload", "fio") if index % 2 == 0 else ("fio", "ioload")
        pair = {tool: measure(tool, workload, access) for tool in order}
        measured.append((pair["ioload"], pair["fio"]))
        rates = [f"{m.bandwidth_bytes_per_s / 1e6:.0f} MB/s" for m in measured[-1]]
        print(f"{access} {index + 1}/{pairs}: ioload {rates[0]}, fio {rates[1]}", file=sys.stderr)
    return measured


def median_interval(values: Sequence[float], level: float) -> tuple[float, float, float]:
    """Median's confidence interval from order statistics, and the level it really has.

    Exact for any continuous distribution: how many of n values lie below the median is binomial
    (n, 1/2). With few values the widest interval may have less than the level asked for.
    """
    ordered, count = sorted(values), len(values)

    def covered(rank: int) -> float:
        return 1 - 2 * sum(math.comb(count, below) for below in range(rank)) / 2**count

    ranks = [rank for rank in range(1, count // 2 + 1) if covered(rank) >= level]
    rank = max(ranks, default=1)
    return ordered[rank - 1], ordered[count - rank], covered(rank)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two series of paired figures; ratios are built-in over fio."""

    ioload_median: float
    fio_median: float
    ratio_of_medians: float
    median_ratio: float
    median_ratio_interval: tuple[float, float]
    level: float


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Medians, their ratio, and the median of the ratios within pairs with its interval."""
    ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
    low, high, level = median_interval(ratios, INTERVAL_LEVEL)
    return Comparison(
        ioload_median=statistics.median(ours),
        fio_median=statistics.median(theirs),
        ratio_of_medians=statistics.median(ours) / statistics.median(theirs),
        median_ratio=statistics.median(ratios),
        median_ratio_interval=(low, high),
        level=level,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """Comparison of one access, with what each goal says."""

    bandwidth_bytes_per_s: Comparison
    bandwidth_goal: Literal["met", "missed"]
    cpu_s_per_gib: Comparison
    cpu_goal: Literal["met", "missed"]
    pairs: list[tuple[Measurement, Measurement]]


def summarize(measured: list[tuple[Measurement, Measurement]]) -> Summary:
    """Judge one access by the medians of all its pairs."""
    bandwidth = compare(
        [ours.bandwidth_bytes_per_s for ours, _ in measured],
        [fio.bandwidth_bytes_per_s for _, fio in measured],
    )
    cpu = compare(
        [ours.cpu_s_per_gib for ours, _ in measured], [fio.cpu_s_per_gib for _, fio in measured]
    )
    least, most = BANDWIDTH_RATIO_LIMITS
    return Summary(
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_goal="met" if least <= bandwidth.ratio_of_medians <= most else "missed",
        cpu_s_per_gib=cpu,
        cpu_goal="met" if cpu.ratio_of_medians <= CPU_RATIO_LIMIT else "missed",
        pairs=measured,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Where this was measured; no path and no host name, which mean nothing elsewhere."""

    cpu: str
    cpus: int
    memory_bytes: int
    kernel: str
    filesystem: str
    device: str
    ioload: str
    fio: str
    load_average_before: float


def machine(directory: Path) -> Machine:
    """Describe this machine and the file system of a directory, which must be on a disk."""
    findmnt = ["findmnt", "--json", "--target", str(directory), "-o", "FSTYPE,SOURCE"]
    mount = json.loads(run(findmnt)[0])["filesystems"][0]
    if mount["fstype"] in {"tmpfs", "ramfs"}:
        sys.exit("the files would be in memory; hint: --dir DIR on a real disk")
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return Machine(
        cpu=models[0] if models else platform.machine(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        kernel=platform.release(),
        filesystem=mount["fstype"],
        device=mount["source"],
        ioload=run([PROGRAM, "--version"])[0].strip(),
        fio=run(["fio", "--version"])[0].strip(),
        load_average_before=os.getloadavg()[0],
    )


def table(at: str, where: Machine, workload: Workload, accesses: dict[Access, Summary]) -> str:
    """The result as a Markdown page."""
    lines = [
        "# Built-in load generator against fio",
        "",
        f"{at}; {where.cpus} x {where.cpu}, {where.memory_bytes / 2**30:.0f} GiB; Linux"
        f" {where.kernel}; {where.filesystem} on {where.device}; {where.ioload}, {where.fio};"
        f" load average before: {where.load_average_before:.2f}.",
        "",
        f"{workload.tasks} tasks (threads), {workload.transfer_bytes / 1024:g} KiB transfers, a"
        f" file of {workload.block_bytes / 2**30:g} GiB each, {workload.duration_s:g} s a run,"
        f" {'O_DIRECT' if workload.direct else 'buffered'}, flushed inside the timed region;"
        " interleaved pairs on the same files. Processor time is that of the whole process.",
        "",
        "| access | pairs | figure | ioload | fio | ratio of medians | median ratio | goal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for access, summary in accesses.items():
        bandwidth, cpu = summary.bandwidth_bytes_per_s, summary.cpu_s_per_gib
        head = f"| {access} | {len(summary.pairs)} |"
        lines.append(f"{head} MB/s |{row(bandwidth, 1e6)} {summary.bandwidth_goal} |")
        lines.append(f"{head} CPU ms/GiB |{row(cpu, 1e-3)} {summary.cpu_goal} |")
    return "\n".join(lines) + "\n"


def row(figures: Comparison, divisor: float) -> str:
    """The figures of one line of the table."""
    low, high = figures.median_ratio_interval
    return (
        f" {figures.ioload_median / divisor:.0f} | {figures.fio_median / divisor:.0f}"
        f" | {figures.ratio_of_medians:.3f}"
        f" | {figures.median_ratio:.3f} [{low:.3f}, {high:.3f}] at {figures.level:.1%} |"
    )


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="prefix of the result: PREFIX.json and PREFIX.md")
    parser.add_argument("--dir", type=Path, help="on the disk to measure [a directory in build/]")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tasks", type=int, choices=range(1, 11), default=2, metavar="1..10")
    parser.add_argument("--transfer-bytes", type=int, default=1024**2)
    parser.add_argument("--block-bytes", type=int, default=1024**3, help="size of each file")
    parser.add_argument("--duration", type=float, default=5.0, help="seconds of one run")
    parser.add_argument("--buffered", action="store_true", help="through the page cache")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, store both forms."""
    options = arguments(argv)
    if shutil.which("fio") is None:
        sys.exit("fio is missing; hint: apt-get install fio")
    mode = "buffered" if options.buffered else "direct"
    out = options.out or ROOT / "benchmarks" / "results" / f"ioload_vs_fio_{mode}"
    parent = options.dir or ROOT / "build"
    parent.mkdir(parents=True, exist_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as directory:
        workload = Workload(
            directory=Path(directory),
            tasks=options.tasks,
            transfer_bytes=options.transfer_bytes,
            block_bytes=options.block_bytes,
            duration_s=options.duration,
            direct=not options.buffered,
        )
        where = machine(workload.directory)
        if os.getloadavg()[0] > LOAD_LIMIT:
            print(f"warning: load average {os.getloadavg()[0]:.2f}: not quiet", file=sys.stderr)
        run(ioload_command(workload, "write", fill=True))
        accesses: dict[Access, Summary] = {
            access: summarize(measure_pairs(workload, access, options.pairs)) for access in ACCESSES
        }
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    asked = {k: v for k, v in dataclasses.asdict(workload).items() if k != "directory"}
    stored = {
        "at": at,
        "machine": dataclasses.asdict(where),
        "workload": asked,
        "accesses": {access: dataclasses.asdict(one) for access, one in accesses.items()},
    }
    page = table(at, where, workload, accesses)
    out.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n")
    out.with_suffix(".md").write_text(page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
