"""Settings of single targets that differ from the scenario's, which has one value for all.

They are lost when a target moves to another server, where it is mounted with defaults. A change of
the scenario applies to every target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.errors import UsageError
from trimtab.twin.arrays import Array
from trimtab.twin.scenario.checks import replace_running
from trimtab.twin.scenario.keys import value_of
from trimtab.twin.scenario.model import Placement, Scenario

_QUEUE: Final = frozenset({"queue.writeback_throttling", "queue.target_latency"})
OF_OST: Final = _QUEUE | {"allocator.c1", "allocator.c2", "allocator.c3", "trim.discard"}
"""Keys of a scenario that can differ for a single OST."""
OF_MDT: Final = _QUEUE | {"placement.qos_threshold_rr", "placement.qos_prio_free"}


@dataclass(slots=True)
class OwnSettings:
    """Settings of single parts, by number and the scenario's dotted keys.

    Attributes
    ----------
    keys
        Keys that may be set.
    scenarios
        Number of each differing part to its scenario.
    """

    keys: frozenset[str]
    scenarios: dict[int, Scenario] = field(default_factory=dict)
    _values: dict[int, dict[str, object]] = field(default_factory=dict)

    def set(self, scenario: Scenario, number: int, values: Mapping[str, object]) -> None:
        """Change settings of one part.

        Raises
        ------
        UsageError
            A key cannot be set for a part, or a value is invalid.
        """
        for key in values:
            if key not in self.keys:
                raise UsageError(f"{key} can only be set for all targets", code="key-fixed")
        self._keep(scenario, number, {**self._values.get(number, {}), **values})

    def follow(self, scenario: Scenario, keys: Iterable[str]) -> None:
        """Adopt a scenario whose ``keys`` were set for all."""
        common = frozenset(keys)
        for number, values in tuple(self._values.items()):
            rest = {key: value for key, value in values.items() if key not in common}
            self._keep(scenario, number, rest)

    def forget(self, numbers: Iterable[int]) -> list[int]:
        """Reset parts to the scenario; return those that differed."""
        lost = [number for number in numbers if number in self._values]
        for number in lost:
            del self._values[number], self.scenarios[number]
        return lost

    def of(self, scenario: Scenario, number: int) -> Scenario:
        """Return the scenario of one part."""
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
    """Return the throttling factor of each column's writes, by its own queue settings."""
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
    """Yield each placement rule, with the fraction of MDTs (and so of new files) that use it."""
    if not parts.scenarios:
        yield scenario.placement, 1.0
        return
    mdts = scenario.mdts.count
    numbers = {scenario.placement: mdts}
    for changed in parts.scenarios.values():
        numbers[scenario.placement] -= 1
        numbers[changed.placement] = numbers.get(changed.placement, 0) + 1
    yield from ((placement, number / mdts) for placement, number in numbers.items() if number)
