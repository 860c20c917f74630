"""``lctl get_param`` and ``set_param``: the parameter trees of a host, read and set.

A value comes from the state, from what was set, or from what was recorded: what no field of the
state holds stands in ``parameters.json``, by kind of device, as a running 2.17.57 printed it: tree
(0 ``/proc``, 1 ``/sys``, 2 debugfs), name, value, the error of a value that cannot be read, whether
it can be written.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from .devices import mdts_on, nid_of, nids_of
from .state import MAX_CREATE_COUNT, FakeLustre, FakeTarget, Output
from .tree import mntdev
from .values import brw_stats, import_text, llite_stats, md_stats, nis, obdfilter_stats, stats_text

ROOTS = ("/proc/fs/lustre", "/sys/fs/lustre", "/sys/kernel/debug/lustre")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One parameter of a kind of device."""

    root: int
    name: str
    value: str | None
    error: str | None
    writable: bool


@dataclass(frozen=True, slots=True)
class Instance:
    """One device in a parameter tree; ``tree`` can be an alias of where it really stands."""

    tree: str
    name: str
    kind: str
    target: FakeTarget | None = None
    by: str | None = None
    host: str | None = None


@lru_cache(maxsize=1)
def _templates() -> dict[str, list[Leaf]]:
    text = (Path(__file__).parent / "parameters.json").read_text()
    return {kind: [Leaf(*one) for one in leaves] for kind, leaves in json.loads(text).items()}


@lru_cache(maxsize=64)
def leaves(kind: str, version: tuple[int, ...]) -> tuple[Leaf, ...]:
    """Return the parameters that a kind of device has in a version, by tree and name."""
    found = list(_templates()[kind.replace("osd-zfs-", "osd-")])
    if version < (2, 16):
        gone = {"no_create", "statfs_state"} if kind != "lod" else {"statfs_state"}
        found = [one for one in found if one.name not in gone]
        if kind.startswith("osd-"):
            found = [one for one in found if one.name != "brw_stats"]
        if kind == "obdfilter":
            found.append(Leaf(2, "brw_stats", "", None, True))
    return tuple(sorted(found, key=lambda one: (one.root, one.name)))


def instances(state: FakeLustre, host: str | None) -> list[Instance]:
    """Return every device that has parameters on a host."""
    key = ("instances", host)
    kept = state.caches.get(key)
    token = state.caches.get("frozen")
    if kept is not None and token is not None and kept[2] is token:
        return kept[1]
    stamp = tuple((one.server, one.up) for one in state.targets)
    if kept is not None and kept[0] == stamp:
        state.caches[key] = (stamp, kept[1], token)
        return kept[1]
    found = sorted(_instances(state, host), key=lambda one: (one.tree, one.name))
    state.caches[key] = (stamp, found, token)
    return found


def _instances(state: FakeLustre, host: str | None) -> Iterator[Instance]:
    name = state.client if host is None else host
    for one in state.served_by(name) if name else ():
        yield from _of_target(f"{state.file_system}-{one.name}", one, name)
    for mdt in mdts_on(state, name):
        for one in state.targets:
            if one is not mdt:
                yield from _of_connection(state, one, mdt.name, name)
    if state.is_client(host):
        yield from _of_client(state, name)


def _of_target(own: str, one: FakeTarget, host: str | None) -> Iterator[Instance]:
    yield Instance(f"osd-{one.osd}", own, f"osd-{one.kind}", one, host=host)
    if one.kind == "OST":
        yield Instance("obdfilter", own, "obdfilter", one, host=host)
        return
    yield Instance("mdt", own, "mdt", one, host=host)
    yield Instance("mdd", own, "mdd", one, host=host)
    for tree in ("lod", "lov"):
        yield Instance(tree, f"{own}-mdtlov", "lod", one, host=host)


def _of_connection(
    state: FakeLustre, one: FakeTarget, mdt: str, host: str | None
) -> Iterator[Instance]:
    leads = "osp" if one.kind == "MDT" else "osc"
    own = f"{state.file_system}-{one.name}-{leads}-{mdt}"
    yield Instance("osp", own, f"osp-{one.kind}", one, mdt, host)
    if one.kind == "OST":  # the same device under the name that it had before
        yield Instance("osc", own, "osp-OST", one, mdt, host)


def _of_client(state: FakeLustre, host: str | None) -> Iterator[Instance]:
    fs, client = state.file_system, state.client_id
    yield Instance("llite", f"{fs}-{client}", "llite", host=host)
    for one in state.osts:
        yield Instance("osc", f"{fs}-{one.name}-osc-{client}", "osc", one, client, host)
    for one in state.mdts:
        yield Instance("mdc", f"{fs}-{one.name}-mdc-{client}", "mdc", one, client, host)


# -- finding --


@lru_cache(maxsize=4096)
def _pattern(text: str) -> Callable[[str], object]:
    if not any(letter in text for letter in "*?["):
        return text.__eq__
    return re.compile(translate(text)).match


def find(
    state: FakeLustre, host: str | None, pattern: str
) -> tuple[tuple[Instance | None, Leaf], ...]:
    """Return the parameters that a pattern matches, in the order in which lctl prints them."""
    devices = instances(state, host)
    key = ("find", host, pattern, state.lustre_version)
    kept = state.caches.get(key)
    if kept is not None and kept[0] is devices:
        return kept[1]
    found = tuple(_find(state, devices, pattern))
    state.caches[key] = (devices, found)
    return found


def _find(
    state: FakeLustre, devices: Sequence[Instance], pattern: str
) -> Iterator[tuple[Instance | None, Leaf]]:
    words = pattern.replace("/", ".").split(".")
    if len(words) == 1:
        matches = _pattern(pattern)
        yield from ((None, leaf) for leaf in leaves("top", state.version) if matches(leaf.name))
        return
    if len(words) < 3:
        return
    tree, device, name = _pattern(words[0]), _pattern(".".join(words[1:-1])), _pattern(words[-1])
    chosen = [one for one in devices if tree(one.tree) and device(one.name)]
    wanted = {
        kind: [leaf for leaf in leaves(kind, state.version) if name(leaf.name)]
        for kind in {one.kind for one in chosen}
    }
    for root in range(3):
        for one in chosen:
            for leaf in wanted[one.kind]:
                if leaf.root == root:
                    yield one, leaf


def full_name(one: Instance | None, leaf: Leaf) -> str:
    """Return the name as lctl prints it."""
    return leaf.name if one is None else f"{one.tree}.{one.name}.{leaf.name}"


def path_of(one: Instance | None, leaf: Leaf) -> str:
    """Return the file of a parameter."""
    root = ROOTS[leaf.root]
    return f"{root}/{leaf.name}" if one is None else f"{root}/{one.tree}/{one.name}/{leaf.name}"


# -- printing --


def get_param(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return ``lctl get_param``: pattern by pattern, what is missing on stderr."""
    letters = "".join(word[1:] for word in argv if word.startswith("-"))
    stdout: list[str] = []
    stderr: list[str] = []
    exit_code = 0
    for pattern in (word for word in argv if not word.startswith("-")):
        found = find(state, host, pattern)
        if not found:
            path = pattern.replace(".", "/")
            stderr.append(f"error: get_param: param_path '{path}': No such file or directory\n")
            exit_code = exit_code or errno.ENOENT
        for one, leaf in found:
            if "N" in letters:
                stdout.append(f"{full_name(one, leaf)}\n")
                continue
            value = read(state, host, one, leaf)
            if value is None:
                # What cannot be read is told, and changes nothing of the exit code.
                stderr.append(f"error: read_param: '{path_of(one, leaf)}': {leaf.error}\n")
            elif "n" in letters:
                stdout.append(f"{value.removeprefix(chr(10))}\n")
            else:
                stdout.append(f"{full_name(one, leaf)}={value}\n")
    return Output("".join(stdout), "".join(stderr), exit_code)


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
        + ("f" if not target.rotational else "")
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
    return "FULL" if state.reaches(one.target) else "DISCONN"


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


def set_param(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return ``lctl set_param``: it prints what was asked for, whatever is kept."""
    if "-P" in argv:
        return _permanently(state, host, [word for word in argv if word != "-P"])
    quiet = "-n" in argv
    stdout: list[str] = []
    stderr: list[str] = []
    exit_code = 0
    for word in argv:
        if word.startswith("-"):
            continue
        pattern, _, value = word.partition("=")
        path = pattern.replace(".", "/")
        found = find(state, host, pattern)
        said, problem = "", 0 if found else errno.ENOENT
        if not found:
            said = f"param_path '{path}'"
        for one, leaf in found:
            name = full_name(one, leaf)
            if not leaf.writable and (one is None or (one.kind, leaf.name) not in _WRITERS):
                said, problem = f"opening '{path_of(one, leaf)}'", errno.EACCES
                continue
            number = write(state, host, one, leaf, value)
            if number:  # as recorded: one of several is named
                said = f"setting {path_of(one, leaf)}={value}" if not problem else said
                problem = number
            elif not quiet:
                stdout.append(f"{name}={value}\n")
        if problem:
            text = os.strerror(problem)
            stderr.append(f"error: set_param: {said}: {text}\n")
            stderr.append(f"error: set_param: setting '{path}'='{value}': {text}\n")
            exit_code = exit_code or problem
    return Output("".join(stdout), "".join(stderr), exit_code)


def _permanently(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return ``lctl set_param -P [-d]`` of exact names: the MGS keeps them, and sends them out."""
    if host != state.target("MDT0000").server:
        words = "No device found for name MGS: Invalid argument\n"
        words += (
            "This command must be run on the MGS.\nerror: executing set_param: No such device\n"
        )
        return Output("Reader error: 'No devices found' at 0\n", words, errno.ENODEV)
    state.permanent_used = True
    deletes = argv[0] == "-d"
    for word in argv[deletes:]:
        name, _, value = word.partition("=")
        if deletes:
            state.permanent.pop(name, None)
            continue
        state.permanent[name] = value
        for server in state.servers:
            for one, leaf in find(state, server.name, name):
                write(state, server.name, one, leaf, value)
    return Output()


def write(state: FakeLustre, host: str | None, one: Instance | None, leaf: Leaf, value: str) -> int:
    """Set one parameter as far as Lustre would; returns 0 or the number of the error."""
    writer = None if one is None else _WRITERS.get((one.kind, leaf.name))
    if writer is not None:
        assert one is not None
        return writer(state, one, value)
    before = read(state, host, one, leaf)
    if before is not None and before.isdigit() and not re.fullmatch(r"-?\d+", value):
        return errno.EINVAL
    state.parameters[full_name(one, leaf)] = value
    return 0


Writer = Callable[[FakeLustre, Instance, str], int]
_SWITCH = {"0": False, "n": False, "N": False, "1": True, "y": True, "Y": True}


def _switch(name: str) -> Writer:
    def writer(state: FakeLustre, one: Instance, value: str) -> int:
        if value not in _SWITCH:
            return errno.EINVAL
        setattr(one.target, name, _SWITCH[value])
        return 0

    return writer


def _set_max_create(state: FakeLustre, one: Instance, value: str) -> int:
    if not value.isdigit():
        return errno.EINVAL
    # OST_MIN_PRECREATE to OST_MAX_PRECREATE, or 0: no new objects.
    if value != "0" and not 32 <= int(value) <= MAX_CREATE_COUNT:
        return errno.ERANGE
    assert one.target is not None
    assert one.by is not None
    one.target.max_create_count[one.by] = int(value)
    return 0


def _set_active(state: FakeLustre, one: Instance, value: str) -> int:
    if value not in _SWITCH:
        return errno.EINVAL
    assert one.target is not None
    assert one.by is not None
    active = _SWITCH[value]
    if one.by == state.client_id:
        one.target.client_active = active
    else:
        one.target.osp_active[one.by] = active
    return errno.ETIMEDOUT if active and not state.reaches(one.target) else 0


def _set_reserve(name: str) -> Writer:
    def writer(state: FakeLustre, one: Instance, value: str) -> int:
        if not value.isdigit():
            return errno.EINVAL
        setattr(one.target, name, int(value))
        return 0

    return writer


def _keep_percent(leaf_name: str) -> Writer:
    def writer(state: FakeLustre, one: Instance, value: str) -> int:
        number = value.removesuffix("%")
        if not number.isdigit() or int(number) > 100:
            return errno.EINVAL
        for tree in ("lod", "lov"):  # the same file under two names
            state.parameters[f"{tree}.{one.name}.{leaf_name}"] = f"{number}%"
        return 0

    return writer


def _swallow(state: FakeLustre, one: Instance, value: str) -> int:
    """Recorded of qos_maxage: the new value is printed, and the old one stays."""
    return 0 if value.isdigit() else errno.EINVAL


_WRITERS: dict[tuple[str, str], Writer] = {
    ("obdfilter", "degraded"): _switch("degraded"),
    ("obdfilter", "no_create"): _switch("no_create"),
    ("obdfilter", "no_precreate"): _switch("no_create"),
    ("mdt", "no_create"): _switch("no_create"),
    ("osp-OST", "max_create_count"): _set_max_create,
    ("osp-OST", "active"): _set_active,
    ("osp-MDT", "active"): _set_active,
    ("osc", "active"): _set_active,
    ("osp-OST", "reserved_mb_low"): _set_reserve("reserved_mb_low"),
    ("osp-OST", "reserved_mb_high"): _set_reserve("reserved_mb_high"),
    ("lod", "qos_threshold_rr"): _keep_percent("qos_threshold_rr"),
    ("lod", "qos_prio_free"): _keep_percent("qos_prio_free"),
    ("lod", "qos_maxage"): _swallow,
}
