"""Pages of the documentation whose tables are made from data: made anew, written or compared.

A block is what stands between ``<!-- NAME -->`` and ``<!-- end -->``. A page with blocks has no
other comments: one that nothing is made for is a name mistyped, and its text would never change.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(<!-- ([^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def names_of(page: str) -> list[str]:
    """Return the names of a page's blocks, in their order."""
    return [found[2] for found in _BLOCK.finditer(page)]


def remade(page: str, blocks: Mapping[str, str]) -> str:
    """Return a page with every block made anew.

    Parameters
    ----------
    blocks
        Name to text, the last line of which ends too.

    Raises
    ------
    SystemExit
        The page does not have each of these blocks once, and no other.
    """
    found = Counter(names_of(page))
    for name in dict.fromkeys((*blocks, *found)):
        if name not in blocks:
            raise SystemExit(f"nothing is made for the block {name} of the page")
        if found[name] != 1:
            raise SystemExit(f"the page has {found[name]} blocks of {name}")
    return _BLOCK.sub(lambda block: f"{block[1]}{blocks[block[2]]}{block[3]}", page)


def text_of(lines: Iterable[str]) -> str:
    """Return lines as a block's text."""
    return "".join(f"{line}\n" for line in lines)


def write_or_check(made: Mapping[Path, str], arguments: Sequence[str]) -> int:
    """Write files; with ``--check`` only say which are not what they would be, and return 1."""
    if "--check" not in arguments:
        for path, text in made.items():
            path.write_text(text)
        return 0
    old = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    for path in old:
        print(f"{path.relative_to(ROOT)} is not what the data give", file=sys.stderr)
    return int(bool(old))
