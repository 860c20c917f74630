"""Which runs may be compared: those of the same probe, tool and parameters."""

from __future__ import annotations

from trimtab.model.run import Run

ASKED = "spec"
"""Key of `Run.parameters` under which stands what was asked (a `ProbeSpec` as plain values)."""


def comparability_key(run: Run) -> str:
    """Return a text that is equal for two runs exactly when they may be compared.

    It covers the probe's name, the benchmark that ran, the layer that it measured where that is
    not the client, and what was asked of it: ``parameters["spec"]`` where the run has it, else all
    parameters (an imported run has only what its output says). The same fio job on a drive and on
    a RAID device is not one series. What came of a run, its host and its tool's version are left
    out: a new version of a tool is a change to be seen in the series, not the end of it.

    Examples
    --------
    >>> from trimtab.model.run import RunStatus
    >>> asked = {"spec": {"tasks": 4, "duration_s": 5.0}, "moved_bytes": 7}
    >>> one = Run("1", "s", "check", "fio", RunStatus.OK, None, parameters=asked)
    >>> asked = {"spec": {"duration_s": 5, "tasks": 4}, "moved_bytes": 8}
    >>> other = Run("2", "s", "check", "fio", RunStatus.OK, None, parameters=asked)
    >>> comparability_key(one) == comparability_key(other)
    True
    """
    import hashlib
    import json

    requested = run.parameters.get(ASKED, run.parameters)
    layer = run.parameters.get("layer")
    beneath = [] if layer in (None, "client") else [layer]
    text = json.dumps([run.probe, run.kind, _canonical(requested), *beneath], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _canonical(value: object) -> object:
    """Return the value with whole floats as integers: 5 s and 5.0 s ask for the same."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value
