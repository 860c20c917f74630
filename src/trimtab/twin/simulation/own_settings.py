"""Settings of single targets that differ from the scenario's, which has one value for all.

They are lost where a target moves to another server: it is mounted anew there, with defaults. What
a change of the scenario sets, it sets on every target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.errors import UsageError
from trimtab.twin.arrays import Array
from trimtab.twin.scenario.keys import replace_running, value_of
from trimtab.twin.scenario.model import Placement, Scenario

_QUEUE: Final = frozenset({"queue.writeback_throttling", "queue.target_latency"})
OF_OST: Final = _QUEUE | {"allocator.c1", "allocator.c2", "allocator.c3", "trim.discard"}
"""Keys of a scenario that one OST may have another value of."""
OF_MDT: Final = _QUEUE | {"placement.qos_threshold_rr", "placement.qos_prio_free"}


@dataclass(slots=True)
class OwnSettings:
    """Values that single parts have, by their number and the scenario's dotted keys.

    Attributes
    ----------
    keys
        That may be set.
    scenarios
        Number of each part that differs to the scenario as it is for that part.
    """

    keys: frozenset[str]
    scenarios: dict[int, Scenario] = field(default_factory=dict)
    _values: dict[int, dict[str, object]] = field(default_factory=dict)

    def set(self, scenario: Scenario, number: int, values: Mapping[str, object]) -> None:
        """Set something of one part alone.

        Raises
        ------
        UsageError
            It cannot be set of a part, or is no value of its key.
        """
        for key in values:
            if key not in self.keys:
                raise UsageError(f"{key} is set for all targets alike", code="key-fixed")
        self._keep(scenario, number, {**self._values.get(number, {}), **values})

    def follow(self, scenario: Scenario, keys: Iterable[str]) -> None:
        """Take a scenario whose ``keys`` were set for all."""
        common = frozenset(keys)
        for number, values in tuple(self._values.items()):
            rest = {key: value for key, value in values.items() if key not in common}
            self._keep(scenario, number, rest)

    def forget(self, numbers: Iterable[int]) -> list[int]:
        """Let parts follow the scenario again; return those that did not."""
        lost = [number for number in numbers if number in self._values]
        for number in lost:
            del self._values[number], self.scenarios[number]
        return lost

    def of(self, scenario: Scenario, number: int) -> Scenario:
        """Return the scenario as it is for one part."""
        return self.scenarios.get(number, scenario)

    def _keep(self, scenario: Scenario, number: int, values: Mapping[str, object]) -> None:
        changed = replace_running(scenario, values)
        differing = {
            key: values[key] for key in values if value_of(scenario, key) != value_of(changed, key)
        }
        self.forget([number])
        if differing:
            self._values[number] = differing
            self.scenarios[number] = changed


def windows_of(
    windows: Callable[[Scenario, Array], Array],
    scenario: Scenario,
    parts: OwnSettings,
    amount: Array,
) -> Array:
    """Return what throttling leaves of each column's writes, by the column's own queue."""
    factor = windows(scenario, amount)
    if not parts.scenarios:
        return factor
    by_queue: dict[object, list[int]] = {}
    for column, changed in parts.scenarios.items():
        if changed.queue != scenario.queue:
            by_queue.setdefault(changed.queue, []).append(column)
    for columns in by_queue.values():
        factor[columns] = windows(parts.scenarios[columns[0]], amount[columns])
    return factor


def placements_of(scenario: Scenario, parts: OwnSettings) -> Iterator[tuple[Placement, float]]:
    """Yield each rule of placement, with the part of the MDTs, and so of new files, that has it."""
    if not parts.scenarios:
        yield scenario.placement, 1.0
        return
    mdts = scenario.mdts.count
    numbers = {scenario.placement: mdts}
    for changed in parts.scenarios.values():
        numbers[scenario.placement] -= 1
        numbers[changed.placement] = numbers.get(changed.placement, 0) + 1
    yield from ((placement, number / mdts) for placement, number in numbers.items() if number)
