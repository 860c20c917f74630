"""fio on whole drives or RAID devices: what lies beneath the file system.

The measurement is the one in appendix A of the HPE Cray E2000 paper: every drive of a controller at
the same time, in large sequential transfers, and then every RAID device. Each device is a reporting
group of its own here (``new_group``), so that one slow drive shows; the groups run together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from trimtab.errors import RefusedError, UsageError
from trimtab.model.run import Access
from trimtab.units import enumerated

Engine = Literal["libaio", "posixaio", "io_uring"]
ENGINES: Final[tuple[Engine, ...]] = ("libaio", "posixaio", "io_uring")
_DEVICE: Final = re.compile(r"/dev/[A-Za-z0-9_.+@=/-]+\Z")
"""No colon (fio splits names at it), no ``$`` (it expands it), nothing that ends a name or line."""


@dataclass(frozen=True, slots=True)
class DeviceTest:
    """What to do with whole devices.

    Attributes
    ----------
    devices
        Paths of the devices; all work at the same time.
    transfer_size_bytes
        Of one read or write.
    queue_depth
        Requests that each task keeps under way.
    tasks_per_device
        Processes on each device. Without ``region_bytes`` all of them start at the same place.
    duration_s, ramp_s
        Measured time, and what runs before it and does not count.
    offset_bytes
        Where on the device to begin. A device that two controllers share is read from 0 by one and
        from its middle by the other.
    region_bytes
        What each task has of the device for itself, one behind the other; ``None``: all the whole.
    random
        At random places instead of one after another; with 4 KiB it is what data sheets call IOPS.
    engine
        fio's; ``posixaio`` is glibc's threads, one request of a file at a time.
    """

    devices: tuple[str, ...]
    transfer_size_bytes: int = 4 * 2**20
    queue_depth: int = 64
    tasks_per_device: int = 16
    duration_s: float = 60.0
    ramp_s: float = 5.0
    offset_bytes: int = 0
    region_bytes: int | None = None
    random: bool = False
    engine: Engine = "libaio"


def device_command(
    test: DeviceTest, access: Access, *, program: str, destroy: bool = False
) -> tuple[str, ...]:
    """Return the command that measures whole devices; it prints JSON+ for `results.read`.

    Reading harms nothing: ``readonly`` makes fio refuse to open a device for writing.

    Parameters
    ----------
    program
        Path of ``fio``.
    destroy
        Must be true for a write. **A write replaces what is on the devices: partitions, RAID
        members, file systems. There is no way back.** Whoever passes it has asked a person who
        named these devices.

    Raises
    ------
    RefusedError
        A write without ``destroy``.
    UsageError
        No devices, one twice, a name that is no device or that fio would take apart, or a size that
        does not fit.
    """
    _check(test, access, destroy=destroy)
    argv = [program, "--output-format=json+", "--eta=never"]
    if access == "read":
        argv.append("--readonly")
    for section, options in _sections(test, access):
        argv.append(f"--name={section}")
        argv += [f"--{name}={value}" for name, value in options]
    return tuple(argv)


def device_job_file(test: DeviceTest, access: Access, *, destroy: bool = False) -> str:
    """Return the same as a job file, for a person to look through and run.

    It cannot carry ``--readonly``: that is an option of the command line.

    Raises
    ------
    RefusedError, UsageError
        As `device_command`.
    """
    _check(test, access, destroy=destroy)
    lines: list[str] = []
    for section, options in _sections(test, access):
        lines += [f"[{section}]", *(f"{name}={value}" for name, value in options), ""]
    return "\n".join(lines)


def _check(test: DeviceTest, access: Access, *, destroy: bool) -> None:
    for device in test.devices:
        if not _DEVICE.match(device) or ".." in PurePosixPath(device).parts:
            raise UsageError(
                f"{device!r} is not a device path that fio accepts",
                code="device-invalid",
                hint="name it as /dev/nvme0n1 or /dev/md0",
            )
    if not test.devices or len(set(test.devices)) != len(test.devices):
        raise UsageError("name at least one device, each only once", code="devices-invalid")
    if test.engine not in ENGINES:
        raise UsageError(
            f"{test.engine!r} is not an engine: use {', '.join(ENGINES)}", code="engine-unknown"
        )
    if test.transfer_size_bytes <= 0 or test.transfer_size_bytes % 512:
        raise UsageError(
            "O_DIRECT needs a transfer size that is a multiple of 512 bytes",
            code="transfer-size-invalid",
        )
    if min(test.queue_depth, test.tasks_per_device, test.duration_s) <= 0 or test.ramp_s < 0:
        raise UsageError(
            "queue depth, tasks and duration of a device test must be greater than 0",
            code="test-parameters-invalid",
        )
    if test.offset_bytes < 0 or test.offset_bytes % 512:
        raise UsageError("the offset must be a multiple of 512 bytes", code="offset-invalid")
    region_bytes = test.region_bytes
    if region_bytes is not None and (
        region_bytes < test.transfer_size_bytes or region_bytes % test.transfer_size_bytes
    ):
        raise UsageError(
            "the region of a task must be a multiple of the transfer size", code="region-invalid"
        )
    if access == "write" and not destroy:
        raise RefusedError(
            f"writing to {enumerated(test.devices, 3)} destroys what is on it",
            code="device-write-refused",
            hint="measure reads only, or write to files on a file system",
        )


def _sections(test: DeviceTest, access: Access) -> Iterator[tuple[str, list[tuple[str, object]]]]:
    """Yield each section of the job file: name, and the options in order.

    Flags have ``=1``: fio up to 3.36 does not echo one without a value, and the reader needs to
    know that the groups ran together.
    """
    common: list[tuple[str, object]] = [
        ("rw", f"rand{access}" if test.random else access),
        ("bs", test.transfer_size_bytes),
        ("direct", 1),
        ("ioengine", test.engine),
        ("iodepth", test.queue_depth),
        ("numjobs", test.tasks_per_device),
        ("group_reporting", 1),
        ("time_based", 1),
        ("runtime", f"{math.ceil(test.duration_s * 1000)}ms"),
        ("ramp_time", f"{math.ceil(test.ramp_s * 1000)}ms"),
        ("offset", test.offset_bytes),
        # A mistyped name would otherwise become a file that fills the memory behind /dev.
        ("allow_file_create", 0),
        ("percentile_list", "50:90:99:99.9"),
    ]
    if test.random:
        # The map of blocks that were hit needs memory for every block, and makes threads wait.
        common.append(("norandommap", 1))
    if test.region_bytes is not None:
        common += [("size", test.region_bytes), ("offset_increment", test.region_bytes)]
    yield "global", common
    for device in test.devices:
        name = device.removeprefix("/dev/").replace("/", "-")
        yield name, [("new_group", 1), ("filename", device)]
