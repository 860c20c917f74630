"""A drive of dictionaries and lists, written at random: slow and obvious."""

import random


class SlowDrive:
    """Superblocks are sets of logical units; the fullest of holes is cleaned.

    One superblock being filled and one kept erased come on top of data and spare.
    """

    def __init__(self, superblocks: int, units: int, spare: float) -> None:
        self.units = units
        self.count = superblocks + 2
        self.logical = int(superblocks * units * (1 - spare))

    def steady(self, draws: random.Random, live: int, *, trimming: bool) -> float:
        """Return the amplification of random writes to so many live units."""
        self.blocks: list[set[int]] = [set() for _ in range(self.count)]
        self.where: dict[int, int] = {}
        self.erased = list(range(1, self.count))
        self.open, self.room = 0, self.units
        self.copied = 0
        held = list(range(live))
        dead = list(range(live, self.logical))
        for unit in held:
            self.write(unit)
        for part in range(2):
            self.copied, written = 0, 6 * self.logical
            for _ in range(written):
                place = draws.randrange(len(held))
                if trimming and dead:
                    other = draws.randrange(len(dead))
                    self.drop(held[place])
                    held[place], dead[other] = dead[other], held[place]
                self.write(held[place])
            if part:
                return 1 + self.copied / written
        raise AssertionError

    def write(self, unit: int) -> None:
        """Write a unit, after making room."""
        self.drop(unit)
        self.place(unit)
        while len(self.erased) < 1:
            victim = min(
                (one for one in range(self.count) if one != self.open),
                key=lambda one: len(self.blocks[one]),
            )
            moving = list(self.blocks[victim])
            self.blocks[victim] = set()
            for one in moving:
                self.place(one)
                self.copied += 1
            self.erased.append(victim)

    def drop(self, unit: int) -> None:
        """Forget where a unit was."""
        if unit in self.where:
            self.blocks[self.where.pop(unit)].discard(unit)

    def place(self, unit: int) -> None:
        """Put a unit into the superblock being filled."""
        if self.room == 0:
            self.open, self.room = self.erased.pop(), self.units
        self.blocks[self.open].add(unit)
        self.where[unit] = self.open
        self.room -= 1
