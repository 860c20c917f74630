"""What a parameter's value is now: from the state, from what was set, from what was recorded."""

from __future__ import annotations

from collections.abc import Callable

from .devices import nid_of, nids_of
from .parameters import Instance, Leaf, full_name
from .state import MAX_CREATE_COUNT, FakeLustre, FakeTarget
from .tree import mntdev
from .values import brw_stats, import_text, llite_stats, md_stats, nis, obdfilter_stats, stats_text


def read(state: FakeLustre, host: str | None, one: Instance | None, leaf: Leaf) -> str | None:
    """Return the value of a parameter as it stands behind its name, ``None`` if unreadable."""
    if one is None:
        return _read_top(state, host, leaf)
    if leaf.error is not None:
        return None
    known = _READERS.get((one.kind, leaf.name))
    if known is not None:
        return known(state, one)
    general = _SPACE.get(leaf.name)
    if general is not None and one.target is not None and one.kind != "lod":
        return str(general(one.target))
    stored = state.parameters.get(full_name(one, leaf)) if state.parameters else None
    if stored is not None:
        return stored
    return _filled(state, one, leaf.value or "")


def _filled(state: FakeLustre, one: Instance, text: str) -> str:
    if "@" in text:
        mdt = one.by if one.kind.startswith("osp-") else one.target and one.target.name
        text = text.replace("@FS@-MDT0000-mdtlov", f"{state.file_system}-{mdt}-mdtlov")
        if one.target is not None:
            text = text.replace("@SHORT@", one.target.name[3:])
        for name in ("OST0000", "MDT0001" if one.kind == "osp-MDT" else "MDT0000"):
            if one.target is not None:
                text = text.replace(f"@FS@-{name}", f"{state.file_system}-{one.target.name}")
        text = text.replace("@FS@", state.file_system).replace("@CLIENT@", state.client_id)
        text = text.replace("@UUID@", state.client_uuid).replace("@NID@", state.client_nid)
    return text


def _read_top(state: FakeLustre, host: str | None, leaf: Leaf) -> str | None:
    if leaf.error is not None:
        return None
    match leaf.name:
        case "version":
            return state.lustre_version
        case "stats":
            return stats_text(state, host)
        case "nis":
            return nis(state, host)
    from .lfs import mgs_nid

    return state.parameters.get(leaf.name, (leaf.value or "").replace("@NID@", mgs_nid(state)))


_SPACE: dict[str, Callable[[FakeTarget], int]] = {
    "kbytestotal": lambda one: one.capacity_bytes >> 10,
    "kbytesfree": lambda one: (one.capacity_bytes - one.used_bytes) >> 10,
    "kbytesavail": lambda one: one.available_bytes >> 10,
    "filestotal": lambda one: one.inodes_total,
    "filesfree": lambda one: one.inodes_total - one.inodes_used,
}

Reader = Callable[[FakeLustre, Instance], str]


def _of(read_target: Callable[[FakeLustre, FakeTarget], object]) -> Reader:
    def reader(state: FakeLustre, one: Instance) -> str:
        assert one.target is not None
        return str(read_target(state, one.target))

    return reader


def _osp(read_osp: Callable[[FakeLustre, FakeTarget, str], object]) -> Reader:
    def reader(state: FakeLustre, one: Instance) -> str:
        assert one.target is not None
        assert one.by is not None
        return str(read_osp(state, one.target, one.by))

    return reader


def _max_create(state: FakeLustre, target: FakeTarget, mdt: str) -> int:
    return target.max_create_count.get(mdt, MAX_CREATE_COUNT)


def _create_count(state: FakeLustre, target: FakeTarget, mdt: str) -> int:
    return min(32, _max_create(state, target, mdt))


def _state_letters(state: FakeLustre, target: FakeTarget) -> str:
    return (
        ("D" if target.degraded else "")
        + ("N" if target.no_create else "")
        + ("f" if state.nonrotational and not target.rotational else "")
    )


def _import(state: FakeLustre, one: Instance) -> str:
    assert one.target is not None
    nids = nids_of(state, one.target, one.host)
    return import_text(state, one.name, one.target, one.by or "", nids, _now(state, one))


def _now(state: FakeLustre, one: Instance) -> str:
    assert one.target is not None
    return nid_of(state, one.target, one.host)


def _changelog_users(_: FakeLustre, one: FakeTarget) -> str:
    rows = [f"\ncurrent_index: {one.changelog_index}", f"{'ID':<30}index (idle) mask"]
    rows += [f"{name:<17} {index:17} ({idle_s})" for name, index, idle_s in one.changelog_users]
    return "\n".join(rows)


def _recovery(state: FakeLustre, target: FakeTarget) -> str:
    if target.recovery == "INACTIVE":
        return "status: INACTIVE"
    rest = "recovery_start: 0\nVBR: DISABLED\nIR: DISABLED"
    return f"\nstatus: {target.recovery}\n{rest}"


def _connection(state: FakeLustre, one: Instance) -> str:
    return f"\ncurrent_state: {_link_state(state, one)}"


def _link_state(state: FakeLustre, one: Instance) -> str:
    assert one.target is not None
    if not state.reaches(one.target):
        return "DISCONN"
    return "EVICTED" if one.target.evicted and one.by == state.client_id else "FULL"


def _lod_space(state: FakeLustre, one: Instance) -> dict[str, int]:
    free = sum(target.inodes_total - target.inodes_used for target in state.osts)
    used = sum(target.inodes_used for target in state.mdts)
    return {
        "kbytestotal": sum(target.capacity_bytes >> 10 for target in state.osts),
        "kbytesfree": sum((t.capacity_bytes - t.used_bytes) >> 10 for t in state.osts),
        "kbytesavail": sum(target.available_bytes >> 10 for target in state.osts),
        "filesfree": free,
        "filestotal": free + used,
    }


def _lod_number(name: str) -> Reader:
    return lambda state, one: str(_lod_space(state, one)[name])


def _target_obd(state: FakeLustre, one: Instance) -> str:
    lines = [f"{ost.index}: {state.file_system}-{ost.name}_UUID ACTIVE" for ost in state.osts]
    return "".join(f"\n{line}" for line in lines)


def _mdt_obd(state: FakeLustre, one: Instance) -> str:
    others = [mdt for mdt in state.mdts if mdt is not one.target]
    lines = [f"{mdt.index}: {state.file_system}-{mdt.name}_UUID ACTIVE" for mdt in others]
    return lines[0] if len(lines) == 1 else "".join(f"\n{line}" for line in lines)


_READERS: dict[tuple[str, str], Reader] = {
    ("obdfilter", "degraded"): _of(lambda _, one: int(one.degraded)),
    ("obdfilter", "no_create"): _of(lambda _, one: int(one.no_create)),
    ("obdfilter", "no_precreate"): _of(lambda _, one: int(one.no_create)),
    ("obdfilter", "readonly"): _of(lambda _, one: int(one.readonly)),
    ("obdfilter", "statfs_state"): _of(_state_letters),
    ("obdfilter", "recovery_status"): _of(_recovery),
    ("obdfilter", "fstype"): _of(lambda _, one: f"osd-{one.osd}"),
    ("obdfilter", "stats"): _of(obdfilter_stats),
    ("obdfilter", "brw_stats"): _of(brw_stats),
    ("mdd", "changelog_users"): _of(_changelog_users),
    ("mdd", "changelog_current_mask"): _of(lambda _, one: one.changelog_mask),
    ("mdt", "no_create"): _of(lambda _, one: int(one.no_create)),
    ("mdt", "readonly"): _of(lambda _, one: int(one.readonly)),
    ("mdt", "recovery_status"): _of(_recovery),
    ("mdt", "md_stats"): _of(md_stats),
    ("osp-OST", "max_create_count"): _osp(_max_create),
    ("osp-OST", "create_count"): _osp(_create_count),
    ("osp-OST", "prealloc_status"): _osp(FakeLustre.prealloc_status),
    ("osc", "active"): _of(lambda _, one: int(one.client_active)),
    ("lod", "target_obd"): _target_obd,
    ("lod", "mdt_obd"): _mdt_obd,
    ("lod", "dom_threshold_free_mb"): _of(lambda _, one: one.capacity_bytes >> 21),
    ("lod", "activeobd"): lambda state, one: str(len(state.osts)),
    ("lod", "numobd"): lambda state, one: str(len(state.osts)),
    ("lod", "mdt_activeobd"): lambda state, one: str(len(state.mdts) - 1),
    ("lod", "mdt_numobd"): lambda state, one: str(len(state.mdts) - 1),
}
for _kind in ("osp-OST", "osp-MDT"):
    _READERS[_kind, "active"] = _osp(lambda _, one, mdt: int(one.osp_active.get(mdt, True)))
    _READERS[_kind, "reserved_mb_low"] = _of(lambda _, one: one.reserve_mb[0])
    _READERS[_kind, "reserved_mb_high"] = _of(lambda _, one: one.reserve_mb[1])
for _kind in ("osp-OST", "osp-MDT", "osc", "mdc"):
    _READERS[_kind, "import"] = _import
    _READERS[_kind, "state"] = _connection
_READERS["osp-OST", "ost_conn_uuid"] = _now
_READERS["osp-MDT", "mdt_conn_uuid"] = _now
for _kind in ("osd-OST", "osd-MDT"):
    _READERS[_kind, "fstype"] = _of(lambda _, one: one.osd)
    _READERS[_kind, "mntdev"] = _of(lambda _, one: mntdev(one))
    _READERS[_kind, "nonrotational"] = _of(lambda s, one: int("f" in _state_letters(s, one)))
    _READERS[_kind, "statfs_state"] = _of(
        lambda s, one: "f" if "f" in _state_letters(s, one) else ""
    )
    _READERS[_kind, "brw_stats"] = _of(brw_stats)
for _name in ("kbytestotal", "kbytesfree", "kbytesavail", "filesfree", "filestotal"):
    _READERS["lod", _name] = _lod_number(_name)
    _READERS["llite", _name] = _lod_number(_name)
_READERS["llite", "stats"] = lambda state, one: llite_stats(state)
