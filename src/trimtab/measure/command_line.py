"""Parses the command lines that benchmarks print, and the sizes in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from typing import Final

_SIZE: Final = re.compile(r"([0-9]{1,18})([kmgtpe]?)(?:i?b)?", re.IGNORECASE)


def size_of(text: str) -> int | None:
    """Parse a size in bytes, with k = 1024; ``None`` if it is not a size.

    Examples
    --------
    >>> size_of("4096"), size_of("64k"), size_of("1MiB"), size_of("1x")
    (4096, 65536, 1048576, None)
    """
    match = _SIZE.fullmatch(text)
    return match and int(match[1]) * 1024 ** " kmgtpe".index(match[2].lower() or " ")


def options_of(
    words: Iterable[str], valued: Set[str], attached: Set[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yield name and value of each option, as ``getopt`` does; "" for one without a value.

    An option with a value takes the next word, whatever it looks like, unless the value is in the
    same word: ``-n 5``, ``-n5``, ``-n=5``, ``-Fun 5``, ``--name=value``.

    Parameters
    ----------
    words
        The command line without the program.
    valued
        Options that take a value.
    attached
        Letters of options that take a value only from the same word.

    Examples
    --------
    >>> list(options_of(("-Fun", "5", "-b=1m", "--direct"), {"n", "b"}))
    [('F', ''), ('u', ''), ('n', '5'), ('b', '1m'), ('direct', '')]
    """
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield name, next(rest, "") if name in valued and not equals else value
        elif word.startswith("-"):
            for place, letter in enumerate(word[1:], start=2):
                after = word[place:]
                takes = letter in valued
                if takes or letter in attached or after.startswith("="):
                    yield letter, next(rest, "") if takes and not after else after.removeprefix("=")
                    break
                yield letter, ""
