"""Detects how a file system is trimmed (mount option, timer, cron), and runs fstrim."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from trimtab.base.filesystem import BlockDevice, PathDescription, unescape
from trimtab.base.snapshot import NotAvailable, TrimPractice, not_available
from trimtab.reach.host import Host, read_bytes_of, run_tool
from trimtab.reach.process import Execute

_TIMER: Final = "fstrim.timer"
_SYSTEMCTL_TIMEOUT_S: Final = 10.0
_UNIT_DIRECTORIES: Final = (
    # In systemd's own order of precedence, systemd.unit(5).
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_CRON_DIRECTORIES: Final = (
    "/etc/cron.d",
    "/etc/cron.hourly",
    "/etc/cron.daily",
    "/etc/cron.weekly",
    "/etc/cron.monthly",
    "/var/spool/cron",
    "/var/spool/cron/crontabs",
)
_LARGEST_BLOCK_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
"""An ext4 block is no larger than a memory page: 4 KiB on x86, up to 64 KiB elsewhere."""
_TRIMMED: Final = re.compile(r"\((\d+) bytes\) trimmed")
_TIMESTAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:UTC|GMT)")


@dataclass(frozen=True, slots=True)
class Timer:
    """State of systemd's ``fstrim.timer``.

    Attributes
    ----------
    active
        Whether it will run, or why that is unknown.
    last_run
        When it last ran, aware UTC.
    """

    active: bool | NotAvailable
    last_run: datetime | NotAvailable


def trim_practice(
    host: Host,
    description: PathDescription,
    *,
    timer: Timer,
    discarded_bytes: int | NotAvailable,
) -> TrimPractice:
    """Return how a file system is trimmed without Trimtab, with the evidence."""
    sources = {"mount_option": "/proc/self/mountinfo", "scheduled": "/etc/cron*"}
    reasons: dict[str, str] = {}
    option = mount_option(description.options)
    if option is None:
        reasons["mount_option"] = "the mount options have neither discard nor fstrim"
    covered = timer_covers(host, description)
    active = timer.active
    if active is True and isinstance(covered, NotAvailable):
        active = False
        reasons["timer_active"] = covered.reason
    elif isinstance(active, NotAvailable):
        reasons["timer_active"] = active.reason
    sources["timer_active"] = f"systemctl show {_TIMER} -p ActiveState"
    if description.devices:
        name = description.devices[0].name
        sources["discarded_bytes"] = f"/sys/class/block/{name}/stat"
    trimmed, source = trimmed_since_mount(host, description, discarded_bytes)
    if isinstance(trimmed, NotAvailable):
        reasons["trimmed_since_mount"] = trimmed.reason
    else:
        sources["trimmed_since_mount"] = source
    if isinstance(discarded_bytes, NotAvailable):
        reasons["discarded_bytes"] = discarded_bytes.reason
    return TrimPractice(
        mount_option=option,
        timer_active=None if isinstance(active, NotAvailable) else active,
        scheduled=cron_files(host),
        trimmed_since_mount=None if isinstance(trimmed, NotAvailable) else trimmed,
        discarded_bytes=None if isinstance(discarded_bytes, NotAvailable) else discarded_bytes,
        sources=sources,
        reasons=reasons,
    )


def counted_practice(
    host: Host, description: PathDescription, timer: Callable[[], Timer], *, idle_counts: bool
) -> TrimPractice | NotAvailable:
    """Return how a file system is trimmed without Trimtab, with its device's count of discards.

    Parameters
    ----------
    timer
        Returns the state of ``fstrim.timer`` of the host.
    idle_counts
        Whether to believe a device that has counted neither reads nor writes.
    """
    devices = description.devices
    if not devices:
        return not_available("no-device", "no underlying block device is visible")
    counters = read_bytes_of(host, devices[0], devices)
    discarded = counters if isinstance(counters, NotAvailable) else counters.discarded_bytes
    if not (idle_counts or isinstance(counters, NotAvailable)) and not (
        counters.read_bytes + counters.written_bytes
    ):
        discarded = not_available("device-counts-nothing", f"{devices[0].name} counts nothing")
    return trim_practice(host, description, timer=timer(), discarded_bytes=discarded)


def mount_option(options: Sequence[str]) -> str | None:
    """Return the mount option that trims as files are deleted, ``None`` if there is none.

    ``discard`` of ext4, xfs and others, ``discard=async`` of btrfs; ``fstrim`` and
    ``fstrim=BLOCKS`` of ldiskfs (LU-17980), which trims group by group in the background.
    """
    for option in options:
        name, _, value = option.partition("=")
        if name in {"discard", "fstrim"} and value not in {"off", "0"}:
            return option
    return None


def read_timer(host: Host, execute: Execute) -> Timer:
    """Return the state of ``fstrim.timer``, from systemd if it runs.

    Notes
    -----
    If systemd is installed but does not run (a container), ``systemctl is-enabled`` still prints
    ``enabled``; so the directory that sd_booted(3) checks decides. A persistent timer's last run is
    also the time of its stamp file, which users can read when systemd refuses them.
    """
    if not host.exists("/run/systemd/system"):
        # In a container or a chroot the host's own timer may still trim this file system.
        nothing = not_available(
            "no-systemd", "systemd does not run here, so its timers are not visible"
        )
        return Timer(active=nothing, last_run=nothing)
    stamp = host.modified_at_s(f"/var/lib/systemd/timers/stamp-{_TIMER}")
    by_stamp = (
        not_available("never-run", f"{_TIMER} has not run yet")
        if isinstance(stamp, NotAvailable)
        else datetime.fromtimestamp(stamp, UTC)
    )
    if not host.is_this_one:
        return Timer(
            not_available("another-machine", "systemd of another machine is not queried"),
            by_stamp,
        )
    result = run_tool(
        execute,
        ("systemctl", "show", _TIMER, "-p", "ActiveState", "-p", "LastTriggerUSec"),
        timeout_s=_SYSTEMCTL_TIMEOUT_S,
        # It prints times in the zone of its environment, and short zone names are ambiguous.
        environment={"TZ": "UTC"},
    )
    if isinstance(result, NotAvailable):
        return Timer(result, by_stamp)
    active, last_run = parse_timer(result.stdout.decode("utf-8", "replace"))
    return Timer(active, by_stamp if isinstance(last_run, NotAvailable) else last_run)


def parse_timer(text: str) -> tuple[bool | NotAvailable, datetime | NotAvailable]:
    """Parse ``systemctl show``: whether the timer is active, and when it last ran (UTC)."""
    state = _property(text, "ActiveState")
    active = NotAvailable("systemctl prints no state") if state is None else state == "active"
    when = _TIMESTAMP.search(_property(text, "LastTriggerUSec") or "")
    if when is None:
        return active, not_available("never-run", f"{_TIMER} has not run yet")
    at = datetime.strptime(when.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return active, at


def timer_covers(host: Host, description: PathDescription) -> str | NotAvailable:
    """Return why ``fstrim.service`` trims this mount too, or why it does not.

    Notes
    -----
    The service trims what ``/etc/fstab`` lists, if that file lists anything
    (``fstrim --listed-in /etc/fstab:/proc/self/mountinfo``, or ``-A``), not every mount: a scratch
    file system mounted by hand or by a cluster manager is left out.
    """
    command = " ".join(_service_commands(host))
    if re.search(r"fstrim.* (-a|--all)\b", command):
        return "fstrim.service trims every mounted file system"
    fstab = host.read_text("/etc/fstab")
    if isinstance(fstab, NotAvailable):
        if fstab.reason != "/etc/fstab does not exist":
            return fstab  # it may list the mount or not
        return "there is no /etc/fstab, so fstrim.service trims every mounted file system"
    entries = [
        words
        for line in fstab.splitlines()
        if len(words := line.split()) >= 3 and not words[0].startswith("#")
    ]
    if not entries:
        return "/etc/fstab is empty, so fstrim.service trims every mounted file system"
    for words in entries:
        if unescape(words[1]).rstrip("/") == description.mount_point.rstrip("/"):
            if len(words) > 3 and "X-fstrim.notrim" in words[3].split(","):
                return NotAvailable("/etc/fstab marks the mount X-fstrim.notrim")
            return "/etc/fstab lists the mount, so fstrim.service trims it"
    return NotAvailable(
        f"{_TIMER} trims what /etc/fstab lists, and {description.mount_point} is not listed"
    )


def cron_files(host: Host) -> tuple[str, ...]:
    """Return the cron files that mention fstrim in a line that is not a comment."""
    files = ["/etc/crontab", "/etc/anacrontab"]
    for directory in _CRON_DIRECTORIES:
        names = host.list_directory(directory)
        files += [] if isinstance(names, NotAvailable) else [f"{directory}/{n}" for n in names]
    return tuple(path for path in files if _mentions_fstrim(host.read_text(path)))


def trimmed_since_mount(
    host: Host, description: PathDescription, discarded_bytes: int | NotAvailable
) -> tuple[bool | NotAvailable, str]:
    """Return whether a file system was trimmed since it was mounted, and the source.

    Notes
    -----
    A trim of ext4 leaves its smallest extent, in blocks, in ``last_trim_minblks``, which is 0 at
    mount (fs/ext4/mballoc.c, ``ext4_trim_fs``). On a device whose discard granularity is below a
    block that smallest extent is also 0, so 0 proves nothing. A partial trim counts too. Where ext4
    gives no answer, a device without any discard since it was attached proves that nothing was
    trimmed; a device with discards proves nothing, because mkfs discards too.
    """
    if not description.devices:
        return not_available("no-device", "no underlying block device is visible"), ""
    device = description.devices[0]
    remembered, source = _remembered_by_ext4(host, description, device)
    if not isinstance(remembered, NotAvailable) or discarded_bytes != 0:
        return remembered, source
    return False, f"/sys/class/block/{device.name}/stat"


def _remembered_by_ext4(
    host: Host, description: PathDescription, device: BlockDevice
) -> tuple[bool | NotAvailable, str]:
    source = f"/sys/fs/{description.fs_type}/{device.name}/last_trim_minblks"
    if description.fs_type not in {"ext4", "ldiskfs"}:
        return NotAvailable(f"{description.fs_type} does not record it"), source
    blocks = host.read_number(source)
    if isinstance(blocks, NotAvailable):
        return blocks, source
    if blocks > 0:
        return True, source
    if (device.discard_granularity_bytes or 0) >= _LARGEST_BLOCK_BYTES:
        return False, source
    return NotAvailable("last_trim_minblks is 0 before and after a trim on this device"), source


def fstrim_command(mount_point: str, start: int, length: int | None) -> tuple[str, ...]:
    """Return the fstrim command for a byte range of a mounted file system."""
    offset = ("-o", str(start)) if start else ()
    limit = ("-l", str(length)) if length is not None else ()
    return ("fstrim", "-v", *offset, *limit, "--", mount_point)


def parse_fstrim(text: str) -> int | NotAvailable:
    """Return the bytes trimmed according to ``fstrim -v``: the exact count in parentheses.

    Examples
    --------
    >>> parse_fstrim("/scratch: 1.5 GiB (1663283200 bytes) trimmed")
    1663283200
    """
    # The mount point comes first and may contain anything: the last match is fstrim's own.
    counts = _TRIMMED.findall(text)
    if not counts:
        return NotAvailable(f"fstrim printed {text.strip()[:100]!r}, without a number of bytes")
    return int(counts[-1])


def _property(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
    return None if match is None else match.group(1)


def _service_commands(host: Host) -> list[str]:
    for directory in _UNIT_DIRECTORIES:
        text = host.read_text(f"{directory}/fstrim.service")
        if not isinstance(text, NotAvailable):
            return [line for line in text.splitlines() if line.startswith("ExecStart=")]
    return []


def _mentions_fstrim(text: str | NotAvailable) -> bool:
    return isinstance(text, str) and any(
        "fstrim" in line and not line.lstrip().startswith("#") for line in text.splitlines()
    )
