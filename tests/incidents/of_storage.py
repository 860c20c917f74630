"""Faults of the storage itself: space, targets, servers, drives, allocator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from tests.incidents.mechanism import PURGE_H, Mechanism, fill_towards
from tests.incidents.system import Conditions, Flags, State


@dataclass(slots=True)
class OverLimit(Mechanism):
    """Users' data grow past the limit on most targets until a purge brings them down."""

    VARIANTS: ClassVar = ("most", "some")
    goal: float = 0.0
    ramp_h: float = 0.0
    before: float = 0.0

    def prepare(self) -> None:
        osts, rng = self.system.base_osts, self.rng
        share = rng.uniform(0.75, 1.0) if self.variant == "most" else rng.uniform(0.3, 0.5)
        self.where = self.some(max(3, round(osts * share)))
        self.goal = self.between(0.85, 0.92)
        self.ramp_h = rng.uniform(18, 48)
        self.before = self.system.site.fullness
        if np.isfinite(self.end):
            self.log("purge", self.end, "purge of files not used for 8 weeks", until=self.end + 12)

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            left = self.start + self.ramp_h - now.hour
            fill_towards(now, state, self.where & (state.fullness < self.goal), self.goal, left)
        elif 0 <= now.hour - self.end < PURGE_H:
            left = self.end + PURGE_H - now.hour
            over = self.where & (state.fullness > self.before)
            fill_towards(now, state, over, self.before, left)


@dataclass(slots=True)
class Filling(Mechanism):
    """A runaway job writes one file of one stripe: its target is full within hours."""

    goal: float = 0.0
    job_bytes_per_s: float = 0.0
    filled: bool = False

    def prepare(self) -> None:
        self.where = self.some(1)
        self.goal = self.between(0.972, 0.985)
        self.job_bytes_per_s = self.between(4e9, 8e9)
        self.chain = (("targets-over-limit", "target-filling"),)
        if np.isfinite(self.end):
            detail = "a user's single-stripe files were removed from one OST"
            self.log("note", self.end + 1, detail, targets=True)

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            self.filled = self.filled or bool((state.fullness[self.where] >= self.goal).all())
            if not self.filled:
                step = self.job_bytes_per_s * 3600
                space = (self.goal - state.fullness) * 133e12
                now.fill = now.fill + np.where(self.where, np.minimum(step, space + 1.0), 0.0)
                streams = self.between(6.0, 15.0) * self.system.probe_streams
                now.use(self.where, self.job_bytes_per_s, 0.0, streams)
                now.jobs += 1
        elif 0 <= now.hour - self.end < 4:
            left = self.end + 4 - now.hour
            fill_towards(now, state, self.where, self.system.site.fullness, left)


@dataclass(slots=True)
class FewOpen(Mechanism):
    """Few targets take new files: closed by hand, or by the policy that guards the limit."""

    VARIANTS: ClassVar = ("policy", "operator")
    closed: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    stay_open: int = 0

    def prepare(self) -> None:
        osts = self.system.base_osts
        # 2 or 3 of 24 cannot take what the clients send: 63 GB/s against 16 to 20 each.
        self.stay_open = max(2, round(osts * self.between(0.125, 0.084)))
        self.mitigation = True
        if self.variant == "operator":
            self.where = self.some(osts - self.stay_open)
            self.log("target-closed", self.start, "closed for maintenance", targets=True)
            self.log("target-opened", self.end, "maintenance is over", targets=True)
        else:
            self.because_of = "targets-over-limit"
            self.chain = (("targets-over-limit", None),)
            self.where = np.arange(self.system.osts) < osts
            if np.isfinite(self.end):
                self.log("purge", self.end, "purge to make room", until=self.end + PURGE_H)

    def act(self, now: Conditions, state: State) -> None:
        if self.variant == "operator":
            if self.acts(now.hour):
                now.closed = now.closed | self.where
            return
        # Grown to just over the limit: fullness costs little yet, the policy does the rest.
        if now.hour - self.start in range(-6, 0):
            fill_towards(now, state, self.where, 0.762, -(now.hour - self.start))
        elif 0 <= now.hour - self.end < PURGE_H:
            left = self.end + PURGE_H - now.hour
            fill_towards(now, state, self.where, 0.66, left)


@dataclass(slots=True)
class Silent(Mechanism):
    """One target all but stops; most of what is told of it stays as it was."""

    VARIANTS: ClassVar = ("hangs", "crawls", "lost", "read-only")

    def prepare(self) -> None:
        self.where = self.some(1)
        noticed = self.start + self.rng.uniform(5, 20)
        if noticed < self.end:
            self.log("target-failed", noticed, "OST does not answer", targets=True)

    def act(self, now: Conditions, state: State) -> None:
        if not self.acts(now.hour):
            return
        # 260 MB/s is the least that was measured (seeds 24).
        rate = self.between(260e6, 60e6) if self.variant == "crawls" else 0.0
        now.rate_limit = np.where(self.where, rate, now.rate_limit)
        if self.variant == "lost":
            now.parted = now.parted | self.where
            if now.hour - self.start < 2:
                now.still_given = now.still_given | self.where
        elif self.variant == "read-only":
            now.read_only = now.read_only | self.where
            now.errors = now.errors + np.where(self.where, 3.0, 0.0)


@dataclass(slots=True)
class Failover(Mechanism):
    """A server is down; its neighbour carries the targets of both."""

    server: int = 0

    def prepare(self) -> None:
        self.server = int(self.rng.integers(self.system.base_osts // 2))
        self.where = self.system.home == self.server
        name = self.system.server(self.server)
        self.log(
            "failover",
            self.start,
            f"{name} crashed; its targets moved to its partner",
            until=self.end,
            targets=True,
        )

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            partner = self.server ^ 1
            if partner >= self.system.base_osts // 2:
                partner = self.server - 1
            now.serving = np.where(self.where, partner, now.serving)
            # It is back soon; its targets stay where they are until somebody moves them.
            now.up[self.server] = now.hour - self.start >= 5
            now.rebooted[self.server] = now.hour - self.start == 5
        if now.hour in (self.start, self.end):
            # A second target that recovers prolongs it.
            now.recovery_s = self.between(1.0, 2.5) * 300.0


@dataclass(slots=True)
class Degraded(Mechanism):
    """A drive of one OST failed; what lay on it is read from the others and rebuilt."""

    def prepare(self) -> None:
        self.where = self.some(1)
        detail = "a drive failed; the array rebuilds onto its spare"
        self.log("rebuild", self.start, detail, until=self.end, targets=True)

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            missing = 1.0 if self.strength < 0.7 else 2.0
            now.missing_drives = np.where(self.where, missing, now.missing_drives)
            now.rebuild = np.where(self.where, self.between(0.35, 0.65), now.rebuild)


@dataclass(slots=True)
class TrimOverdue(Mechanism):
    """Nobody trims any more: all targets, or those that a table of mounts does not list."""

    VARIANTS: ClassVar = ("stopped", "left-out")

    def prepare(self) -> None:
        osts = self.system.base_osts
        self.where = self.some(osts if self.variant == "stopped" else osts // 2)
        if np.isfinite(self.end):
            self.log("trim", self.end, "trimmed by hand", targets=True)

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            now.untrimmed = now.untrimmed | self.where
        elif now.hour == self.end:
            now.trim = True


@dataclass(slots=True)
class Collecting(Mechanism):
    """Small overwriting all over the drives: they collect garbage while they are written to."""

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            now.random_share = max(now.random_share, self.between(0.35, 0.85))
            now.user_write = now.user_write * 1.3


@dataclass(slots=True)
class Throttling(Mechanism):
    """Writeback throttling is on: the kernel's default came back, by itself or with an update."""

    VARIANTS: ClassVar = ("default", "update")

    def prepare(self) -> None:
        if self.variant == "update":
            self.because_of = "configuration-change"
            self.chain = (("configuration-change", None),)
            detail = "storage servers updated to a new kernel and rebooted"
            self.log("config-change", self.start - 0.4, detail)

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            now.throttling = np.ones_like(now.throttling)
            if self.variant == "update":
                now.texts["server_kernel"] = "4.18.0-513.9.1.el8_lustre.x86_64"
                now.rebooted = now.rebooted | (now.hour == self.start)


@dataclass(slots=True)
class Loops(Mechanism):
    """The allocator searches for nothing: its thresholds are the defaults and targets are full."""

    VARIANTS: ClassVar = ("thresholds", "growth")
    ramp_h: float = 0.0

    def prepare(self) -> None:
        self.where = np.arange(self.system.osts) < self.system.base_osts
        self.ramp_h = self.rng.uniform(12, 36)
        root = None if self.variant == "thresholds" else "targets-over-limit"
        self.because_of = "targets-over-limit"
        self.chain = (("targets-over-limit", None),)
        if root is not None and np.isfinite(self.end):
            self.log("purge", self.end, "purge of files not used for 8 weeks", until=self.end + 12)

    def act(self, now: Conditions, state: State) -> None:
        if self.variant == "thresholds":
            if self.acts(now.hour):
                now.thresholds = (25, 15, 5)
            return
        if self.acts(now.hour):
            goal = self.between(0.80, 0.83)
            left = self.start + self.ramp_h - now.hour
            if left > 0:
                fill_towards(now, state, self.where & (state.fullness < goal), goal, left)
        elif 0 <= now.hour - self.end < PURGE_H:
            left = self.end + PURGE_H - now.hour
            fill_towards(now, state, self.where, self.system.site.fullness, left)
