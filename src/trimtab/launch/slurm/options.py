"""The Slurm options a site file may use: a fixed list of sbatch options, all validated.

Nothing else reaches a command line. Excluded are options that Trimtab sets itself (nodes, tasks,
time, name) and those that run programs on the nodes (``--prolog``, ``--bcast``, ``--container``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from trimtab.errors import UsageError
from trimtab.visible import visible

_WORD: Final = re.compile(r"[A-Za-z0-9_.:@,+/-]{1,400}")
_EXPRESSION: Final = re.compile(r"[A-Za-z0-9_.:@,+/&|*()\[\] =-]{1,400}")
"""Features and licences are expressions: ``[rack1|rack2]&nvme``, ``scratch:10``."""
_NODES: Final = re.compile(r"[A-Za-z0-9_.,\[\]-]{1,4000}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SIGNED: Final = re.compile(r"-?[0-9]{1,9}")
_SIZE: Final = re.compile(r"[0-9]{1,9}[KMGT]?")
_MPI: Final = re.compile(r"none|pmi2|pmix(?:_v[0-9]+)?|cray_shasta|openmpi")
_YES: Final = frozenset({"", "true", "yes", "on"})
_NO: Final = frozenset({"false", "no", "off"})

_VALUES: Final[dict[str, re.Pattern[str]]] = {
    "account": _WORD,
    "cluster-constraint": _EXPRESSION,
    "constraint": _EXPRESSION,
    "cores-per-socket": _NUMBER,
    "cpus-per-task": _NUMBER,
    "exclude": _NODES,
    "gres": _WORD,
    "hint": _WORD,
    "licenses": _EXPRESSION,
    "mem": _SIZE,
    "mem-per-cpu": _SIZE,
    "network": _WORD,
    "nice": _SIGNED,
    "nodelist": _NODES,
    "partition": _WORD,
    "prefer": _EXPRESSION,
    "priority": _NUMBER,
    "qos": _WORD,
    "reservation": _WORD,
    "sockets-per-node": _NUMBER,
    "switches": re.compile(r"[0-9]{1,4}(?:@[0-9:-]{1,20})?"),
    "threads-per-core": _NUMBER,
    "wckey": _WORD,
}
"""Options of sbatch(1) with a value."""

_SWITCHES: Final = frozenset({"contiguous", "exclusive", "oversubscribe", "spread-job"})
"""Options of sbatch(1) without a value."""

_EXCLUSIVE: Final = frozenset({"user", "mcs", "topo"})

KNOWN: Final = frozenset({*_VALUES, *_SWITCHES, "mpi"})
"""All names; ``mpi`` is an srun option, for every command of the probe."""


def sbatch_options(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments for sbatch.

    Raises
    ------
    UsageError
        An unknown name, or an invalid value.

    Examples
    --------
    >>> sbatch_options({"partition": "probe", "exclusive": "true", "mpi": "pmix"})
    ('--partition=probe', '--exclusive')
    """
    return tuple(argument for name, argument in _arguments(options) if name != "mpi")


def srun_options(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments for srun: the MPI type, if the site sets one.

    Examples
    --------
    >>> srun_options({"partition": "probe", "mpi": "pmix"})
    ('--mpi=pmix',)
    """
    return tuple(argument for name, argument in _arguments(options) if name == "mpi")


def _arguments(options: Mapping[str, str]) -> list[tuple[str, str]]:
    arguments = []
    for option, value in options.items():
        name = option.replace("_", "-")
        if name in _SWITCHES:
            if _is_on(name, value):
                extra = f"={value}" if value in _EXCLUSIVE else ""
                arguments.append((name, f"--{name}{extra}"))
        elif name == "mpi":
            arguments.append((name, f"--mpi={_checked(name, value, _MPI.fullmatch)}"))
        elif name in _VALUES:
            arguments.append((name, f"--{name}={_checked(name, value, _VALUES[name].fullmatch)}"))
        else:
            raise UsageError(
                f"launcher slurm has no option {visible(option[:80])!r}",
                code="launcher-option-unknown",
                hint=f"options: {', '.join(sorted(KNOWN))}",
            )
    return arguments


def _is_on(name: str, value: str) -> bool:
    word = value.lower()
    if word in _YES or (name == "exclusive" and word in _EXCLUSIVE):
        return True
    if word in _NO:
        return False
    raise UsageError(
        f"launcher slurm: {name} must be true or false, not {visible(value[:80])!r}",
        code="launcher-option-invalid",
    )


def _checked(name: str, value: str, matches: Callable[[str], object]) -> str:
    if matches(value) is None or (value.startswith("-") and name != "nice"):
        raise UsageError(
            f"launcher slurm: {name} cannot be {visible(value[:80])!r}",
            code="launcher-option-invalid",
        )
    return value
