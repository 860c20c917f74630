"""A drive as plainly as it can be said: whole lists searched, nothing kept in order.

What it must do like the fast one: which superblock is cleaned, where each unit then lies. Only the
draws of cost-benefit are taken over, as a generator of whole numbers.
"""

from collections import deque
from collections.abc import Iterator

from tests.support.narrow import present

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def scrambled(z: int) -> int:
    """Return what SplitMix64 makes of its state."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def xoshiro(seed: int) -> Iterator[int]:
    """Yield numbers of xoshiro256++, seeded by SplitMix64 (D. Blackman and S. Vigna, 2018)."""
    state = []
    for _ in range(4):
        seed = (seed + GOLDEN) & MASK
        state.append(scrambled(seed))
    while True:
        a, b, c, d = state
        total = (a + d) & MASK
        yield (((total << 23) | (total >> 41)) + a) & MASK
        c ^= a
        d ^= b
        b, a = b ^ c, a ^ d
        c ^= (state[1] << 17) & MASK
        d = ((d << 45) | (d >> 19)) & MASK
        state = [a, b, c, d]


class SlowDrive:
    """One list of units a superblock, ``None`` where a place holds nothing valid."""

    def __init__(
        self,
        superblocks: int,
        units: int,
        spare: float,
        *,
        policy: str = "greedy",
        separate: bool = False,
        seed: int = 0,
    ) -> None:
        self.units = units
        self.policy = policy
        self.separate = separate
        self.logical = int(superblocks * units * (1 - spare) + 0.5)
        self.blocks: list[list[int | None]] = [
            [] for _ in range(superblocks + (2 if separate else 1) + 1)
        ]
        self.erased = deque(range(len(self.blocks)))
        self.filled: list[int] = []  # in the order in which they were filled
        self.lowered = [0] * len(self.blocks)  # when a superblock last came to hold what it holds
        self.filled_at = [0] * len(self.blocks)
        self.drawn = xoshiro(seed)
        self.open: dict[str, int | None] = {"host": None, "copies": None}
        self.written = self.copied = self.trimmed = self.steps = 0

    def write(self, unit: int) -> int:
        before = self.copied
        while self._has_no_room("host"):
            self._close("host")
            if len(self.erased) > 1:
                self.open["host"] = self.erased.popleft()
            else:
                self._clean()
        self._forget(unit)
        self._append("host", unit)
        self.written += 1
        return self.copied - before

    def trim(self, unit: int) -> bool:
        held = self._forget(unit)
        self.trimmed += held
        return held

    def place(self, unit: int) -> tuple[int, int] | None:
        for number, block in enumerate(self.blocks):
            if unit in block:
                return number, block.index(unit)
        return None

    def _has_no_room(self, frontier: str) -> bool:
        number = self.open[frontier]
        return number is None or len(self.blocks[number]) == self.units

    def _close(self, frontier: str) -> None:
        number = self.open[frontier]
        if number is not None:
            self.filled.append(number)
            self.filled_at[number] = self.written
            self._stamp(number)
        self.open[frontier] = None

    def _append(self, frontier: str, unit: int) -> None:
        self.blocks[present(self.open[frontier])].append(unit)

    def _stamp(self, number: int) -> None:
        self.steps += 1
        self.lowered[number] = self.steps

    def _forget(self, unit: int) -> bool:
        found = self.place(unit)
        if found is None:
            return False
        number, within = found
        self.blocks[number][within] = None
        self._stamp(number)
        return True

    def _valid(self, number: int) -> int:
        return sum(unit is not None for unit in self.blocks[number])

    def _clean(self) -> None:
        victim = self._victim()
        frontier = "copies" if self.separate else "host"
        for unit in list(self.blocks[victim]):
            if unit is None:
                continue
            if self._has_no_room(frontier):
                self._close(frontier)
                self.open[frontier] = self.erased.popleft()
            self.blocks[victim][self.blocks[victim].index(unit)] = None
            self._append(frontier, unit)
            self.copied += 1
        self.blocks[victim] = []
        self.erased.append(victim)

    def _victim(self) -> int:
        if self.policy == "fifo":
            return self.filled.pop(0)
        if self.policy == "greedy":
            best = min(self.filled, key=lambda one: (self._valid(one), -self.lowered[one]))
            self.filled.remove(best)
            return best
        places = [((next(self.drawn) >> 32) * len(self.filled)) >> 32 for _ in range(10)]
        best = max(places, key=lambda place: self._score(self.filled[place]))
        victim = self.filled[best]
        # The last takes the place of the one that is taken out.
        self.filled[best] = self.filled[-1]
        self.filled.pop()
        return victim

    def _score(self, number: int) -> float:
        age = self.written - self.filled_at[number]
        valid = self._valid(number)
        if valid == 0:
            return 1e18 + age
        used = valid / self.units
        return (1.0 - used) / (2.0 * used) * age
