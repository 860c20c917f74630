"""The Rust core: thin bindings, one group of functions for each crate."""

from collections.abc import Sequence
from os import PathLike
from typing import Final

__version__: Final[str]

def ioload_main() -> int:
    """Run the load generator with the arguments in ``sys.argv``; return its exit code.

    Prints one JSON object on stdout. This is the command ``trimtab-ioload``.
    """

def ioload(args: Sequence[str | PathLike[str]]) -> tuple[str, int]:
    """Run the load generator; return its JSON report and its exit code.

    Parameters
    ----------
    args : sequence of str or path
        The command line without the program's name; ``trimtab-ioload --help`` lists it.

    Returns
    -------
    tuple of str and int
        The report (empty on a rank other than 0) and 0 done, 3 input or output failed,
        130 interrupted. A failed run has a report too: its ``status`` says so.

    Raises
    ------
    ValueError
        Wrong use; the message says what and gives a hint.
    """
