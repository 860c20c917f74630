"""The block allocator as plainly as it can be said: lists of units, searched from the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise


class SlowAllocator:
    """Groups as lists of True (taken) and False."""

    def __init__(
        self,
        groups: int,
        units: int,
        *,
        enter: tuple[float, float, float] | None = (0.25, 0.15, 0.05),
    ) -> None:
        self.groups = [[False] * units for _ in range(groups)]
        self.units = units
        self.enter = enter
        self.last = 0
        self.counts = dict.fromkeys(("requests", "whole", "goals", "scanned", "breaks"), 0)
        self.loops = {name: [0] * 4 for name in ("hits", "useless", "considered")}

    @property
    def free(self) -> int:
        return sum(not taken for group in self.groups for taken in group)

    def allocate(self, length, *, goal=None, stream=False):
        if goal is not None:
            group, start = goal
            wanted = self.groups[group][start : start + length]
            if len(wanted) == length and not any(wanted):
                self.counts["goals"] += 1
                return self._take(group, start, length, length, stream)
        first = self.last if stream else 0 if goal is None else goal[0]
        best, found, state, served = None, 0, "goes", 3
        for loop in range(self._first_loop(length), 4):
            best, found, state = self._walk(loop, first, length, best, found)
            if state != "goes":
                served = loop
                break
        self.counts["scanned"] += found
        self.counts["breaks"] += state == "broken"
        if best is None:
            return None
        self.loops["hits"][served] += 1
        group, start, size = best
        return self._take(group, start, size, length, stream)

    def release(self, group, start, length):
        self.groups[group][start : start + length] = [False] * length

    def buddies(self, group: int) -> Iterator[tuple[int, int]]:
        """Yield the largest aligned powers of two that are free, by place."""
        at = 0
        while at < self.units:
            size = self.units
            while size and (at % size or any(self.groups[group][at : at + size])):
                size //= 2
            if size:
                yield at, size
            at += size or 1

    def _stretches(self, group: int, needed: int) -> Iterator[tuple[int, int]]:
        joined: tuple[int, int] | None = None
        for at, size in self.buddies(group):
            if joined is not None and joined[0] + joined[1] == at and joined[1] < needed:
                joined = joined[0], joined[1] + size
            else:
                if joined is not None:
                    yield joined
                joined = at, size
        if joined is not None:
            yield joined

    def _first_loop(self, length: int) -> int:
        part = self.free / (len(self.groups) * self.units)
        for loop in (3, 2, 1):
            if self.enter is not None and part < self.enter[loop - 1]:
                return loop
        return 0 if length >= 128 and length & (length - 1) == 0 else 1

    def _is_good(self, loop: int, group: int, length: int) -> bool:
        free = self.groups[group].count(False)
        taken = [True, *self.groups[group]]
        runs = sum(before and not now for before, now in pairwise(taken))
        if free == 0 or (loop < 3 and free < length):
            return False
        if loop == 0:
            return max(size for _, size in self.buddies(group)) >= length
        return loop != 1 or free // runs >= length

    def _walk(self, loop, first, length, best, found):
        for step in range(len(self.groups)):
            group = (first + step) % len(self.groups)
            self.loops["considered"][loop] += 1
            if not self._is_good(loop, group, length):
                continue
            if loop == 0:
                at, size = min(
                    (one for one in self.buddies(group) if one[1] >= length),
                    key=lambda one: (one[1], one[0]),
                )
                return (group, at, size), found + 1, "found"
            best, found, state = self._look(group, length, best, found)
            if state != "goes":
                return best, found, state
        self.loops["useless"][loop] += 1
        return best, found, "goes"

    def _look(self, group, length, best, found):
        for at, size in self._stretches(group, length):
            found += 1
            if size == length:
                return (group, at, size), found, "found"
            if best is None or (size > best[2] if best[2] < length else length <= size < best[2]):
                best = group, at, size
            if found > 200:
                return best, found, "broken"
            if found > 10 and best[2] >= length and best[0] == group:
                return best, found, "found"
        suits = best is not None and best[2] >= length and best[0] == group
        return best, found, "broken" if found > 200 else "found" if suits else "goes"

    def _take(self, group, start, size, length, stream):
        size = min(size, length)
        self.groups[group][start : start + size] = [True] * size
        self.counts["requests"] += 1
        self.counts["whole"] += size == length
        if stream:
            self.last = group
        return group, start, size
