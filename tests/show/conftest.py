"""Check results as a real check yields them: one md array, one plain drive, and nothing at all."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.screens import Lines, lines_of

from trimtab.base.error import Message
from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.finding import Finding, Fix, Missing, Seen, Severity
from trimtab.base.run import LatencyHistogram, RawOutput, Run, RunStatus, Sample, Timeline
from trimtab.base.snapshot import NotAvailable, Reading, Setting, Snapshot, Target, TargetSnapshot
from trimtab.base.verdict import Comparison, HistoryPoint, Interval, Scope, Verdict, VerdictStatus
from trimtab.probe.check_result import CheckResult
from trimtab.probe.page_check import check_document
from trimtab.show.document import render_document

AT = datetime(2026, 11, 20, 17, 38, 2, tzinfo=UTC)
RUN_ID = "01a1f640-bc00-7000-8000-000000000001"
WRITE_BYTES_PER_S = (11.92e9, 11.78e9, 12.01e9, 10.35e9, 11.88e9, 11.95e9)
READ_BYTES_PER_S = (18.2e9, 18.4e9, 18.1e9, 18.3e9, 18.2e9, 63.0e9)
CACHED = "faster than the link of the drives can carry (12 x 1.97 GB/s): read from a cache"


def nvme(index: int, **changes: object) -> BlockDevice:
    drive = BlockDevice(
        f"nvme{index}n1", "disk", 3_840_755_982_336, rotational=False,
        model="SAMSUNG MZWLJ3T8HBLS-00007", transport="nvme", writeback_throttling_s=0.002,
        scheduler="none", write_cache="write through", logical_block_bytes=512,
        discard_granularity_bytes=512, discard_max_bytes=2_199_023_255_040,
        link_bytes_per_s=7.88e9,
    )  # fmt: skip
    return replace(drive, **changes)  # type: ignore[arg-type]


def array(drives: int = 24) -> tuple[BlockDevice, ...]:
    """LVM over two md arrays over partitions of NVMe drives; one drive has throttling off."""
    half = drives // 2
    parts = tuple(f"nvme{index}n1p1" for index in range(drives))
    own = {"scheduler": "none", "writeback_throttling_s": 0.0, "discard_max_bytes": 0}
    md = BlockDevice("md0", "md", 42 * 10**12, False, beneath=parts[:half], **own)  # type: ignore[arg-type]
    lvm = ("dm-3", "device-mapper", 84 * 10**12, False)
    return (
        BlockDevice(*lvm, beneath=("md0", "md1"), **own),  # type: ignore[arg-type]
        md,
        replace(md, name="md1", beneath=parts[half:]),
        *(BlockDevice(each, "partition", 384 * 10**10, beneath=(each[:-2],)) for each in parts),
        *(nvme(index) for index in range(drives - 1)),
        nvme(drives - 1, writeback_throttling_s=0.0, model="INTEL SSDPE2KX040T8"),
    )


def path_of(devices: tuple[BlockDevice, ...], **changes: object) -> PathDescription:
    path = PathDescription(
        path="/scratch",
        real_path="/lustre/scratch",
        mount_point="/lustre/scratch",
        kind="local",
        fs_type="ext4",
        source="/dev/mapper/flash-scratch",
        options=("rw", "noatime", "stripe=256", "errors=remount-ro"),
        fs_uuid="5b0c8c0e-1f0c-4a4e-9d0e-2c7a3c3b9f11",
        device_number="253:3",
        devices=devices,
        notes=("nvme-cli is not installed: SMART data was not read",),
    )
    return replace(path, **changes)  # type: ignore[arg-type]


def samples() -> tuple[Sample, ...]:
    def of(metric: str, values: tuple[float, ...], last_reason: str | None) -> list[Sample]:
        last = len(values) - 1
        return [
            Sample(metric, value, n, output=n, line=12, reason=last_reason if n == last else None)
            for n, value in enumerate(values)
        ]

    return (
        *of("write_bandwidth", WRITE_BYTES_PER_S, None),
        *of("read_bandwidth", READ_BYTES_PER_S, CACHED),
        Sample("write_bandwidth", None, 6, reason="the repetition was cut off after 0.8 s"),
        Sample("write_latency", 0.0004, 0, statistic="p50"),
    )


def timelines() -> tuple[Timeline, ...]:
    chance = random.Random(7)

    def one(access: str, repetition: int, bandwidth: float) -> Timeline:
        moved = [int(bandwidth * 0.1 * chance.uniform(0.9, 1.1)) for _ in range(50)]
        if access == "write" and repetition == 3:
            moved[21:25] = [0, 0, int(bandwidth * 0.003), 0]
        return Timeline(access, repetition, 0.1, tuple(moved))  # type: ignore[arg-type]

    return (
        *(one("write", n, value) for n, value in enumerate(WRITE_BYTES_PER_S)),
        *(one("read", n, value) for n, value in enumerate(READ_BYTES_PER_S)),
    )


def histograms() -> tuple[LatencyHistogram, ...]:
    upper = tuple(1e-4 * 1.05**step for step in range(160))

    def one(access: str, repetition: int, centre: float) -> LatencyHistogram:
        counts = [
            int(8000 * math.exp(-((math.log(value / centre)) ** 2) / 0.18)) for value in upper
        ]
        counts[150] += 3 if access == "write" else 0
        return LatencyHistogram(access, repetition, upper, tuple(counts))  # type: ignore[arg-type]

    return tuple(
        one(access, n, centre)
        for access, centre in (("write", 4e-4), ("read", 6e-4))
        for n in range(6)
    )


def history() -> tuple[HistoryPoint, ...]:
    chance = random.Random(11)
    return tuple(
        HistoryPoint(
            AT - timedelta(hours=40 - n),
            metric,
            0.0 if (n, metric) == (17, "write_bandwidth") else chance.gauss(mean, mean * 0.06),
            (n, metric) == (17, "write_bandwidth"),
            f"run-{n}",
        )
        for metric, mean in (("write_bandwidth", 11.8e9), ("read_bandwidth", 18.2e9))
        for n in range(40)
    )


def verdicts() -> tuple[Verdict, ...]:
    few = Message("repetitions-only", "repetitions back to back say nothing about 48 hours")
    missed = Message("goal-missed", "the interval of the COV lies above the goal of 8 %")
    open_ = Message(
        "goal-in-interval", "the interval of the COV, 5.1 % to 8.4 %, holds the goal of 8 %"
    )
    within, over, unclear = Scope.REPETITIONS, Scope.HISTORY, VerdictStatus.CANNOT_TELL
    write = Verdict("write_bandwidth", "B/s", "check (builtin)", within, unclear, few, 6, goal=0.08)
    write = replace(
        write, mean=11.648e9, mean_interval=Interval(10.99e9, 12.3e9), median=11.9e9,
        slowest=10.35e9, cov=0.0554, cov_interval=Interval(0.0345, 0.1370), mad_cv=0.0087,
    )  # fmt: skip
    read = replace(
        write, metric="read_bandwidth", n=5, mean=18.24e9, mean_interval=Interval(18.1e9, 18.38e9),
        median=18.2e9, slowest=18.1e9, cov=0.0063, cov_interval=Interval(0.0038, 0.0181),
        mad_cv=0.0081,
    )  # fmt: skip
    return (
        write,
        read,
        replace(
            write, scope=over, status=VerdictStatus.MISSED, n=40, unfinished=1, reason=missed,
            mean=11.5e9, mean_interval=None, median=11.8e9, slowest=0.0, cov=0.171,
            cov_finished=0.061, cov_interval=Interval(0.101, 0.24), mad_cv=0.058,
        ),
        replace(
            read, scope=over, n=40, reason=open_, mean=18.2e9, mean_interval=None, slowest=15.9e9,
            cov=0.063, cov_interval=Interval(0.051, 0.084), mad_cv=0.06,
        ),
    )  # fmt: skip


def findings() -> tuple[Finding, ...]:
    return (
        Finding(
            "fullness-over-limit",
            Severity.CRITICAL,
            "81.4 % full, over the limit of 75 %",
            "/lustre/scratch",
            Seen(0.814, "1", "fullness"),
            "statvfs /lustre/scratch",
            "Above 75 % the drives' garbage collection takes bandwidth from writes.",
            Fix("Purge or move data until the use is under 75 %; nothing is deleted for you."),
            0.95,
        ),
        Finding(
            "writeback-throttling-on",
            Severity.WARNING,
            "Write-back throttling at 2.00 ms on 23 of 24 drives beneath one target",
            "/lustre/scratch",
            Seen(0.002, "s", "wbt_lat_usec of nvme0n1"),
            "/sys/block/nvme0n1/queue/wbt_lat_usec",
            "One slow drive throttles the writes of all that stand beneath the same target.",
            Fix(
                "Switch it off on every drive; it comes back after a reboot.",
                ("sh", "-c", "echo 0 > /sys/block/nvme0n1/queue/wbt_lat_usec"),
            ),
            0.8,
            tuple(
                Seen(0.002, "s", f"nvme{n}n1", f"/sys/block/nvme{n}n1/queue/wbt_lat_usec")
                for n in range(3)
            ),
        ),
        Finding(
            "never-trimmed",
            Severity.INFO,
            "No trim is scheduled",
            "/lustre/scratch",
            Seen("inactive", None, "fstrim.timer"),
            "systemctl is-active fstrim.timer",
            "Blocks that the file system has freed stay in use for the drive until a trim.",
            Fix("Switch the weekly trim on.", ("systemctl", "enable", "--now", "fstrim.timer")),
            0.6,
        ),
    )


def snapshot() -> Snapshot:
    source = "statvfs /lustre/scratch"
    readings = (
        Reading("capacity_bytes", 84_000_000_000_000, source),
        Reading("used_bytes", 65_120_000_000_000, source),
        Reading("available_bytes", 14_880_000_000_000, source),
        Reading("inodes_free", 1_250_113_024, source),
        Reading("read_only", False, "/proc/self/mountinfo"),
        Reading("wbt_latency_s", 0.002, "/sys/block/nvme0n1/queue/wbt_lat_usec"),
        Reading("errors_total", 0, "/sys/fs/ext4/dm-3/errors_count"),
        Reading(
            "allocator_useless_loops_total",
            18_220,
            "/proc/fs/ext4/dm-3/mb_stats",
            label="cr_goal_fast",
        ),
        Reading("drive_write_amplification", 1.84, "nvme ocp smart-add-log", label="nvme0n1"),
        Reading("drive_percentage_used", 0.03, "nvme smart-log", label="nvme0n1"),
        Reading("last_trim_at", None, reason="the system keeps no record of trims"),
        Reading("concurrent_jobs", None, reason="no scheduler on this host"),
    )
    target = TargetSnapshot(Target("/lustre/scratch", "file-system"), readings)
    return Snapshot(AT, "local", True, (target,))


def run() -> Run:
    outputs = tuple(
        RawOutput(
            f"{access} {n}",
            ("trimtab-ioload", "--access", access, "--path", "/scratch/my dir", "--direct"),
            f"{access} {n}".encode(),
            exit_code=0,
            started_at=AT,
            elapsed_s=5.2,
        )
        for n in range(6)
        for access in ("write", "read")
    )
    return Run(
        RUN_ID,
        "scratch",
        "check",
        "builtin",
        RunStatus.OK,
        AT,
        AT + timedelta(seconds=70),
        tool_version="trimtab-ioload 0.1.0",
        path="/scratch",
        host="oss01",
        parameters={
            "transfer_size_bytes": 1 << 20,
            "block_size_bytes": 4 << 30,
            "tasks": 8,
            "duration_s": 5.0,
            "direct": True,
            "accesses": ["write", "read"],
        },
        samples=samples(),
        outputs=outputs,
    )


@pytest.fixture
def canned_drawings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Draw nothing in a test."""
    return draw_nothing(monkeypatch)


def draw_nothing(patch: pytest.MonkeyPatch) -> list[str]:
    """Draw nothing, which takes most of a page's time; return the specifications that come."""
    import vl_convert

    specifications: list[str] = []

    def canned(specification: str, **_: object) -> str:
        specifications.append(specification)
        return '<svg width="440" height="200"><path d="M0,0"/></svg>'

    patch.setattr(vl_convert, "vegalite_to_svg", canned)
    return specifications


def rows_of(node: Any) -> list[dict[str, Any]]:
    """Return every row of data in a specification, wherever it stands."""
    found: list[dict[str, Any]] = []
    if isinstance(node, dict):
        data = node.get("data")
        found += (data.get("values") or []) if isinstance(data, dict) else []
        found += [row for rows in node.get("datasets", {}).values() for row in rows]
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        found += rows_of(each)
    return found


@pytest.fixture
def on_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Return what prints a screen and returns its lines."""
    return lines_of(capsys, monkeypatch)


@pytest.fixture(scope="session")
def full() -> CheckResult:
    return full_result()


def full_result() -> CheckResult:
    """Everything there is: 24 drives, three findings, charts, history, missing values."""
    return CheckResult(
        site="scratch",
        at=AT,
        host="oss01.example",
        trimtab_version="0.1.0",
        path=path_of(array()),
        snapshot=snapshot(),
        settings={
            "/lustre/scratch": {
                "mb_stats": Setting("mb_stats", "1", "/sys/fs/ext4/dm-3/mb_stats"),
                "fstrim": NotAvailable("systemd does not run here"),
            }
        },
        run=run(),
        verdicts=verdicts(),
        comparisons=(
            Comparison(
                "write_bandwidth",
                "B/s",
                "check",
                40,
                11.8e9,
                11.9e9,
                1.0085,
                Interval(0.97, 1.04),
                Message("within-earlier", "within the spread of the earlier runs"),
            ),
        ),
        findings=findings(),
        not_available=(Missing("NVMe SMART", "nvme-cli is not installed"),),
        timelines=timelines(),
        histograms=histograms(),
        history=history(),
    )


@pytest.fixture(scope="session")
def full_html(full: CheckResult) -> str:
    """The page of it, drawn once for all tests."""
    return render_document(check_document(full))


@pytest.fixture(scope="session")
def undrawn(full: CheckResult) -> CheckResult:
    """All of it but what is drawn: for tests of everything else."""
    return replace(full, run=None, timelines=(), histograms=(), history=())


@pytest.fixture(scope="session")
def healthy(full: CheckResult) -> CheckResult:
    """One drive, no findings, first run."""
    part = BlockDevice("nvme0n1p2", "partition", 500_000_000_000, beneath=("nvme0n1",))
    return replace(
        full,
        path=path_of((part, nvme(0)), path="/lustre/scratch", notes=()),
        findings=(),
        verdicts=verdicts()[:2],
        comparisons=(),
        history=(),
        not_available=(),
    )


@pytest.fixture(scope="session")
def empty() -> CheckResult:
    """A path into which nothing can be seen and on which nothing was measured."""
    path = PathDescription("/fuse", "/fuse", "/fuse", "opaque", "fuse.sshfs", "host:/dir")
    return CheckResult(
        "host:/dir:/fuse", AT, "login1", "0.1.0", path, Snapshot(AT, "local", False, ()), {}
    )
