"""Fair sharing: progressive filling of flows that each pass several resources.

All flows grow at the same pace until a resource is full or a flow has what it asks for; those stop
and the rest go on. The result is max-min fair: nobody can get more without taking from somebody who
has less (D. Bertsekas and R. Gallager, Data Networks, 1992, 6.5).

Filling one resource after another takes as many rounds as there are levels. Here every resource
that is the tightest of *all* flows through it is closed in the same round: others can only become
wider while they wait, so the order among those does not matter.

When the slowest of tasks with equal bytes is done needs no filling at all. Let s be the least share
that any resource gives its flows when all of them are active, or what one task moves alone if that
is less. No task ever gets less than s, since shares only rise while others stop or end; and where
the share is s, n tasks need n x bytes / (n x s), since fewer of them together get no more than all
did. So the slowest is done at bytes / s exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.arrays import Array

Indices = NDArray[np.intp]

_SAME = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Resource:
    """Things of one kind that flows share.

    Attributes
    ----------
    passed
        Which one each flow passes, shape ``(flows,)``.
    capacity
        Of each.
    others_demand, others_weight
        What others ask of each at most, and how many flows they are; ``None``: nobody.
    """

    passed: Indices
    capacity: Array
    others_demand: Array | None = None
    others_weight: Array | None = None


def fair_share(
    capacity: Array, flows: Array, demand: Array | None = None, weight: Array | None = None
) -> Array:
    """Return what each of so many flows gets where all ask for more, beside others.

    Others take what they ask for, or ``weight`` shares, whatever is less. ``inf`` without a flow.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if demand is not None and weight is not None:
            share = np.maximum((capacity - demand) / flows, capacity / (flows + weight))
        else:
            share = np.maximum(capacity, 0.0) / flows
    return np.where(flows > 0, np.maximum(share, 0.0), np.inf)


def shares(resource: Resource) -> Array:
    """Return what each flow gets of each resource while all flows are active, as if it alone
    limited them; ``inf`` for one that no flow passes.
    """
    flows = np.bincount(resource.passed, minlength=len(resource.capacity)).astype(np.float64)
    return fair_share(resource.capacity, flows, resource.others_demand, resource.others_weight)


def slowest_rate(resources: Sequence[Resource], limit: float) -> float:
    """Return the rate at which the last of flows with equal bytes moves them, start to end.

    Parameters
    ----------
    limit
        What each flow asks for at most.
    """
    return min([limit, *(float(shares(resource).min()) for resource in resources)])


def max_min(resources: Sequence[Resource], limits: Array) -> Array:
    """Return the rate of every flow.

    Parameters
    ----------
    resources
        Each kind that flows pass; every flow passes one of each kind.
    limits
        What each flow asks for at most; ``inf`` for all that it can get.
    """
    rates = np.zeros(len(limits))
    active = np.arange(len(limits))
    left = [resource.capacity.astype(np.float64) for resource in resources]
    passed = [resource.passed for resource in resources]
    wanted = limits
    while active.size:
        levels: list[Array] = []
        for resource, where, capacity in zip(resources, passed, left, strict=True):
            flows = np.bincount(where, minlength=len(capacity)).astype(np.float64)
            share = fair_share(capacity, flows, resource.others_demand, resource.others_weight)
            levels.append(share[where])
        tightest = np.minimum.reduce([wanted, *levels])
        done = wanted <= tightest
        for where, level, capacity in zip(passed, levels, left, strict=True):
            looser = np.bincount(where, tightest * _SAME < level, minlength=len(capacity))
            done |= looser[where] == 0
        granted = tightest[done]
        rates[active[done]] = granted
        if done.all():
            break
        for number, where in enumerate(passed):
            left[number] -= np.bincount(where[done], granted, minlength=len(left[number]))
        keep = ~done
        active, wanted = active[keep], wanted[keep]
        passed = [where[keep] for where in passed]
    return rates
