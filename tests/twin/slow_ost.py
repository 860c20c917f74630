"""An OST in miniature as plainly as it can be said: files are lists of units, all is searched.

It is built of the slow allocator and the slow drive, and takes over only the order of the draws.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.support.narrow import present
from tests.twin.slow_drive import GOLDEN, MASK, SlowDrive, scrambled, xoshiro
from tests.twin.slow_families import FAMILIES

GROUP, REQUEST = 2048, 16


class Drive(SlowDrive):
    """The slow drive that also counts how often each superblock was erased."""

    def __init__(self, *terms, **more) -> None:
        super().__init__(*terms, **more)
        self.wear = [0] * len(self.blocks)

    def _clean(self) -> None:
        super()._clean()
        self.wear[self.erased[-1]] += 1

    @property
    def live(self) -> int:
        return sum(self._valid(number) for number in range(len(self.blocks)))


@dataclass
class Writer:
    near: int
    file: list[int] | None = None
    left: int = 0


@dataclass
class Owed:
    written: float = 0.0
    deleted: float = 0.0
    purged: float = 0.0
    burst: float = 0.0
    resets: float = 0.0
    due: float = 0.0
    per_unit: float = 0.0


@dataclass
class SlowOst:
    """One column of a fleet; a file is the list of its units in the order of writing."""

    groups: int
    superblock_units: int
    spare: float
    policy: str = "greedy"
    separate: bool = False
    family: str = "classic"
    enter: tuple[float, float, float] | None = (0.25, 0.15, 0.05)
    discard: bool = False
    size_median_units: float = 4.0
    size_sigma: float = 2.2
    largest: float = 1 / 64
    stream_units: int = 16
    writers: int = 8
    seed: int = 0
    column: int = 0
    owed: Owed = field(default_factory=Owed)

    def __post_init__(self) -> None:
        self.units = self.groups * GROUP
        seed = hashed(self.seed, self.column)
        count = math.floor(self.units / (1 - self.spare) / self.superblock_units + 0.5)
        spare = 1 - self.units / (count * self.superblock_units)
        terms = {"policy": self.policy, "separate": self.separate, "seed": seed ^ MASK}
        self.drive = Drive(count, self.superblock_units, spare, **terms)
        enter = self.enter if self.family in ("classic", "optimize-scan") else None
        # The first loop is for half of a request and more, 8 units.
        self.blocks = FAMILIES[self.family](self.groups, GROUP, enter=enter, order2_bits=4)
        self.draws = xoshiro(seed)
        homes = [number * self.groups // self.writers * GROUP for number in range(self.writers)]
        self.writing = [Writer(home) for home in homes]
        self.by_place: list[list[int]] = []
        self.by_age: list[list[int]] = []
        self.visited = -1  # no group, until the first stream
        self.now: list[tuple[int, int]] = []  # stretches of this visit
        self.before: list[int] = []  # units of the last, that the drive has yet to write
        self.held: list[int] = []
        self.freed: set[int] = set()
        self.requests = self.refused = 0

    def fill(self, used: float, churn: float) -> None:
        while self._used() < used * self.units and self.blocks.free:
            self._user_request()
        self.advance(churn, churn, 0.0, 0.0, 0, 0.0)

    def advance(self, written, deleted, purged, burst, burst_files, resets) -> None:
        units = (written + burst) * self.units
        self.owed.due, self.owed.per_unit = resets, resets / units if units else 0.0
        self._burst(burst, burst_files)
        slices = max(1, math.ceil(written * self.units / 64))
        for _ in range(slices):
            self._delete(deleted / slices)
            self._purge(purged / slices)
            self.owed.written += written / slices * self.units
            while self.owed.written >= 1:
                self.owed.written -= self._user_request()
        rest, self.owed.due = self.owed.due, 0.0
        self._owe_resets(rest)

    def trim(self) -> float:
        self._leave(self.visited)
        self._drain(self.units)
        before = self.drive.trimmed
        for group in sorted(self.freed):
            for unit in range(group * GROUP, (group + 1) * GROUP):
                if not self._taken(unit):
                    self.drive.trim(unit)
        self.freed.clear()
        return (self.drive.trimmed - before) / self.units

    def reset(self) -> None:
        self.blocks.last = [0]

    def state(self) -> dict[str, float]:
        taken = [[True, *group] for group in self.blocks.groups]
        runs = sum(a and not b for group in taken for a, b in pairwise(group))
        free = self.units - self._used()
        wear = self.drive.wear
        found = {
            "requests": self.requests,
            "extents": self.blocks.counts["requests"],
            "goals": self.blocks.counts["goals"],
            "scanned": self.blocks.counts["scanned"],
            "written_units": self.drive.written,
            "copied_units": self.drive.copied,
            "erased_superblocks": sum(wear),
            "trimmed_units": self.drive.trimmed,
            "refused_units": self.refused,
            "used": self._used() / self.units,
            "live": self.drive.live / self.units,
            "free_runs": runs,
            "free_run_units": free / runs if runs else 0.0,
            "files": len(self.by_place),
            "last_group": self.blocks.last[0] / len(self.blocks.groups),
            "wear_mean": sum(wear) / len(wear),
            "wear_max": max(wear),
        }
        for name in ("hits", "useless", "considered"):
            values = [*self.blocks.loops[name], 0][:5]
            found |= {f"{name}_c{number}": value for number, value in enumerate(values)}
        return found

    def _used(self) -> int:
        return self.units - self.blocks.free - len(self.held)

    def _taken(self, unit: int) -> bool:
        return self.blocks.groups[unit // GROUP][unit % GROUP]

    def _below(self, end: int) -> int | None:
        high = next(self.draws) >> 32
        return high * end >> 32 if end else None

    def _size(self) -> int:
        while True:
            x, y = (2 * ((next(self.draws) >> 11) / 2**53) - 1 for _ in range(2))
            square = x * x + y * y
            if 0 < square < 1:
                normal = x * math.sqrt(-2 * math.log(square) / square)
                size = math.floor(self.size_median_units * math.exp(self.size_sigma * normal) + 0.5)
                return min(max(size, 1), max(1, math.floor(self.largest * self.units + 0.5)))

    def _user_request(self) -> int:
        writer = self.writing[present(self._below(len(self.writing)))]
        if writer.file is None:
            writer.file, writer.left = [], self._size()
        length = min(writer.left, REQUEST)
        small = length < self.stream_units
        got = self._request(writer.file, length, writer.near if small else None)
        if small and writer.file:
            writer.near = writer.file[-1] + 1
        writer.left -= length
        if got < length or not writer.left:
            if writer.file:
                self.by_place.append(writer.file)
                self.by_age.append(writer.file)
            writer.file = None
        return length

    def _burst(self, part: float, count: int) -> None:
        self.owed.burst += part * self.units
        units = math.floor(self.owed.burst)
        self.owed.burst -= units
        count = min(max(count, 1), units)
        ends = [units * number // count for number in range(count + 1)] if count else [0]
        files: list[list[int]] = [[] for _ in range(count)]
        still = [(file, ends[at + 1] - ends[at]) for at, file in enumerate(files)]
        while (number := self._below(len(still))) is not None:
            file, left = still[number]
            length = min(left, REQUEST)
            self._request(file, length, None)
            still[number] = (file, left - length)
            if length == left:
                drop(still, number)
        for file in files:
            self._release(file)

    def _request(self, file: list[int], length: int, near: int | None) -> int:
        self.requests += 1
        left = length
        while left:
            wanted = file[-1] + 1 if file else near
            goal = None if wanted is None else divmod(wanted % self.units, GROUP)
            terms = {"goal": goal, "stream": near is None}
            found = self.blocks.allocate(left, **terms)
            if found is None and self.held:
                self._leave(self.visited)
                found = self.blocks.allocate(left, **terms)
            if found is None:
                self.refused += left
                break
            group, start, size = found
            units = range(group * GROUP + start, group * GROUP + start + size)
            file.extend(units)
            left -= size
            if near is not None:
                for unit in units:
                    self.drive.write(unit)
                continue
            if group != self.visited:
                self._leave(group)
            self.now.append((units[0], size))
            self._drain(size)
        self._pass(length)
        return length - left

    def _leave(self, group: int) -> None:
        self._drain(self.units)
        self.visited = group
        self.before = [u for first, size in sorted(self.now) for u in range(first, first + size)]
        self.now = []
        held, self.held = self.held, []
        for unit in held:
            self._free(unit)

    def _drain(self, count: int) -> None:
        going, self.before = self.before[:count], self.before[count:]
        for unit in going:
            self.drive.write(unit)
            if self.discard and not self._taken(unit):
                self.drive.trim(unit)

    def _delete(self, part: float) -> None:
        self.owed.deleted += part * self.units
        while self.owed.deleted >= 1:
            place = self._below(len(self.by_place))
            if place is None:
                self.owed.deleted = min(self.owed.deleted, self._used())
                return
            self.owed.deleted -= self._remove(self.by_place[place])

    def _purge(self, part: float) -> None:
        self.owed.purged += part * self.units
        while self.owed.purged >= 1:
            if not self.by_age:
                self.owed.purged = min(self.owed.purged, self._used())
                return
            self.owed.purged -= self._remove(self.by_age[0])

    def _remove(self, file: list[int]) -> int:
        drop(self.by_place, next(at for at, one in enumerate(self.by_place) if one is file))
        self.by_age = [one for one in self.by_age if one is not file]
        self._release(file)
        return len(file)

    def _release(self, file: list[int]) -> None:
        for unit in file:
            if unit // GROUP == self.visited:
                self.held.append(unit)
            else:
                self._free(unit)

    def _free(self, unit: int) -> None:
        self.blocks.release(unit // GROUP, unit % GROUP, 1)
        self.freed.add(unit // GROUP)
        if self.discard:
            self.drive.trim(unit)

    def _pass(self, length: int) -> None:
        now = min(self.owed.per_unit * length, self.owed.due)
        self.owed.due -= now
        self._owe_resets(now)

    def _owe_resets(self, resets: float) -> None:
        self.owed.resets += resets
        if self.owed.resets >= 1:
            self.owed.resets -= math.floor(self.owed.resets)
            self.reset()


def drop(values: list, place: int) -> None:
    """Take one out and put the last in its place."""
    values[place] = values[-1]
    values.pop()


def hashed(seed: int, column: int) -> int:
    return scrambled(seed ^ (column + 1) * GOLDEN & MASK)


def rows(state: dict[str, list[float]]) -> Iterator[dict[str, float]]:
    """Yield each column of a fleet's state."""
    for column in range(len(state["used"])):
        yield {name: values[column] for name, values in state.items()}
