"""``/proc/fs/ldiskfs`` and ``/sys/fs/ldiskfs`` of a target, for every family of kernels."""

from __future__ import annotations

from .state import FakeLustre, FakeTarget

_SETTINGS = {
    "bg_trimmed_threshold": "1024",
    "delayed_allocation_blocks": "0",
    "extent_max_zeroout_kb": "32",
    "fstrim_avg_frag_no_delay": "4096",
    "fstrim_delay_secs": "60",
    "fstrim_min_blocks": "0",
    "inode_goal": "0",
    "inode_readahead_blks": "32",
    "last_trim_minblks": "0",
    "max_dir_size_kb": "0",
    "mb_best_avail_max_trim_order": "3",
    "mb_enable_iops_data": "0",
    "mb_group_prealloc": "512",
    "mb_large_req": "1024",
    "mb_max_linear_groups": "0",
    "mb_max_to_scan": "200",
    "mb_min_to_scan": "10",
    "mb_order2_req": "8",
    "mb_prefetch": "32",
    "mb_prefetch_limit": "32",
    "mb_small_req": "256",
    "msg_count": "1",
    "reserved_clusters": "4096",
    "warning_count": "0",
}
_NEW = ("mb_best_avail_max_trim_order", "bg_trimmed_threshold", "mb_enable_iops_data")
_OPTIONS = (
    "rw bsddf nogrpid block_validity dioread_nolock {discard} {fstrim} nodelalloc nowarn_on_error "
    "nojournal_checksum barrier auto_da_alloc user_xattr acl noquota nombcache resuid=0 resgid=0 "
    "errors=remount-ro commit=5 min_batch_time=0 max_batch_time=15000 stripe=0 data=ordered "
    "inode_readahead_blks=32 init_itable=10 max_dir_size_kb=0"
)
_BY_NAME = ("cr_p2_aligned", "cr_goal_fast", "cr_best_avail", "cr_goal_slow", "cr_any_free")
_GROUP_BYTES = 128 * 2**20


_MB_GROUPS_HEAD = (
    "#group: bfree gfree frags first pa    "
    f"[ {'   '.join(f'2^{power}' for power in range(10))}   "
    f"{'  '.join(f'2^{power}' for power in range(10, 14))}  ]\n"
)


def settings(state: FakeLustre, target: FakeTarget) -> dict[str, str]:
    """Return name to text of ``/sys/fs/ldiskfs/DEV``."""
    values = dict(_SETTINGS)
    old = state.allocator == "loops"
    if old:
        for name in _NEW:
            del values[name]
        for number, threshold in enumerate((25, 15, 5), start=1):
            values[f"mb_c{number}_threshold"] = str(threshold)
    else:
        values["mb_stats"] = str(int(state.allocator_counts))
    failed = target.errors_count > 0 or target.aborted
    values["errors_count"] = str(max(target.errors_count, int(target.aborted)))
    for when in ("first", "last"):
        values[f"{when}_error_time"] = "1795190056" if failed else "0"
        values[f"{when}_error_func"] = "ldiskfs_get_group_desc" if failed else ""
        values[f"{when}_error_errcode"] = "5" if failed else "0"
        values[f"{when}_error_line"] = "280" if failed else "0"
        values[f"{when}_error_block"] = values[f"{when}_error_ino"] = "0"
    values["lifetime_write_kbytes"] = str(target.written_bytes >> 10)
    values["session_write_kbytes"] = str(target.written_bytes >> 10)
    if not old:
        values["lifetime_discard_kbytes"] = str(target.discarded_kib)
        values["lifetime_discard_ops"] = str(target.discard_ops)
    return {name: f"{value}\n" for name, value in values.items()}


def statistics(state: FakeLustre, target: FakeTarget) -> dict[str, str]:
    """Return name to text of ``/proc/fs/ldiskfs/DEV``; of ``mb_groups`` only that it is there."""
    values = {
        "mb_last_group": f"{target.mb_last_group}\n",
        "options": _options(target),
        "prealloc_table": "4 8 16 32 64 128 256 512 1024 2048 \n",
        # What reads it to its end turns the target read-only: nothing may have this text.
        "mb_groups": _MB_GROUPS_HEAD,
    }
    if state.allocator == "loops":
        values["mb_alloc_stats"] = old_counters(target)
        return values
    values["mb_stats"] = counters(state, target)
    values["mb_structs_summary"] = summary(target)
    values["discard_stats"] = _discards(target)
    return values


def _options(target: FakeTarget) -> str:
    options = target.mount_options.split(",")
    text = _OPTIONS.format(
        discard="discard" if "discard" in options else "nodiscard",
        fstrim=next((one for one in options if one.startswith("fstrim")), "nofstrim"),
    )
    return text.replace(" ", "\n") + "\n"


def groups(target: FakeTarget) -> tuple[int, int]:
    """Return how many block groups there are, and how many have free space."""
    total = max(1, -(-target.capacity_bytes // _GROUP_BYTES))
    return total, min(total, -(-(target.capacity_bytes - target.used_bytes) // _GROUP_BYTES))


def counters(state: FakeLustre, target: FakeTarget) -> str:
    """Return ``mb_stats``."""
    if not state.allocator_counts:
        return (
            "mballoc:\n\tmb stats collection turned off.\n"
            '\tTo enable, please write "1" to sysfs file mb_stats.\n'
        )
    rows = target.criteria
    requests = target.allocator_requests
    scanned = sum(row[2] for row in rows)
    lines = ["mballoc:", f"\treqs: {requests}", f"\tsuccess: {requests}"]
    lines.append(f"\tgroups_scanned: {scanned}")
    for name, (hits, considered, extents, useless) in zip(_BY_NAME, rows, strict=True):
        lines += [f"\t{name}_stats:", f"\t\thits: {hits}", f"\t\tgroups_considered: {considered}"]
        lines += [f"\t\textents_scanned: {extents}", f"\t\tuseless_loops: {useless}"]
    total, _ = groups(target)
    lines += [
        f"\textents_scanned: {scanned}",
        "\t\tgoal_hits: 0",
        "\t\tlen_goal_hits: 0",
        f"\t\t2^n_hits: {rows[0][0]}",
        "\t\tbreaks: 0",
        "\t\tlost: 0",
        f"\tbuddies_generated: {total}/{total}",
        "\tbuddies_time_used: 621068",
        "\tpreallocated: 73216",
        "\tdiscarded: 0",
    ]
    return "".join(f"{line}\n" for line in lines)


def old_counters(target: FakeTarget) -> str:
    """Return ``mb_alloc_stats``."""
    rows = [target.criteria[n] for n in (0, 1, 3, 4)]
    requests = target.allocator_requests
    loops = [f"\tuseless_c{n}_loops: {row[3]}" for n, row in enumerate(rows)]
    total, _ = groups(target)
    lines = [
        "mballoc:",
        f"\tblocks: {target.written_bytes >> 12}",
        f"\treqs: {requests}",
        f"\tsuccess: {requests}",
        f"\textents_scanned: {sum(row[2] for row in rows)}",
        "\t\tgoal_hits: 0",
        f"\t\t2^n_hits: {rows[0][0]}",
        "\t\tbreaks: 0",
        "\t\tlost: 0",
        *loops,
        "\tskipped_c0_loops: 0",
        "\tskipped_c1_loops: 0",
        "\tskipped_c2_loops: 0",
        f"\tbuddies_generated: {total}",
        "\tbuddies_time_used: 621068",
        "\tpreallocated: 73216",
        "\tdiscarded: 0",
    ]
    return "".join(f"{line}\n" for line in lines)


def summary(target: FakeTarget) -> str:
    """Return ``mb_structs_summary``: free space in whole groups."""
    _, free = groups(target)
    lines = ["optimize_scan: 1"]
    for title in ("max_free_order_lists", "avg_fragment_size_lists"):
        counts = [*[0] * 13, free]
        lines += [f"{title}:", *(f"\tlist_order_{n}_groups: {c}" for n, c in enumerate(counts))]
    return "".join(f"{line}\n" for line in lines)


def _discards(target: FakeTarget) -> str:
    if not target.discard_ops:
        return "count: 0\n"
    return f"sizes: {{ 128MB: {target.discard_ops} }}\ncount: {target.discard_ops}\n"
