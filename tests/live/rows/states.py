"""Targets in every state: each command names the target, and no two contradict each other."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.live.running import capability, require
from tests.live.subject import Subject


def first_lines(subject: Subject, name: str, words: str, *, check: bool = True) -> str:
    """Require that every command names a target and its state in its answer; return the first.

    A snapshot is kept first, as the watch would, for what reads the store.
    """
    site = subject.site("states")
    subject.trimtab("snapshot", site, code=None)
    commands: list[Sequence[str]] = [("targets", site), ("status", site), ("targets", site, name)]
    if check:
        commands.append(("check", site, "--no-probe"))
    answers = []
    for command in commands:
        began_s = time.monotonic()
        answer = subject.trimtab(*command, "--all", code=None)
        require(answer.code != 1, f"{command[0]} failed: {answer.complaint}")
        named = re.search(rf"{name[:3]}\S*", answer.text) is not None
        found = re.search(words, answer.text, re.IGNORECASE) is not None
        text = f"{command[0]} says, of {name}: {answer.text[:600]!r}; expected /{words}/"
        require(named and found, text)
        elapsed_s = time.monotonic() - began_s
        require(elapsed_s < 600, f"{command[0]} took {elapsed_s:.0f} s")
        answers.append(answer.text)
    at = answers[0].find(name)
    return answers[0][max(at - 60, 0) : at + 100]


@capability("state: OST stopped", "umount on its server, lctl get_param osc.*.state")
def ost_stopped(subject: Subject) -> str:
    """A target that nobody serves is lost, in every answer."""
    name = subject.cluster.osts[-1].name
    with subject.cluster.stopped(name):
        return first_lines(subject, name, "lost|no server|not served|cannot be reached")


@capability("state: OST full", "fallocate on that OST, lfs df")
def ost_full(subject: Subject) -> str:
    """An OST at 90 % is over the limit, and by how much."""
    name = subject.cluster.osts[1].name
    with subject.cluster.filled(name, 0.90):
        text = first_lines(subject, name, r"full|limit|%")
        fullness = subject.cluster.fullness(name)
        listed = subject.target_readings(subject.site("states"))[name]
        share = listed["used_bytes"] / (listed["used_bytes"] + listed["available_bytes"])
        require(abs(share - fullness) < 0.02, f"{name}: {share:.3f} full, lfs df: {fullness:.3f}")
        return text


@capability("state: OST read-only", "errors_count of ldiskfs, a write that fails")
def ost_read_only(subject: Subject) -> str:
    """A target that ldiskfs stopped is read-only, though Lustre calls it healthy."""
    name = subject.cluster.osts[-1].name
    target = subject.cluster.target(name)
    with subject.cluster.read_only(name):
        device = subject.cluster.block_device(target)
        errors = subject.cluster.on(target.server, "cat", f"/sys/fs/ldiskfs/{device}/errors_count")
        require(int(errors) > 0, f"ldiskfs counts {errors.strip()} errors on {device}")
        return first_lines(subject, name, "read-only")


@capability("state: OST degraded", "lctl set_param obdfilter.*.degraded")
def ost_degraded(subject: Subject) -> str:
    """A degraded flag is named."""
    name = subject.cluster.osts[0].name
    parameter = f"obdfilter.{subject.cluster.name}-{name}.degraded"
    with changed(subject, subject.cluster.target(name).server, parameter, "1"):
        return first_lines(subject, name, "degraded")


@capability("state: closed on one MDS", "lctl set_param osp.*.max_create_count on one MDS")
def ost_half_closed(subject: Subject) -> str:
    """An OST that one MDT alone has closed is neither open nor closed."""
    name, mdt = subject.cluster.osts[0].name, subject.cluster.mdts[0]
    fsname = subject.cluster.name
    parameter = f"osp.{fsname}-{name}-osc-{mdt.name}.max_create_count"
    with changed(subject, mdt.server, parameter, "0"):
        return first_lines(subject, name, f"closed|{mdt.name}", check=False)


@contextmanager
def changed(subject: Subject, server: str, parameter: str, value: str) -> Iterator[None]:
    """Have a parameter of a server at another value inside the block."""
    before = subject.cluster.parameter(server, parameter)
    subject.cluster.set_parameter(server, parameter, value)
    try:
        yield
    finally:
        subject.cluster.set_parameter(server, parameter, before)
