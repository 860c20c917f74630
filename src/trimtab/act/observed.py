"""What a controller decides on: everything that was observed, and nothing that it could look up."""

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
"""What a controller says of a target, or of a setting of one."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A site at one time.

    Attributes
    ----------
    site
        Its limits, policies, servers and time zone.
    snapshot
        The newest; ``None``: there is none.
    baseline
        An earlier snapshot, at least an hour older where there is one: for rates and for what
        changed since.
    actions
        The ledger, oldest first, those without an outcome too: what was set, closed or opened ever,
        trims and resets of two of their intervals at least, the rest of thirty days.
    busy
        Target to why it must be left alone now: a probe or survey runs on it, a purge, a rebuild,
        recovery. The empty name stands for all targets.
    practices
        Target to how it is trimmed without Trimtab.
    pools
        Pool to its OSTs, or why they are not known.
    measured
        Target to when a probe or survey last measured it by itself.
    integrity
        Open incidents and findings about wrong data, each as a sentence.
    clock_jump_s
        By how much the clock of this host and that of the servers, or of the last snapshot and
        now, contradict each other; 0 where nothing does.
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
        """Return a plan that rests on what was observed."""
        at = None if self.snapshot is None else self.snapshot.at
        instructions = tuple(each for each in answers if isinstance(each, Instruction))
        untouched = tuple(each for each in answers if isinstance(each, Untouched))
        return Plan(self.site.name, policy, now, at, instructions, untouched, held)
