"""Progressive filling and jobs as one would explain them, one step after another."""

from dataclasses import dataclass


@dataclass
class Shared:
    """Something that flows share, with others on it who ask for so much in so many flows."""

    capacity: float
    demand: float = 0.0
    weight: float = 0.0


def filled(paths: list[list[Shared]], limits: list[float]) -> list[float]:
    """Return each flow's rate: raise all by the same until one stops, fix it, go on.

    Others are one more flow each that grows ``weight`` times as fast up to its demand.
    """
    things = {id(thing): thing for path in paths for thing in path}
    others = [thing for thing in things.values() if thing.weight > 0 and thing.demand > 0]
    users = [(thing.weight, [thing], thing.demand) for thing in others]
    flows = [(1.0, path, limit) for path, limit in zip(paths, limits, strict=True)] + users
    rates = [0.0] * len(flows)
    stopped = [False] * len(flows)
    left = {key: thing.capacity for key, thing in things.items()}
    while not all(stopped):
        steps = []
        for key in things:
            growing = sum(
                flow[0]
                for n, flow in enumerate(flows)
                if not stopped[n] and any(id(thing) == key for thing in flow[1])
            )
            if growing:
                steps.append(left[key] / growing)
        steps += [(flow[2] - rates[n]) / flow[0] for n, flow in enumerate(flows) if not stopped[n]]
        step = max(min(steps), 0.0)
        for n, (weight, path, _) in enumerate(flows):
            if not stopped[n]:
                rates[n] += weight * step
                for thing in path:
                    left[id(thing)] -= weight * step
        full = {key for key, thing in things.items() if left[key] <= 1e-9 * thing.capacity}
        for n, (_, path, limit) in enumerate(flows):
            wants_no_more = rates[n] >= limit * (1 - 1e-9)
            if wants_no_more or any(id(thing) in full for thing in path):
                stopped[n] = True
    return rates[: len(paths)]


def ends(paths: list[list[Shared]], limits: list[float], work: float) -> list[float]:
    """Return when each flow has moved ``work``, sharing anew whenever one of them is done."""
    left = dict.fromkeys(range(len(paths)), work)
    done = [float("inf")] * len(paths)
    now = 0.0
    while left:
        found = filled([paths[n] for n in left], [limits[n] for n in left])
        rates = dict(zip(left, found, strict=True))
        times = {n: left[n] / rates[n] for n in left if rates[n] > 0}
        if not times:
            break
        step = min(times.values())
        now += step
        for n in list(left):
            left[n] -= rates[n] * step
            if n in times and times[n] <= step * (1 + 1e-9):
                done[n] = now
                del left[n]
    return done
