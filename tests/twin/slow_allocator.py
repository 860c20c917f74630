"""The block allocator as plainly as it can be said: lists of units, searched from the beginning."""

from collections.abc import Iterator
from itertools import pairwise

COUNTED = ("hits", "useless", "considered", "bad_suggestions")
ALIGNED, FAST, BEST, SLOW, ANY = "aligned", "fast", "best", "slow", "any"


class SlowAllocator:
    """Groups as lists of True (taken) and False; every loop walks all groups."""

    CRITERIA: tuple[str, ...] = (ALIGNED, FAST, SLOW, ANY)
    SKIPS_SHORT_RUNS = False

    def __init__(
        self,
        groups: int,
        units: int,
        *,
        enter: tuple[float, float, float] | None = (0.25, 0.15, 0.05),
        order2_bits: int = 8,
        max_linear_groups: int = 0,
        max_trim_order: int = 3,
        stripe: int = 0,
        flex_groups: int = 0,
        stream_goals: int = 1,
    ) -> None:
        self.groups = [[False] * units for _ in range(groups)]
        self.units = units
        self.enter = enter
        self.order2_bits = order2_bits
        self.linear = max_linear_groups
        self.best: tuple[int, int, int] | None = None
        self.trim = max_trim_order
        self.stripe = stripe
        self.flex_groups = flex_groups
        self.last = [0] * stream_goals
        self.counts = dict.fromkeys(("requests", "whole", "goals", "scanned", "breaks"), 0)
        self.loops = {name: [0] * len(self.CRITERIA) for name in COUNTED}

    @property
    def free(self) -> int:
        return sum(not taken for group in self.groups for taken in group)

    def allocate(
        self, length, *, goal=None, stream=False, least=None, exact=True, pointer=0, data=True
    ):
        self.asked, self.least, self.data = length, min(least or length, length), data
        self.length = length
        pointer = pointer % len(self.last) if stream else None
        if goal is not None and exact:
            group, start = goal
            wanted = self.groups[group][start : start + length]
            astray = length == self.stripe and (group * self.units + start) % length
            if len(wanted) == length and not any(wanted) and not astray:
                self.counts["goals"] += 1
                return self._take(group, start, length, pointer)
        first = self.last[pointer] if pointer is not None else 0 if goal is None else goal[0]
        self._begin()
        served = self._search(first, self._first_loop(length))
        self.counts["scanned"] += self.found
        self.counts["breaks"] += self.state == "broken"
        if self.best is None:
            return None
        self.loops["hits"][served] += 1
        group, start, size = self.best
        return self._take(group, start, min(size, self.length), pointer)

    def _begin(self) -> None:
        self.best, self.found, self.state = None, 0, "goes"

    def occupy(self, group, start, length):
        self.groups[group][start : start + length] = [True] * length
        self._changed(group)

    def release(self, group, start, length):
        self.groups[group][start : start + length] = [False] * length
        self._changed(group)

    def buddies(self, group: int) -> Iterator[tuple[int, int]]:
        """Yield the largest aligned powers of two that are free, to a quarter group, by place."""
        at = 0
        while at < self.units:
            size = max(1, self.units // 4)
            while size and (at % size or any(self.groups[group][at : at + size])):
                size //= 2
            if size:
                yield at, size
            at += size or 1

    def runs(self, group: int) -> list[tuple[int, int]]:
        """Return first unit and length of every free run."""
        edges = [True, *self.groups[group], True]
        starts = [at for at, (a, b) in enumerate(pairwise(edges)) if a and not b]
        ends = [at for at, (a, b) in enumerate(pairwise(edges)) if b and not a]
        return [(start, end - start) for start, end in zip(starts, ends, strict=True)]

    def _search(self, first: int, begin: int) -> int:
        for number in range(begin, len(self.CRITERIA)):
            for step in range(len(self.groups)):
                self._visit(number, (first + step) % len(self.groups))
                if self.state != "goes":
                    return number
            self.loops["useless"][number] += 1
        return len(self.CRITERIA) - 1

    def _changed(self, group: int) -> None:
        """Have the lists follow; there are none here."""

    def _first_loop(self, length: int) -> int:
        part = self.free / (len(self.groups) * self.units)
        for loop in (3, 2, 1):
            if self.enter is not None and part < self.enter[loop - 1]:
                return loop
        power = length in [2**order for order in range(self.order2_bits - 1, 20) if order]
        return 0 if power and length <= self.units // 4 else 1

    def _is_good(self, criterion: str, group: int) -> bool:
        free, runs = self.groups[group].count(False), self.runs(group)
        if free == 0:
            return False
        if criterion == ALIGNED:
            if self.data and self.flex_groups >= 4 and group % self.flex_groups == 0:
                return False
            return max(size for _, size in self.buddies(group)) >= self.length
        if criterion in (FAST, BEST):
            return free // len(runs) >= self.length
        return criterion == ANY or free >= self.length

    def _visit(self, number: int, group: int) -> None:
        criterion = self.CRITERIA[number]
        self.loops["considered"][number] += 1
        if not self._is_good(criterion, group):
            return
        if criterion == ALIGNED:
            enough = [one for one in self.buddies(group) if one[1] >= self.length]
            at, size = min(enough, key=lambda one: (one[1], one[0]))
            self.found += 1
            self.best, self.state = (group, at, size), "found"
            return
        if criterion in (FAST, BEST) and self.stripe and self.length % self.stripe == 0:
            self._look_for_stripe(group)
            if not self.SKIPS_SHORT_RUNS:
                return
        if self.state == "goes":
            self._look(group, self.SKIPS_SHORT_RUNS and criterion in (FAST, BEST))

    def _look_for_stripe(self, group: int) -> None:
        for at in range(self.units):
            wanted = self.groups[group][at : at + self.stripe]
            fits = len(wanted) == self.stripe and not any(wanted)
            if fits and (group * self.units + at) % self.stripe == 0:
                self.found += 1
                end = next((s + n for s, n in self.runs(group) if s <= at < s + n), 0)
                self.best, self.state = (group, at, end - at), "found"
                return

    def _stretches(self, group: int, skips: bool) -> Iterator[tuple[int, int]]:
        """Yield buddies joined until they are enough; what is left of a run may be too short."""
        sizes = dict(self.buddies(group))
        for start, length in self.runs(group):
            at, end = start, start + length
            while at < end and not (skips and end - at < self.length):
                size = sizes[at]
                while size < self.length and at + size < end:
                    size += sizes[at + size]
                yield at, size
                at += size

    def _look(self, group: int, skips: bool) -> None:
        for at, size in self._stretches(group, skips):
            self.found += 1
            best = self.best
            if size == self.length:
                self.best, self.state = (group, at, size), "found"
                return
            if (
                best is None
                or (best[2] < self.length and size > best[2])
                or (self.length <= size < best[2])
            ):
                self.best = group, at, size
            if self.found > 200:
                self.state = "broken"
                return
            if self.found > 10 and self._suits(group):
                self.state = "found"
                return
        if self.found > 200:
            self.state = "broken"
        elif self._suits(group):
            self.state = "found"

    def _suits(self, group: int) -> bool:
        return self.best is not None and self.best[2] >= self.length and self.best[0] == group

    def _take(self, group, start, size, pointer):
        self.groups[group][start : start + size] = [True] * size
        self._changed(group)
        self.counts["requests"] += 1
        self.counts["whole"] += size >= self.least
        if pointer is not None:
            self.last[pointer] = group
        return group, start, size
