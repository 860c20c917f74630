"""Ending a simulated process at any call that it makes to the outside."""

from __future__ import annotations

import random
from typing import Any

from tests.support.watched import Ended


class Killer:
    """Ends the process before or after one of the coming calls, whichever chance names.

    Attributes
    ----------
    left
        Calls until the end; ``None``: it is never ended.
    kills
        How often it has been ended, by the name of the call.
    """

    def __init__(self, chance: random.Random, every: int) -> None:
        self.chance, self.every = chance, every
        self.left: int | None = None
        self.kills: list[str] = []

    def arm(self) -> None:
        """Choose when the process that starts now is going to end."""
        self.left = self.chance.randrange(1, 2 * self.every)

    def call(self, name: str, real: Any, *arguments: Any, **named: Any) -> Any:
        """Make a call, unless the end comes first; or end just after it."""
        # A watch mostly sleeps: one sleep in ten counts, or few other calls would be the last.
        if self.left is not None and (name != "sleep" or self.chance.random() < 0.1):
            self.left -= 1
        if self.left is None or self.left > 0:
            return real(*arguments, **named)
        self.left = None
        self.kills.append(name)
        if self.chance.random() < 0.5:
            real(*arguments, **named)
        raise Ended(name)


class Killing:
    """Stands for an object all of whose methods may be the last call of the process."""

    def __init__(self, real: Any, killer: Killer, name: str) -> None:
        self._real, self._killer, self._name = real, killer, name

    def __getattr__(self, attribute: str) -> Any:
        """Return the attribute; a method with the killer in front of it."""
        value = getattr(self._real, attribute)
        if not callable(value):
            return value
        return lambda *given, **named: self._killer.call(
            f"{self._name}.{attribute}", value, *given, **named
        )

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call the object itself."""
        return self._killer.call(self._name, self._real, *given, **named)
