"""``lctl get_param``, ``set_param`` and ``list_param``: the parameter trees of a host.

What no field of the state holds stands in ``parameters.json``, by kind of device, as a running
2.17.57 printed it: tree (0 ``/proc``, 1 ``/sys``, 2 debugfs), name, value, the error of a value
that cannot be read, whether it can be written.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from .devices import mdts_on
from .state import FakeLustre, FakeTarget, Output

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
    from . import readers

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
            value = readers.read(state, host, one, leaf)
            if value is None:
                # What cannot be read is told, and changes nothing of the exit code.
                stderr.append(f"error: read_param: '{path_of(one, leaf)}': {leaf.error}\n")
            elif "n" in letters:
                stdout.append(f"{value.removeprefix(chr(10))}\n")
            else:
                stdout.append(f"{full_name(one, leaf)}={value}\n")
    return Output("".join(stdout), "".join(stderr), exit_code)
