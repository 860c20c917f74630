"""``lctl set_param``: what it takes, what it prints, and what is then kept."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence

from .parameters import Instance, Leaf, find, full_name, path_of
from .readers import read
from .state import MAX_CREATE_COUNT, FakeLustre, Output


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
