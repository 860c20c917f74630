"""Settings that change while a simulation runs, by the dotted keys of `scenario.keys`."""

from __future__ import annotations

from trimtab.errors import UsageError
from trimtab.twin.scenario.keys import find_key, read_value, replace_key, value_of
from trimtab.twin.scenario.model import Scenario


def changed(scenario: Scenario, name: str, value: object) -> Scenario:
    """Return the scenario with a setting changed, as a running file system may be changed.

    Parameters
    ----------
    name
        Dotted, as ``allocator.c2``.
    value
        Of the key's own type, or text that is read by it.

    Raises
    ------
    UsageError
        There is no such key or value, it means the start alone, or OSTs would be taken away.
    """
    key = find_key(name, scenario)
    if not key.changes:
        raise UsageError(
            f"{name!r} cannot change while the file system runs",
            hint="start another scenario with that value",
        )
    inside = read_value(key, value) if isinstance(value, str) else value
    before = value_of(scenario, name)
    if name == "osts.count" and inside < before:
        raise UsageError(
            f"osts.count cannot go from {before} to {inside}", hint="OSTs can only be added"
        )
    return replace_key(scenario, name, inside)
