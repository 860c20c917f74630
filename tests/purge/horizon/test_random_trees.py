"""The horizon of real trees: scanned, tallied and found, against a loop over ``os.lstat``.

With files of several names, sparse files, exemptions, times in the future, and what is no file.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.counts import repetitions
from tests.support.manifests import manifest

from trimtab import _core
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.horizon import HorizonStatus, find_horizon, owners
from trimtab.purge.horizon.horizon_answer import curve_of, user_days
from trimtab.purge.purge_policy import DAY_S, Exemption, Policy, is_at_or_under
from trimtab.purge.rules_in_force import HOUR_S, ReadRecording, RulesInForce, rules_in_force

pytestmark = pytest.mark.calibration

DIRECTORIES = (b"", b"a", b"a/b", b"ab", b"kept", b"kept/deep")
NAMES = (b"f", b"g", b"-rf", b"new\nline", b"caf\xe9", b"b")
ROOT_CAN_CHOWN = os.geteuid() == 0


@dataclass(frozen=True)
class Made:
    """A file to be made."""

    directory: bytes
    name: bytes
    blocks: int
    hole_bytes: int
    read_days: float
    written_days: float
    uid: int
    link_to: int | None
    named_outside: bool


ages_days = st.sampled_from([-1000.0, -0.5, 0.5, 2.0, 2.0]) | st.floats(-10, 400)
made_files = st.lists(
    st.builds(
        Made,
        st.sampled_from(DIRECTORIES),
        st.sampled_from(NAMES),
        st.integers(0, 5),
        st.sampled_from([0, 0, 1, 2**30]),
        ages_days,
        ages_days,
        st.integers(0, 2),
        st.none() | st.integers(0, 5),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=14,
    unique_by=lambda one: (one.directory, one.name),
)
policies = st.builds(
    lambda exemptions, size, linked, root_files, target: Policy(
        "trees", "/r", target=target, counted=("atime", "mtime"), minimum_age_s=DAY_S,
        minimum_size_bytes=size, exemptions=tuple(exemptions),
        linked_files="delete" if linked else "keep", keep_root_files=root_files,
    ),
    st.lists(
        st.sampled_from(
            [
                Exemption("path", b"kept"), Exemption("path", b"a"), Exemption("path", b"a/f"),
                Exemption("user", 1), Exemption("group", 1),
            ]
        ),
        max_size=2,
    ),
    st.sampled_from([0, 0, 1, 5000]),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([0.0, 0.3, 0.5, 0.9]),
)  # fmt: skip


def build(root: bytes, files: list[Made], now_s: int) -> None:
    for directory in DIRECTORIES[1:]:
        os.makedirs(os.path.join(root, directory), exist_ok=True)  # noqa: PTH103, PTH118 (bytes)
    os.symlink(b"f", os.path.join(root, b"link"))  # noqa: PTH118, PTH211 (bytes)
    os.mkfifo(os.path.join(root, b"pipe"))  # noqa: PTH118 (bytes)
    paths: list[bytes] = []
    for file in files:
        path = os.path.join(root, file.directory, file.name)  # noqa: PTH118 (bytes)
        if os.path.lexists(path):
            continue  # a/b is a directory already
        if file.link_to is not None and file.link_to < len(paths):
            os.link(paths[file.link_to], path)
            continue
        with open(path, "wb") as out:  # noqa: PTH123 (bytes)
            out.write(b"x" * (4096 * file.blocks))
            out.truncate(4096 * file.blocks + file.hole_bytes)
            os.fsync(out.fileno())  # blocks are counted when they are written
        if ROOT_CAN_CHOWN:
            os.chown(path, file.uid, file.uid)
        times = (now_s - file.read_days * DAY_S, now_s - file.written_days * DAY_S)
        os.utime(path, times)
        if file.named_outside:
            os.link(path, root + b".outside.%d" % len(paths))
        paths.append(path)


def every_name(root: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    for directory, below, names in os.walk(root):
        for name in (*below, *names):
            path = os.path.join(directory, name)  # noqa: PTH118 (bytes)
            yield os.path.relpath(path, root), os.lstat(path)


def eligible(path: bytes, seen: os.stat_result, rules: RulesInForce) -> int | None:
    """Return the last use of a file if it may go, judged by one name, step by step."""
    if (
        not stat.S_ISREG(seen.st_mode)
        or any(is_at_or_under(path, top) for top in rules.exempt_paths)
        or seen.st_uid in rules.exempt_users
        or seen.st_gid in rules.exempt_groups
        or (seen.st_nlink > 1 and not rules.linked)
        or seen.st_size < rules.minimum_size_bytes
    ):
        return None
    last_use_s = min(max(seen.st_atime_ns, seen.st_mtime_ns) // 10**9, rules.as_of_s)
    return last_use_s if last_use_s < rules.old_enough_before_s else None


def slowly(root: bytes, rules: RulesInForce) -> list[tuple[int, int, int]]:
    """Return last use, bytes and owner of every file that may go, each inode once."""
    names: dict[int, list[tuple[bytes, os.stat_result]]] = defaultdict(list)
    for path, seen in every_name(root):
        names[seen.st_ino].append((path, seen))
    result = []
    for of_inode in names.values():
        uses = [eligible(path, seen, rules) for path, seen in of_inode]
        _, seen = of_inode[0]
        if None not in uses and len(uses) == max(1, seen.st_nlink):
            last_use_s = next(use for use in uses if use is not None)
            result.append((last_use_s, seen.st_blocks * 512, seen.st_uid))
    return result


def scanned(root: str, index: Path) -> tuple[list[str], int]:
    """Return the shards of a tree and when its scan ended."""
    scan = _core.NamespaceScan(root, str(index), threads=2)
    scan.start()
    assert scan.wait(60.0)
    result = scan.result()
    return [str(index / name) for name in result.shards], result.ended_ns // 10**9


@pytest.mark.parametrize("examples", repetitions(gate=25, soak=400))
def test_the_horizon_of_a_tree_is_the_one_that_a_loop_over_its_files_finds(examples: int) -> None:
    property_test = given(made_files, policies, st.integers(0, 10**6), st.integers(1, 10**7))
    terms = settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    terms(property_test(check_horizon))()


def check_horizon(files: list[Made], policy: Policy, rest_bytes: int, available_bytes: int) -> None:
    now_s = int(datetime.now(UTC).timestamp())
    with tempfile.TemporaryDirectory() as aside:
        root = Path(aside, "tree")
        root.mkdir()
        build(os.fsencode(root), files, now_s)
        shards, ended_s = scanned(str(root), Path(aside, "index"))
        index = manifest(str(root), ended_s)
        policy, reads = replace(policy, root=str(root)), ReadRecording(declared=True)
        rules = rules_in_force(policy, index, reads, now_s=ended_s + 5)
        truth = slowly(os.fsencode(root), rules)
        tally = _core.tally(shards, rules.core(), threads=2)
        inodes = {
            seen.st_ino: seen.st_blocks * 512
            for _, seen in every_name(os.fsencode(root))
            if stat.S_ISREG(seen.st_mode)
        }
        assert (tally.files, tally.allocated_bytes) == (len(inodes), sum(inodes.values()))
        usage = Usage(sum(inodes.values()) + rest_bytes, available_bytes)
        youngest_hour = rules.old_enough_before_s // HOUR_S
        assert policy.target is not None
        terms = {"youngest_hour": youngest_hour, "kept_back": tally.kept()}
        horizon = find_horizon(curve_of(tally), usage, policy.target, **terms)
        hold(horizon.cut_off_hour, truth, horizon.required_bytes, youngest_hour)
        assert horizon.eligible.files == len(truth)
        assert horizon.eligible.allocated_bytes == sum(size for _, size, _ in truth)
        if horizon.status is HorizonStatus.MET_ALREADY:
            return
        assert horizon.cut_off_s is not None
        gone = [one for one in truth if one[0] < horizon.cut_off_s]
        assert horizon.freed.files == len(gone)
        assert horizon.freed.allocated_bytes == sum(size for _, size, _ in gone)
        for of_user in owners(user_days(tally), horizon.cut_off_hour or 0):
            own = sum(size for _, size, uid in gone if uid == of_user.owner)
            assert of_user.least.allocated_bytes <= own <= of_user.most.allocated_bytes
        chosen = _core.select(
            shards, rules.core(), before_s=horizon.cut_off_s, out=str(Path(aside, "c.parquet"))
        )
        assert chosen == (horizon.freed.files, horizon.freed.allocated_bytes)


def hold(
    hour: int | None, truth: list[tuple[int, int, int]], required: int, youngest_hour: int
) -> None:
    """Try every hour at which something changes: the first that frees enough is the horizon."""
    candidates = sorted({last_use_s // HOUR_S + 1 for last_use_s, _, _ in truth})
    for candidate in candidates:
        if sum(size for at_s, size, _ in truth if at_s < candidate * HOUR_S) >= required > 0:
            assert hour == candidate
            return
    assert hour == (youngest_hour if required else None)
