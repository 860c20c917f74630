"""Command lines of benchmarks taken apart by the benchmarks' own option names, strictly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trimtab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """What stood on a command line.

    Attributes
    ----------
    program
        Of whom a message speaks.
    """

    program: str
    flags: frozenset[str]
    values: Mapping[str, str]

    def whole(self, name: str, default: int) -> int:
        """Return a value that is a whole number.

        Raises
        ------
        UsageError
            It is none.
        """
        text = self.values.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal()):
            raise UsageError(f"{self.program}: {name} is {text!r}: no whole number")
        return int(text)

    def number(self, name: str, default: float) -> float:
        """Return a value that is a number; see `whole`."""
        text = self.values.get(name)
        if text is None:
            return default
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{self.program}: {name} is {text!r}: no number") from None

    def text(self, name: str) -> str:
        """Return a value that has to be there.

        Raises
        ------
        UsageError
            It is not.
        """
        if name not in self.values:
            raise UsageError(f"{self.program}: {name} is missing")
        return self.values[name]


def options_of(argv: Sequence[str], *, flags: Collection[str], values: Collection[str]) -> Options:
    """Return the options of a command line: ``--name VALUE``, ``--name=VALUE`` or a flag.

    Raises
    ------
    UsageError
        An option that is in neither list, or one without its value; it is named.
    """
    program = argv[0].rpartition("/")[2]
    found: dict[str, str] = {}
    set_: set[str] = set()
    words = iter(argv[1:])
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in flags and not equals:
            set_.add(name)
        elif name in values:
            given = value if equals else next(words, None)
            if given is None:
                raise UsageError(f"{program}: option {name} has no value")
            found[name] = given
        else:
            known = ", ".join(sorted({*flags, *values}))
            raise UsageError(
                f"{program}: the twin does not play the option {word!r}", hint=f"it knows {known}"
            )
    return Options(program, frozenset(set_), found)
