"""Further options of a benchmark, as a site file gives them, as arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from trimtab.errors import UsageError
from trimtab.visible import visible

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62})")


def further_options(options: Mapping[str, str], *, reserved: Set[str]) -> tuple[str, ...]:
    """Return options as arguments: ``-z``, ``-B 1``, ``--name``, ``--name=value``.

    Parameters
    ----------
    options
        Name to value, with or without dashes; an empty value is an option that takes none.
    reserved
        Names that the probe says itself, or that would have it do something else.

    Raises
    ------
    UsageError
        A name that is no option's, or one of ``reserved``.

    Examples
    --------
    >>> further_options({"z": "", "J": "4096", "posix.lustre.stripecount": "4"}, reserved=set())
    ('-z', '-J', '4096', '--posix.lustre.stripecount=4')
    """
    argv: list[str] = []
    for option, value in options.items():
        name = option.lstrip("-")
        if not _NAME.fullmatch(name) or "\0" in value:
            raise UsageError(
                f"{visible(option[:80])!r} is not an option name", code="option-invalid"
            )
        if name in reserved:
            raise UsageError(
                f"option {name!r} is set by the probe",
                code="option-reserved",
                hint="use the probe's keys: transfer_size, tasks_per_node, direct ...",
            )
        if len(name) == 1:
            argv += [f"-{name}"] if not value else [f"-{name}", value]
        else:
            argv.append(f"--{name}" if not value else f"--{name}={value}")
    return tuple(argv)
