"""Parses the command line that mdtest prints.

One reader covers two grammars: ``getopt`` up to IOR 3.2, IOR's own since 3.3. Both accept
``-n 5``, ``-n5`` and ``-Fun 5``; the latter ``-n=5`` and ``--name=value`` as well. An option with a
value takes the next word, whatever it looks like: IO500 passes ``-G -1836``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from trimtab.measure import command_line
from trimtab.measure.command_line import size_of

_VALUED: Final = frozenset(
    {
        *"abdefGiIlnNpsVwWxz",
        "random-seed",
        "dataPacketType",
        "run-cmd-before-phase",
        "run-cmd-after-phase",
    }
    | {"saveRankPerformanceDetails", "savePerOpDataCSV", "allocateBufferOnGPU", "GPUid"}
)
_NUMBERS: Final[Mapping[str, str]] = {
    "I": "items_per_directory",
    "N": "stride",
    "W": "stonewall_s",
    "z": "depth",
    "b": "branching_factor",
    "w": "write_bytes",
    "e": "read_bytes",
}
_FLAGS: Final[Mapping[str, str]] = {
    "F": "files_only",
    "D": "directories_only",
    "u": "unique_directories",
    "S": "shared_file",
    "c": "collective",
    "L": "leaf_only",
    "k": "mknod",
    "t": "time_unique_directories",
    "y": "sync_file",
    "Y": "sync_phase",
    "R": "random",
    "X": "verify_read",
    "verify-read": "verify_read",
    "verify-write": "verify_write",
}
_PHASES: Final[Mapping[str, str]] = {
    "C": "create",
    "T": "stat",
    "E": "read",
    "U": "rename",
    "r": "remove",
}


def options_of(line: str, version: str) -> dict[str, str] | None:
    """Return the options of a printed command line: name to value, "" for one without.

    ``None`` if the line cannot be parsed: mdtest prints at most 1,023 characters of it.
    """
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if version.startswith("1."):  # getopt: -R takes a seed only from the same word
        return dict(command_line.options_of(words[1:], _VALUED, {"R"}))
    return dict(command_line.options_of(words[1:], _VALUED | {"B"}))


def parameters(options: Mapping[str, str]) -> dict[str, object] | None:
    """Return the parameters by familiar names; ``None`` if a value is not a number.

    Omits what does not affect the rates: directory, verbosity, seeds, and the number of iterations.
    """
    requested: dict[str, object] = {
        "files_only": False,
        "directories_only": False,
        "unique_directories": False,
        "depth": 0,
        "write_bytes": 0,
        "read_bytes": 0,
    }
    for letter, name in _NUMBERS.items():
        if letter in options:
            number = size_of(options[letter])
            if number is None:
                return None
            requested[name] = number
    if requested["depth"] == 0:
        requested.pop("branching_factor", None)
    requested.update({name: True for flag, name in _FLAGS.items() if options.get(flag, "0") != "0"})
    chosen = [name for flag, name in _PHASES.items() if options.get(flag, "0") != "0"]
    if chosen:
        requested["phases"] = chosen
    if "a" in options:
        requested["api"] = options["a"]
    modules = {name: value for name, value in options.items() if "." in name}
    if modules:
        requested["options"] = modules
    return requested


def no_barriers(options: Mapping[str, str], version: str) -> bool:
    """Return whether tasks did not wait for one another between phases.

    Since IOR 3.2 mdtest refuses to run like this, despite its help.
    """
    return version.startswith("1.") and "B" in options
