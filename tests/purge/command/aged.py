"""``python -m tests.purge.command.aged SECONDS ...`` is ``trimtab ...`` as it was earlier.

Only what reads `utc_now` is moved: when a plan was made, published, armed. A run goes by the
system's clock, which the file system's is held against, so it takes place now.
"""

from __future__ import annotations

import sys

from tests.support.forked import CLOCK

from trimtab.base import event


def main() -> None:
    """Move the clock, then be ``trimtab``."""
    event.utc_now = CLOCK
    CLOCK.behind_s = float(sys.argv.pop(1))
    if "--slow-core" in sys.argv:
        from tests.purge.command import slow_core

        sys.argv.remove("--slow-core")
        slow_core.install()
    from trimtab.cli import main as trimtab

    trimtab()


if __name__ == "__main__":
    main()
