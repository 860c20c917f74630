"""What sudoers must allow for what is read, worked out from `trimtab.reach.lustre.read_table`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.reach.lustre.read_table import COMMANDS, OF_FOLLOWING

PATHS: Final = {"lctl": "/usr/sbin/lctl", "nvme": "/usr/sbin/nvme", "dmesg": "/usr/bin/dmesg"}
CONTROLLER_DIGITS: Final = 3
NAMESPACE_DIGITS: Final = 2
REGULAR_DEVICE: Final = "/dev/nvme[0-9]+n[0-9]+"

_GLOB: Final = re.compile(r"([*?\[\]!])")
_SPECIAL: Final = re.compile(r"[\\,:=#^$\s]")
_ALIAS: Final = re.compile(r"^Cmnd_Alias (TRIMTAB_[A-Z_]+) = (.*)$", re.MULTILINE)


def device_patterns() -> Iterator[str]:
    """Yield patterns for the devices of NVMe drives that match digits and nothing else."""
    for namespace in range(1, NAMESPACE_DIGITS + 1):
        for controller in range(1, CONTROLLER_DIGITS + 1):
            yield f"/dev/nvme{'[0-9]' * controller}n{'[0-9]' * namespace}"


def escaped(word: str) -> str:
    """Return a word of a command as sudoers takes it literally.

    Raises
    ------
    ValueError
        It holds what is written in another way, or cannot be written.
    """
    if _SPECIAL.search(word):
        raise ValueError(f"{word!r} cannot stand in sudoers as it is")
    return _GLOB.sub(r"\\\1", word)


def wanted() -> dict[str, set[str]]:
    """Return for each command that needs rights what sudoers must hold, and no more."""
    found: dict[str, set[str]] = {}
    for key, command in {**COMMANDS, "changelogs": OF_FOLLOWING["parameters"]}.items():
        if command.get("sudo"):
            found["TRIMTAB_" + key.upper().replace("-", "_")] = set(_forms(command["argv"]))
    return found


def _forms(argv: Sequence[str]) -> Iterator[str]:
    program, *arguments = argv
    path = PATHS[program]
    if not arguments:
        # Without the quotes sudo would allow every argument.
        yield f'{path} ""'
        return
    for device in device_patterns() if "{}" in arguments else ("",):
        words = [device if word == "{}" else escaped(word) for word in arguments]
        yield " ".join((path, *words))


def aliases(text: str) -> dict[str, set[str]]:
    """Return the commands of every alias in a sudoers file."""
    unfolded = re.sub(r"\\\n\s*", " ", text)
    return {
        name: {" ".join(command.split()) for command in commands.split(", ")}
        for name, commands in _ALIAS.findall(unfolded)
    }


def with_regular_expressions(text: str) -> str:
    """Return the file with its patterns exchanged for the regular expressions in its comments."""
    unfolded = re.sub(r"\\\n\s*", " ", text)
    kept = [line for line in unfolded.splitlines() if "nvme[0-9]" not in line or line[0] == "#"]
    return re.sub(r"^#(Cmnd_Alias)", r"\1", "\n".join(kept) + "\n", flags=re.MULTILINE)
