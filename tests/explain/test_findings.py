"""Every finding: seen where it should be, silent where it should not, and its fix complete."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.finding import Finding, Severity
from trimtab.base.run import Sample
from trimtab.base.site import SiteLimits
from trimtab.base.snapshot import Reading, Target, TargetSnapshot, TrimPractice
from trimtab.explain.drive_finding import ObservedTarget
from trimtab.explain.finding_table import TABLE, find_all

GIB = 1024**3
FLASH = BlockDevice(
    "nvme0n1",
    "disk",
    rotational=False,
    writeback_throttling_s=0.0,
    discard_granularity_bytes=4096,
    discard_max_bytes=2**31,
)


def path(*devices: BlockDevice) -> PathDescription:
    return PathDescription(
        "/scratch", "/scratch", "/scratch", "local", "ext4", "/dev/x", devices=devices or (FLASH,)
    )


def snapshot(*readings: Reading, used: float = 0.5) -> TargetSnapshot:
    space = (
        Reading("used_bytes", int(100 * GIB * used), source="statvfs"),
        Reading("available_bytes", int(100 * GIB * (1 - used)), source="statvfs"),
    )
    return TargetSnapshot(Target("/scratch", "file-system"), (*space, *readings))


def healthy(**changes) -> ObservedTarget:
    observed = ObservedTarget(
        path(),
        snapshot(
            Reading("errors_total", 0, source="sysfs"),
            Reading("inodes_total", 1000, source="statvfs"),
            Reading("inodes_free", 900, source="statvfs"),
            Reading("free_space_fragmented_fraction", 0.0, source="procfs"),
            Reading("drive_percentage_used", 0.01, source="nvme", label="nvme0n1"),
            Reading("drive_media_errors_total", 0, source="nvme", label="nvme0n1"),
            Reading("drive_write_amplification", 1.4, source="nvme", label="nvme0n1"),
            *allocator(requests=1000, useless=0),
        ),
        before=snapshot(*allocator(requests=0, useless=0)),
        trim=TrimPractice(timer_active=True, trimmed_since_mount=True),
        samples=(Sample("read_bandwidth", 1e9, repetition=0),),
    )
    return replace(observed, **changes)


def found(**changes) -> tuple[Finding, ...]:
    """Return what is found of a target that is healthy but for these changes."""
    return find_all([healthy(**changes)])


def allocator(*, requests: float, useless: float) -> tuple[Reading, ...]:
    return (
        Reading("allocator_requests_total", requests, source="mb_stats"),
        Reading("allocator_useless_loops_total", useless, source="mb_stats", label="goal_fast"),
        Reading("allocator_useless_loops_total", 0, source="mb_stats", label="any_free"),
    )


def drives(count: int, **changes) -> tuple[BlockDevice, ...]:
    members = tuple(replace(FLASH, name=f"nvme{i}n1", **changes) for i in range(count))
    top = replace(FLASH, name="md0", kind="md", beneath=tuple(member.name for member in members))
    return (top, *members)


ROTATING = replace(
    FLASH, name="sda", rotational=True, writeback_throttling_s=0.075, discard_max_bytes=0
)

CASES = {
    "gone-read-only": healthy(path=replace(path(), options=("rw", "emergency_ro"))),
    "array-degraded": healthy(
        now=snapshot(Reading("degraded", True, source="sysfs", label="md127"))
    ),
    "drive-link-slow": healthy(
        path=path(replace(FLASH, link_bytes_per_s=2e9, link_max_bytes_per_s=8e9))
    ),
    "file-system-errors": healthy(now=snapshot(Reading("errors_total", 2, source="sysfs"))),
    "fullness-over-limit": healthy(now=snapshot(used=0.8)),
    "inodes-nearly-used": healthy(
        now=snapshot(
            Reading("inodes_total", 1000, source="statvfs"),
            Reading("inodes_free", 10, source="statvfs"),
        )
    ),
    "no-discard": healthy(path=path(replace(FLASH, discard_max_bytes=0))),
    "never-trimmed": healthy(
        trim=TrimPractice(
            timer_active=False,
            trimmed_since_mount=False,
            sources={"trimmed_since_mount": "/sys/fs/ext4/x/last_trim_minblks"},
        )
    ),
    "writeback-throttling-on": healthy(path=path(replace(FLASH, writeback_throttling_s=0.002))),
    "allocator-useless-loops": healthy(now=snapshot(*allocator(requests=1000, useless=24))),
    "free-space-fragmented": healthy(
        now=snapshot(Reading("free_space_fragmented_fraction", 0.97, source="procfs"))
    ),
    "drive-wear": healthy(
        now=snapshot(Reading("drive_percentage_used", 0.85, source="nvme", label="nvme0n1"))
    ),
    "drive-media-errors": healthy(
        now=snapshot(Reading("drive_media_errors_total", 3, source="nvme", label="nvme0n1"))
    ),
    "drive-write-amplification": healthy(
        now=snapshot(Reading("drive_write_amplification", 4.1, source="nvme", label="nvme0n1"))
    ),
    "cached-read": healthy(
        samples=(Sample("read_bandwidth", 9e9, repetition=0, reason="served from a cache"),)
    ),
    "probe-files-left": healthy(left_behind=("/scratch/.trimtab-1",)),
}


def test_every_finding_has_a_case():
    assert set(CASES) == set(TABLE)


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_nothing_else(name):
    findings = find_all([CASES[name]])
    assert [finding.id for finding in findings] == [name]
    finding = findings[0]
    assert finding.target == "/scratch"
    assert finding.seen.value is not None
    assert finding.source
    assert finding.why
    assert finding.fix.prose


def test_a_healthy_system_yields_nothing():
    assert found() == ()


def test_nothing_known_yields_nothing():
    bare = ObservedTarget(
        replace(path(), devices=(), kind="opaque"),
        TargetSnapshot(Target("/mnt", "file-system"), ()),
    )
    assert find_all([bare]) == ()


def test_a_rotational_device_gets_no_flash_advice():
    everything_off = healthy(
        path=path(ROTATING), trim=TrimPractice(timer_active=False, trimmed_since_mount=False)
    )
    assert find_all([everything_off]) == ()


def test_fullness_on_a_rotational_device_is_a_note_without_trim():
    (finding,) = found(path=path(ROTATING), now=snapshot(used=0.8))
    assert finding.id == "fullness-over-limit"
    assert finding.severity is Severity.INFO
    assert "trim" not in (finding.why + finding.fix.prose).lower()
    assert finding.fix.argv == ()


def test_fullness_at_the_limit_is_not_over_it():
    assert found(now=snapshot(used=0.75)) == ()
    assert found(now=snapshot(used=0.75), limits=SiteLimits(fullness=0.7)) != ()


@pytest.mark.parametrize(
    "name", ["fullness-over-limit", "inodes-nearly-used", "no-discard", "never-trimmed"]
)
def test_an_image_that_takes_no_writes_is_full_by_nature(name):
    case = CASES[name]
    image = replace(case, path=replace(case.path, read_only=True))
    assert find_all([image]) == ()
    remounted = replace(
        case,
        now=TargetSnapshot(
            case.now.target, (*case.now.readings, Reading("read_only", True, source="statvfs"))
        ),
    )
    assert find_all([remounted]) == ()


@pytest.mark.parametrize(
    ("device", "trims"),
    [
        (FLASH, True),
        (replace(FLASH, discard_max_bytes=0), False),
        (replace(FLASH, discard_max_bytes=None), False),
        (replace(FLASH, discard_granularity_bytes=0), False),
    ],
)
@pytest.mark.parametrize("name", ["fullness-over-limit", "drive-write-amplification"])
def test_fstrim_is_advised_where_it_works(name, device, trims):
    case = replace(CASES[name], path=path(device))
    finding = next(finding for finding in find_all([case]) if finding.id == name)
    assert (finding.fix.argv[:1] == ("fstrim",)) is trims
    assert ("trim" in finding.fix.prose.lower()) is trims


@pytest.mark.parametrize("name", ["pmem0", "ram0", "nbd0", "drbd0", "zram0", "rbd0", "bcache0"])
def test_what_does_not_turn_is_not_always_flash(name):
    device = replace(
        FLASH, name=name, kind="other", writeback_throttling_s=0.075, discard_max_bytes=0
    )
    description = path(device)
    assert description.is_flash is None
    assert found(path=description) == ()
    layer = replace(FLASH, name="dm-0", kind="device-mapper", beneath=(name,))
    assert path(layer, device).is_flash is None


@pytest.mark.parametrize("name", ["nvme0n1", "nvme0c1n1", "sda", "sdaa", "vda", "mmcblk0", "loop7"])
def test_drives_that_say_whether_they_turn(name):
    device = replace(FLASH, name=name)
    assert path(device).is_flash is True
    assert path(replace(device, rotational=True)).is_flash is False
    assert path(replace(device, rotational=None)).is_flash is None
    layer = replace(FLASH, name="md0", kind="md", beneath=(name,))
    assert path(layer, device).is_flash is True


def test_a_schedule_that_is_not_seen_makes_a_weak_note():
    trim = TrimPractice(
        trimmed_since_mount=False,
        discarded_bytes=0,
        reasons={"timer_active": "systemd does not run here"},
    )
    (finding,) = found(trim=trim)
    assert finding.id == "never-trimmed"
    assert finding.severity is Severity.INFO
    assert finding.confidence <= 0.4
    assert "systemd does not run here" in finding.fix.prose


def test_direct_io_is_advised_to_those_who_did_not_use_it():
    (finding,) = find_all([CASES["cached-read"]])
    assert finding.fix.argv == ()
    (finding,) = find_all([replace(CASES["cached-read"], direct=False)])
    assert finding.fix.argv == ("trimtab", "check", "/scratch", "--direct")


@pytest.mark.parametrize("kind", ["device-mapper", "md"])
def test_a_layer_without_discard_is_named_and_no_protection_is_given_up(kind):
    layer = replace(FLASH, name="layer0", kind=kind, discard_max_bytes=0, beneath=("nvme0n1",))
    (finding,) = found(path=path(layer, FLASH))
    assert finding.id == "no-discard"
    assert finding.fix.argv == ()
    assert "layer0" in finding.fix.prose
    assert "costs" in finding.fix.prose
    for forbidden in ("--allow-discards", "devices_handle_discard_safely", "crypttab"):
        assert forbidden not in finding.fix.prose


@pytest.mark.parametrize("name", ["drive-write-amplification", "allocator-useless-loops"])
def test_limits_from_a_simulation_say_so(name):
    (finding,) = find_all([CASES[name]])
    assert "in a simulation" in finding.why.lower()
    assert finding.confidence <= 0.6


@pytest.mark.parametrize(
    ("options", "read_only", "errors", "confidence"),
    [
        (("rw", "shutdown"), False, 0, 0.95),
        (("rw", "ro"), True, 2, 0.9),  # before emergency_ro: the superblock alone says ro
        (("ro",), True, 2, 0.5),
        (("ro",), True, 0, None),
        (("rw", "ro"), True, None, None),
        (("rw", "errors=remount-ro"), False, 2, None),
    ],
)
def test_who_made_it_read_only(options, read_only, errors, confidence):
    counted = () if errors is None else (Reading("errors_total", errors, source="sysfs"),)
    observed = healthy(
        path=replace(path(), options=options, read_only=read_only), now=snapshot(*counted)
    )
    findings = [finding for finding in find_all([observed]) if finding.id == "gone-read-only"]
    assert [finding.confidence for finding in findings] == (
        [] if confidence is None else [confidence]
    )


def test_an_array_with_all_its_drives_is_no_finding():
    arrays = snapshot(
        Reading("degraded", False, source="sysfs", label="md1"),
        Reading("degraded", True, source="sysfs", label="md2"),
    )
    (finding,) = found(now=arrays)
    assert finding.severity is Severity.CRITICAL
    assert finding.fix.argv == ("mdadm", "--detail", "/dev/md2")


@pytest.mark.parametrize(
    ("rates", "best", "slow"),
    [
        ((4e9, 4e9), 8e9, False),  # a dual-port drive: two lanes on each side
        ((4e9, 2e9), 8e9, True),
        ((4e9, None), 8e9, False),  # one side is not seen: nothing is known of the sum
        ((4e9, 4e9), None, False),
    ],
)
def test_the_ports_of_one_drive_count_together(rates, best, slow):
    legs = tuple(
        replace(FLASH, name=f"nvme0c{i}n1", link_bytes_per_s=rate, link_max_bytes_per_s=best)
        for i, rate in enumerate(rates)
    )
    head = replace(FLASH, kind="nvme-multipath", beneath=tuple(leg.name for leg in legs))
    findings = found(path=path(head, *legs))
    assert [finding.id for finding in findings] == (["drive-link-slow"] if slow else [])


def test_throttling_is_a_note_on_one_drive_and_a_warning_over_several():
    (note,) = find_all([CASES["writeback-throttling-on"]])
    assert note.severity is Severity.INFO
    assert note.fix.argv[-1] == "/sys/class/block/nvme0n1/queue/wbt_lat_usec"
    (warning,) = found(path=path(*drives(12, writeback_throttling_s=0.002)))
    assert warning.severity is Severity.WARNING
    assert len(warning.fix.argv) == 4 + 12
    assert len(warning.evidence) == 11


def test_a_partition_does_not_count_its_disk_twice():
    disk = replace(FLASH, writeback_throttling_s=0.002)
    partition = replace(disk, name="nvme0n1p1", kind="partition", beneath=("nvme0n1",))
    (finding,) = found(path=path(partition, disk))
    assert finding.severity is Severity.INFO
    assert finding.evidence == ()


def test_a_drive_with_two_paths_is_one_drive():
    paths = tuple(
        replace(FLASH, name=f"nvme0c{i}n1", writeback_throttling_s=0.002) for i in range(2)
    )
    head = replace(
        FLASH,
        kind="nvme-multipath",
        beneath=("nvme0c0n1", "nvme0c1n1"),
        writeback_throttling_s=None,
    )
    (finding,) = found(path=path(head, *paths))
    assert finding.severity is Severity.INFO
    assert len(finding.fix.argv) == 4 + 2


def test_what_lies_behind_a_loop_device_is_not_throttled_by_it():
    behind = replace(FLASH, name="nvme1n1", writeback_throttling_s=0.002)
    loop = replace(FLASH, name="loop0", kind="loop", beneath=("nvme1n1",))
    assert found(path=path(loop, behind)) == ()


@pytest.mark.parametrize(
    ("fraction", "severity"),
    [(0.2, None), (0.3, Severity.INFO), (0.6, Severity.WARNING), (1.0, Severity.WARNING)],
)
def test_how_much_free_space_is_in_pieces(fraction, severity):
    now = snapshot(
        Reading("free_space_fragmented_fraction", fraction, source="procfs"),
        Reading("free_extent_mean_bytes", 65536, source="procfs"),
    )
    findings = found(now=now)
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])
    assert all(finding.evidence[0].value == 65536 for finding in findings)


def test_a_small_mean_alone_is_no_finding():
    """A few small holes beside one large piece make a small mean, and cost nothing."""
    now = snapshot(Reading("free_extent_mean_bytes", 65536, source="procfs"))
    assert found(now=now) == ()


def test_useless_loops_name_the_criteria_that_grew():
    before = snapshot(*allocator(requests=500, useless=1000))
    quiet = healthy(before=before, now=snapshot(*allocator(requests=900, useless=1000)))
    assert find_all([quiet]) == ()
    growing = healthy(before=before, now=snapshot(*allocator(requests=900, useless=1100)))
    (finding,) = find_all([growing])
    assert "goal_fast 100" in finding.title
    assert "any_free" not in finding.title
    assert finding.seen.value == pytest.approx(0.25)


def test_useless_loops_without_a_probe_are_counted_since_the_start():
    (finding,) = find_all(
        [healthy(before=None, now=snapshot(*allocator(requests=1000, useless=24)))]
    )
    assert "since the counters started" in finding.title
    assert finding.confidence < 0.9


def test_counters_that_were_reset_are_not_a_growth():
    observed = healthy(
        before=snapshot(*allocator(requests=5000, useless=500)),
        now=snapshot(*allocator(requests=100, useless=0)),
    )
    assert find_all([observed]) == ()


@pytest.mark.parametrize(
    ("trim", "expected"),
    [
        (TrimPractice(mount_option="discard", trimmed_since_mount=False), False),
        (TrimPractice(scheduled=("/etc/cron.daily/fstrim",), trimmed_since_mount=False), False),
        (TrimPractice(timer_active=False, trimmed_since_mount=True), False),
        (TrimPractice(timer_active=False, discarded_bytes=0), True),
        (TrimPractice(timer_active=False, discarded_bytes=4096), False),
        (TrimPractice(), False),
    ],
)
def test_never_trimmed_needs_evidence(trim, expected):
    assert bool(found(trim=trim)) is expected


def test_reads_through_a_loop_are_no_fault_of_the_file_system():
    loop = replace(FLASH, name="loop0", kind="loop", direct_to_backing=False)
    assert find_all([replace(CASES["cached-read"], path=path(loop))]) == ()


def test_worst_comes_first():
    worn = snapshot(
        Reading("errors_total", 1, source="sysfs"),
        Reading("drive_percentage_used", 0.85, source="nvme", label="nvme0n1"),
        used=0.8,
    )
    findings = found(now=worn, left_behind=("/scratch/.trimtab-1",))
    ranks = [finding.severity.rank for finding in findings]
    assert ranks == sorted(ranks)
    assert findings[0].id == "file-system-errors"
    assert findings[-1].id == "probe-files-left"
