"""Fair sharing: progressive filling of flows that each use several resources.

All flows grow at the same pace until a resource is full or a flow has reached its demand; those
stop and the others continue. The result is max-min fair: no flow can get more without reducing one
that has less (D. Bertsekas and R. Gallager, Data Networks, 1992, 6.5).

Filling one resource at a time takes as many rounds as there are levels. Here every resource that is
the tightest of *all* its flows is closed in the same round: the others can only become wider
meanwhile, so their order does not matter.

The time of the slowest of tasks with equal bytes needs no filling. Let s be the smallest share that
any resource gives its flows when all are active, or a task's own limit if that is less. No task
ever gets less than s, since shares only rise as others end; and at the resource with share s, n
tasks need n x bytes / (n x s), since fewer tasks together get no more than all did. So the slowest
ends at exactly bytes / s.
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
    """Resources of one kind that flows share.

    Attributes
    ----------
    passed
        Index of the one each flow uses, shape ``(flows,)``.
    capacity
        Capacity of each.
    others_demand, others_weight
        Maximum demand of others on each, and their number of flows; ``None``: no others.
    """

    passed: Indices
    capacity: Array
    others_demand: Array | None = None
    others_weight: Array | None = None


def fair_share(
    capacity: Array, flows: Array, demand: Array | None = None, weight: Array | None = None
) -> Array:
    """Return the share of each of several unlimited flows, in competition with others.

    Others take their demand or ``weight`` shares, whichever is less. ``inf`` without a flow.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if demand is not None and weight is not None:
            share = np.maximum((capacity - demand) / flows, capacity / (flows + weight))
        else:
            share = np.maximum(capacity, 0.0) / flows
    return np.where(flows > 0, np.maximum(share, 0.0), np.inf)


def shares(resource: Resource) -> Array:
    """Return each resource's share per flow with all flows active, as if it were the only limit;
    ``inf`` for an unused one.
    """
    flows = np.bincount(resource.passed, minlength=len(resource.capacity)).astype(np.float64)
    return fair_share(resource.capacity, flows, resource.others_demand, resource.others_weight)


def slowest_rate(resources: Sequence[Resource], limit: float) -> float:
    """Return the overall rate of the last of flows with equal bytes.

    Parameters
    ----------
    limit
        Maximum demand of each flow.
    """
    return min([limit, *(float(shares(resource).min()) for resource in resources)])


def max_min(resources: Sequence[Resource], limits: Array) -> Array:
    """Return the rate of every flow.

    Parameters
    ----------
    resources
        All kinds of resources; every flow uses one of each kind.
    limits
        Maximum demand of each flow; ``inf`` for unlimited.
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
