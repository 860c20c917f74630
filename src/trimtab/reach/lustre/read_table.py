"""Everything that is read from a Lustre file system: all files and commands, in one place.

The docs on required rights, the sudoers example and the tests use these tables. Nothing here writes
or is dangerous to read: ``mb_groups`` is not among them, and the collector refuses it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

LAST: Final = "version"
"""Always the last one requested. ``lctl`` prints in the order of its arguments and its exit code is
useless: output with this parameter is complete. It exists on every host with Lustre and is readable
by all users."""

SERVER_PARAMETERS: Final = (
    "health_check",
    # MDS: which OSTs accept new objects
    "osp.*.active",
    "osp.*.max_create_count",
    "osp.*.prealloc_status",
    "osp.*.reserved_mb_low",
    "osp.*.reserved_mb_high",
    "lod.*.qos_threshold_rr",
    "lod.*.qos_prio_free",
    "lod.*.qos_maxage",
    "mdd.*.atime_diff",
    # OSS; `no_precreate` is the name of `no_create` before 2.16
    "obdfilter.*.degraded",
    "obdfilter.*.readonly",
    "obdfilter.*.no_create",
    "obdfilter.*.no_precreate",
    "obdfilter.*.recovery_status",
    "obdfilter.*.checksum_type",
    "obdfilter.*.stats",
    "obdfilter.*.brw_stats",
    # MDT
    "mdt.*.readonly",
    "mdt.*.no_create",
    "mdt.*.recovery_status",
    "mdt.*.md_stats",
    # the backing file system of either
    "osd-*.*.fstype",
    "osd-*.*.mntdev",
    "osd-*.*.nonrotational",
    "osd-*.*.statfs_state",
    "osd-*.*.blocksize",
    "osd-*.*.kbytestotal",
    "osd-*.*.kbytesfree",
    "osd-*.*.kbytesavail",
    "osd-*.*.filestotal",
    "osd-*.*.filesfree",
    "osd-*.*.brw_stats",
    # LNet
    "nis",
    "stats",
    LAST,
)
SERVER_IMPORTS: Final = ("osp.*.import", LAST)
CLIENT_SETTINGS: Final = {
    "checksums": "osc.*.checksums",
    "checksum_type": "osc.*.checksum_type",
    "rpcs_in_flight": "osc.*.max_rpcs_in_flight",
    "pages_per_rpc": "osc.*.max_pages_per_rpc",
    "dirty_mb": "osc.*.max_dirty_mb",
    "llite_checksums": "llite.*.checksums",
    "read_ahead_mb": "llite.*.max_read_ahead_mb",
    "read_ahead_per_file_mb": "llite.*.max_read_ahead_per_file_mb",
}
"""Settings that decide a client's speed; also read on the clients that the site names."""
CLIENT_PARAMETERS: Final = ("osc.*.active", *CLIENT_SETTINGS.values(), "llite.*.stats", LAST)
CLIENT_IMPORTS: Final = ("osc.*.import", "mdc.*.import", LAST)
IMPORT_LINES: Final = (
    r"^[a-z]+\..*\.import=|^version="
    r"|^\s+(name|target|state|failover_nids|current_connection|connection_attempts):"
)
"""An MDS has an import for each OST (300 of 1.3 KB each); only these lines matter."""

SERVED_DEVICES: Final = r" (obdfilter|mdt|mgs) "
"""An MDS has a device for each OST, in addition to the targets it serves."""

LDISKFS_SETTINGS: Final = (
    "mb_c1_threshold",
    "mb_c2_threshold",
    "mb_c3_threshold",
    "mb_optimize_scan",
    "reserved_clusters",
    "bg_trimmed_threshold",
    "fstrim_min_blocks",
    "fstrim_avg_frag_no_delay",
    "fstrim_delay_secs",
    "lifetime_discard_kbytes",
    "lifetime_discard_ops",
    "first_error_time",
    "last_error_time",
    "last_error_func",
)
LDISKFS_STATISTICS: Final = ("mb_last_group", "mb_last_groups", "prealloc_table", "discard_stats")
"""Shown as settings of a target; those of any ext4 and the allocator's counters are read too."""
_OF_EXT4: Final = (
    "errors_count",
    "session_write_kbytes",
    "last_trim_minblks",
    "mb_stats",
    "mb_group_prealloc",
    "mb_max_linear_groups",
    "mb_max_to_scan",
    "mb_min_to_scan",
    "mb_order2_req",
    "mb_stream_req",
    "mb_small_req",
    "mb_large_req",
    "mb_best_avail_max_trim_order",
)
_COUNTERS: Final = ("mb_stats", "mb_alloc_stats", "mb_structs_summary", "options")
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SERVER_FILES: Final = (
    "/proc/mounts",
    "/proc/self/mountinfo",
    "/proc/stat",
    "/proc/uptime",
    BOOT_ID,
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/sys/devices/system/cpu/vulnerabilities/*",
    *(f"/sys/fs/ldiskfs/*/{name}" for name in (*_OF_EXT4, *LDISKFS_SETTINGS)),
    *(f"/proc/fs/ldiskfs/*/{name}" for name in (*_COUNTERS, *LDISKFS_STATISTICS)),
    # who trims
    "/etc/fstab",
    "/etc/crontab",
    "/etc/anacrontab",
    "/etc/cron.d/*",
    "/etc/cron.daily/*",
    "/etc/cron.hourly/*",
    "/etc/cron.weekly/*",
    "/etc/cron.monthly/*",
    "/etc/systemd/system/fstrim.service",
    "/usr/lib/systemd/system/fstrim.service",
    "/lib/systemd/system/fstrim.service",
)
SERVER_DIRECTORIES: Final = (
    "/run/systemd/system",
    "/sys/devices/system/cpu/vulnerabilities",
    "/etc/cron.d",
    "/etc/cron.daily",
    "/etc/cron.hourly",
    "/etc/cron.weekly",
    "/etc/cron.monthly",
)

PURGE_PARAMETERS: Final = (
    # first, so that a cut answer shows which OSTs lack a count
    "osp.*.active",
    "osp.*.destroys_in_flight",
    "osp.*.old_sync_processed",
    "mdd.*.trash_can_enable",
    LAST,
)
OF_PURGE: Final[Mapping[str, Mapping[str, Any]]] = {
    "parameters": {"argv": ("lctl", "get_param", *PURGE_PARAMETERS)}
}
"""Parameters that a waiting purge reads from an MDS every few seconds. All users may read them, so
sudo, whose log this would fill, is never used."""

KERNEL_LOG_LINES: Final = (
    r"CHECKSUM|(LDISKFS|EXT4)-fs error|Aborting journal|Remounting filesystem read-only"
    r"|evict|mounted filesystem|Skipped [0-9]+ previous similar message"
    r"|\) reconnecting|\) was lost|Request sent has|longer than estimated|past deadline"
    r"|Dropping timed-out|Slow (creates|req_in)|service thread pid|timed out; the network"
    r"|onnect(ing|ion) to [^ ]+ at host|NIs in recovery|Bulk IO|dirty page discard"
    r"|Connection restored"
)
"""Lines of the kernel log (about a megabyte) that are sent back; the last are no message, but a
count of them that were skipped would seem to be of the lost connections printed just before."""

COMMANDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "parameters": {
        "argv": ("lctl", "get_param", *SERVER_PARAMETERS),
        "sudo": True,
        "why": "state, space and counters of every target on the server",
    },
    "imports": {
        "argv": ("lctl", "get_param", *SERVER_IMPORTS),
        "sudo": True,
        "keep": IMPORT_LINES,
        "why": "whether each MDT reaches each target, and through which server",
    },
    "client-settings": {
        "argv": ("lctl", "get_param", *CLIENT_SETTINGS.values(), LAST),
        "why": "client settings of a node that runs probes",
    },
    "devices": {
        "argv": ("lctl", "dl"),
        "keep": SERVED_DEVICES,
        "why": "which targets the server serves, and whether it runs the MGS",
    },
    "kernel-log": {
        "argv": ("dmesg",),
        "sudo": True,
        "keep": KERNEL_LOG_LINES,
        "first_line": True,
        "why": "bad checksums, targets that turned read-only, evictions, lost connections, slow "
        "requests: Lustre itself reports none of them",
    },
    "pool-properties": {
        "argv": ("zpool", "get", "-H", "-p", "all"),
        "keep": r"\t(capacity|fragmentation|health|autotrim|readonly)\t",
        "why": "capacity, fragmentation and health of the pools beneath targets on ZFS",
    },
    "pool-status": {
        "argv": ("zpool", "status"),
        "why": "a resilver, and errors of each device of a pool",
    },
    "trim-timer": {
        "argv": ("systemctl", "show", "fstrim.timer", "-p", "ActiveState", "-p", "LastTriggerUSec"),
        "why": "whether a timer already trims",
    },
    "smart": {
        "argv": ("nvme", "smart-log", "-o", "json", "{}"),
        "each": "/dev/nvme*n*",
        "match": r"nvme\d+n\d+",
        "sudo": True,
        "why": "wear and media errors of every NVMe drive",
    },
    "flash-writes": {
        "argv": ("nvme", "ocp", "smart-add-log", "-o", "json", "{}"),
        "each": "/dev/nvme*n*",
        "match": r"nvme\d+n\d+",
        "sudo": True,
        "why": "bytes written to flash: the drive's write amplification",
    },
}
"""Every command on a server by its key; ``why`` is documentation and is not sent."""

OF_FOLLOWING: Final[Mapping[str, Mapping[str, Any]]] = {
    "parameters": {
        "argv": (
            "lctl",
            "get_param",
            "mdd.*.changelog_users",
            "mdd.*.changelog_current_mask",
            LAST,
        ),
        "sudo": True,
        "why": "whether the purge's changelog user is still registered",
    }
}
"""Read from an MDS in each round of following an index: whether its user still exists."""

_QUOTAS: Final = ("usr", "grp", "prj")
OF_HOLDERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "parameters": {
        "argv": (
            "lctl",
            "get_param",
            "osp.*.active",
            *(f"osd-*.*.quota_slave.acct_{kind}" for kind in ("user", "group", "project")),
            *(f"qmt.*.{part}-0x0.glb-{kind}" for part in ("dt", "md") for kind in _QUOTAS),
            LAST,
        ),
        "why": "use and limits of every user, group and project",
    },
    "devices": COMMANDS["devices"],
}
"""Read by `trimtab holders` alone. All users may read them, so sudo is not used."""

_SENT: Final = ("argv", "sudo", "keep", "first_line", "each", "match")


def server_request(*, deadline_s: float, sudo: Sequence[str] | None) -> dict[str, Any]:
    """Return the collector's request for everything a server is asked, in one round trip.

    Parameters
    ----------
    deadline_s
        For everything together; the collector reports what it had to skip.
    sudo
        Prefix of commands that need root; ``None`` runs them without.
    """
    return {
        **request(COMMANDS, deadline_s=deadline_s, sudo=sudo),
        "limit_bytes": 32 * 2**20,
        "files": list(SERVER_FILES),
        "directories": list(SERVER_DIRECTORIES),
        "block_devices": True,
    }


def request(
    commands: Mapping[str, Mapping[str, Any]],
    *,
    deadline_s: float,
    sudo: Sequence[str] | None = None,
    limit_bytes: int = 8 * 2**20,
) -> dict[str, Any]:
    """Return a collector request for commands by key; see `COMMANDS`.

    Without any it requests nothing: every answer has its start time.

    Parameters
    ----------
    limit_bytes
        Of the output of each command, and of all together.
    """
    return {
        "format": 1,
        "deadline_s": deadline_s,
        "sudo": None if sudo is None else list(sudo),
        "limit_bytes": limit_bytes,
        "files": [],
        "links": [],
        "directories": [],
        "block_devices": False,
        "commands": [
            {
                "key": key,
                "timeout_s": max(1.0, deadline_s / 2),
                "limit_bytes": limit_bytes,
                **{name: command[name] for name in _SENT if name in command},
            }
            for key, command in commands.items()
        ],
    }
