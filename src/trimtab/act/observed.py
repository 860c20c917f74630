"""Input of a controller: all observations, and no means to look anything up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.message import Message
from trimtab.model.action import Action, Instruction, Plan, Untouched
from trimtab.model.site import Site
from trimtab.model.telemetry import NotAvailable, Snapshot
from trimtab.model.trim import TrimPractice

Answer = Instruction | Untouched
"""A controller's decision on a target, or on one of its settings."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A site at one time.

    Attributes
    ----------
    site
        Its limits, policies, servers and time zone.
    snapshot
        The newest snapshot; ``None`` if there is none.
    baseline
        An earlier snapshot, at least an hour older if possible, for rates and changes since.
    actions
        The ledger, oldest first, including actions without an outcome: all settings, closings and
        openings ever, trims and resets of at least two intervals, everything else of thirty days.
    busy
        Target to why it must be left alone now: a probe, survey, purge, rebuild or recovery. The
        empty name means all targets.
    practices
        Target to how the system itself trims it.
    pools
        Pool to its OSTs, or why they are unknown.
    measured
        Target to when a probe or survey last measured it alone.
    integrity
        Open incidents and findings about wrong data, each as a sentence.
    clock_jump_s
        Difference between the clocks of this host and the servers, or between the last snapshot and
        now, in seconds; 0 if they agree.
    """

    site: Site
    snapshot: Snapshot | None
    baseline: Snapshot | None = None
    actions: tuple[Action, ...] = ()
    busy: Mapping[str, Message] = field(default_factory=dict)
    practices: Mapping[str, TrimPractice | NotAvailable] = field(default_factory=dict)
    pools: Mapping[str, frozenset[str]] | NotAvailable = field(default_factory=dict)
    measured: Mapping[str, datetime] = field(default_factory=dict)
    integrity: tuple[Message, ...] = ()
    clock_jump_s: float = 0.0

    def plan(
        self,
        policy: str,
        now: datetime,
        answers: Sequence[Answer] = (),
        held: tuple[Message, ...] = (),
    ) -> Plan:
        """Return a plan based on these observations."""
        at = None if self.snapshot is None else self.snapshot.at
        instructions = tuple(each for each in answers if isinstance(each, Instruction))
        untouched = tuple(each for each in answers if isinstance(each, Untouched))
        return Plan(self.site.name, policy, now, at, instructions, untouched, held)
