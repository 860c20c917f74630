"""Everything that an inventory reads from a machine: a closed list, as in `read_table`.

Reading some files of /sys acts on hardware (the memory of optical modules, ``resource``): so no
pattern here matches an attribute of a device by a wildcard. Parameters of the named kernel modules
are their variables. Nothing needs root: what root alone may read is reported as unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trimtab.reach.lustre.read_table import COMMANDS, LAST, request

_CPU: Final = "/sys/devices/system/cpu"
_OF_CPU: Final = (
    *("online", "isolated", "smt/control", "cpufreq/boost", "intel_pstate/no_turbo"),
    *("cpu0/microcode/version", "cpuidle/current_driver", "cpuidle/current_governor"),
)
_SYSCTLS: Final = (
    *("kernel/numa_balancing", "kernel/watchdog_thresh", "kernel/nmi_watchdog"),
    *("vm/dirty_background_bytes", "vm/dirty_background_ratio", "vm/dirty_bytes", "vm/dirty_ratio"),
    *("vm/min_free_kbytes", "vm/swappiness", "vm/vfs_cache_pressure", "vm/watermark_scale_factor"),
    *("vm/zone_reclaim_mode", "vm/overcommit_memory", "vm/nr_hugepages"),
    *("net/core/default_qdisc", "net/core/netdev_max_backlog", "net/core/somaxconn"),
    *("net/core/rmem_max", "net/core/wmem_max", "net/core/rmem_default", "net/core/wmem_default"),
    *("net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "net/ipv4/tcp_congestion_control"),
    *("net/ipv4/tcp_mtu_probing", "net/ipv4/tcp_timestamps", "net/ipv4/tcp_sack"),
    *("net/ipv4/conf/all/arp_ignore", "net/ipv4/conf/all/arp_announce"),
    *("net/ipv4/conf/all/rp_filter", "net/ipv4/neigh/default/gc_thresh3"),
)
MODULES: Final = (
    *("libcfs", "lnet", "ksocklnd", "ko2iblnd", "kkfilnd", "ptlrpc", "obdclass", "ost", "ofd"),
    *("mdt", "osd_ldiskfs", "osd_zfs", "ldiskfs", "zfs", "spl", "nvme", "nvme_core", "md_mod"),
    *("raid456", "dm_multipath", "mlx5_core", "mlx5_ib", "ice", "bnxt_en", "i40e", "cxi_core"),
)
"""Kernel modules whose presence, version and parameters are compared."""
_QUEUE: Final = (
    *("scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb", "wbt_lat_usec", "write_cache"),
    *("rq_affinity", "nomerges"),
)
_DMI: Final = ("bios_vendor", "bios_version", "bios_date", "product_name", "board_name")
DRIVE: Final = "/sys/class/nvme"
DISK: Final = "/sys/class/block"
CARD: Final = "/sys/class/net"
ADAPTER: Final = "/sys/class/infiniband"
CPU_MODEL: Final = f"{_CPU}/modalias"

VALUES: Final[Mapping[str, str]] = {
    "/proc/sys/kernel/osrelease": "kernel/release",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "kernel/clocksource",
    "/sys/kernel/mm/transparent_hugepage/enabled": "kernel/transparent_hugepage",
    "/sys/devices/system/node/node*/cpulist": "numa/processors of node{}",
    "/sys/devices/platform/ipmi_bmc.*/firmware_revision": "firmware/bmc",
    f"{_CPU}/vulnerabilities/*": "mitigation/{}",
    f"{_CPU}/cpufreq/policy*/scaling_governor": "cpu/governor",
    f"{_CPU}/cpufreq/policy*/scaling_max_freq": "cpu/scaling_max_freq in kHz",
    **{f"{_CPU}/{name}": f"cpu/{name}" for name in _OF_CPU},
    **{f"/sys/class/dmi/id/{name}": f"firmware/{name}" for name in _DMI},
    **{f"/proc/sys/{name}": f"sysctl/{name.replace('/', '.')}" for name in _SYSCTLS},
    **{f"/sys/module/{name}/parameters/*": f"module/{name}/{{}}" for name in MODULES},
    **{f"/sys/module/{name}/version": f"module/{name} version" for name in MODULES},
    **{f"{DISK}/nvme*n*/queue/{name}": f"drive/{name}" for name in _QUEUE},
    **{f"{DISK}/md*/queue/{name}": f"raid/{name}" for name in _QUEUE},
    f"{DISK}/md*/md/stripe_cache_size": "raid/stripe_cache_size",
    f"{DISK}/md*/md/group_thread_count": "raid/group_thread_count",
}
"""Files whose text is a value: pattern to its name; ``{}`` is what the last star matches."""

_LINK: Final = ("device/current_link_speed", "device/current_link_width", "device/numa_node")
_COMBINED: Final = (
    *("/proc/meminfo", "/proc/cmdline", "/proc/self/mountinfo", CPU_MODEL),
    *(f"{DRIVE}/*/{name}" for name in ("model", "firmware_rev", *_LINK)),
    *(f"{DISK}/sd*/device/{name}" for name in ("vendor", "model", "rev")),
    *(f"{DISK}/md*/md/{name}" for name in ("level", "raid_disks", "chunk_size", "layout")),
    *(f"{CARD}/*/{name}" for name in ("mtu", "speed", "operstate", *_LINK)),
    *(f"{CARD}/*/device/{name}" for name in ("vendor", "device")),
    *(f"{ADAPTER}/*/{name}" for name in ("fw_ver", "hca_type")),
    *(f"{ADAPTER}/*/ports/1/{name}" for name in ("rate", "link_layer")),
)
"""Files of which several make one value."""

PARAMETERS: Final = (
    *("timeout", "at_min", "at_max", "ldlm_timeout", "jobid_var", "jobid_name"),
    *("obdfilter.*.brw_size", "obdfilter.*.checksum_type", "obdfilter.*.precreate_batch"),
    *("obdfilter.*.sync_journal", "obdfilter.*.sync_lock_cancel", "obdfilter.*.soft_sync_limit"),
    *("obdfilter.*.job_cleanup_interval", "obdfilter.*.checksum_t10pi_enforce"),
    *("ost.OSS.*.threads_min", "ost.OSS.*.threads_max", "ost.OSS.*.nrs_policies"),
    *("mds.MDS.*.threads_min", "mds.MDS.*.threads_max", "mds.MDS.*.nrs_policies"),
    *("mdt.*.identity_upcall", "mdt.*.job_cleanup_interval", "mdt.*.enable_remote_dir"),
    *("mdd.*.atime_diff", "mdd.*.sync_permission", "lod.*.qos_threshold_rr", "lod.*.qos_prio_free"),
    *("osd-*.*.read_cache_enable", "osd-*.*.writethrough_cache_enable", "osd-*.*.fstype"),
    *("osd-*.*.readcache_max_filesize", "osd-*.*.readcache_max_io_mb"),
    *("osd-*.*.writethrough_max_io_mb", "osd-*.*.auto_scrub", LAST),
)
INVENTORY_COMMANDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "parameters": {
        "argv": ("lctl", "get_param", *PARAMETERS),
        "why": "settings of Lustre on every server",
    },
    "devices": {**COMMANDS["devices"], "why": "which targets a change concerns"},
    "card": {
        "argv": ("ethtool", "-i", "{name}"),
        "each": f"{CARD}/*",
        "match": r"(?!lo\Z|bond|veth|ifb|dummy|docker|virbr|br-)[a-z]\w{1,14}",
        "why": "firmware of every network card",
    },
}


def inventory_request(*, deadline_s: float) -> dict[str, Any]:
    """Return the collector's request for an inventory, in one round trip, without sudo."""
    return {
        **request(INVENTORY_COMMANDS, deadline_s=deadline_s),
        "files": [*VALUES, *_COMBINED],
        "directories": ["/sys/module", f"{CARD}/*/device/msi_irqs"],
        "interrupts": [f"{CARD}/*/device/msi_irqs"],
    }
