"""Fit the constants of the twin's layers on the rows that they may see, and write them down.

``python -m benchmarks.reproduction.fit`` prints constants and rows; ``--write`` puts the values,
to three digits, into ``src/trimtab/twin/simulation/hardware.py``. Bounded least squares on
the logarithms of
twin over printed, of all rows of ``FITTED_ON`` at once. One whose rows are whole numbers, on which
no fit descends, stays as it was set within its bounds; the allocator's follows from the slow OSTs.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.reproduction.classes import FITTED_ON, NAMES
from benchmarks.reproduction.predict import PERLMUTTER, layer_rows, predictions
from benchmarks.reproduction.statements import Figure, Row, needing
from numpy.typing import NDArray
from scipy.optimize import least_squares

from trimtab.twin.scenario import Server
from trimtab.twin.simulation import hardware as held
from trimtab.twin.simulation import ost_array
from trimtab.twin.simulation.hardware import TABLE, Constant, Constants, hardware

FILE = Path(held.__file__)
SET = {"process_bytes_per_s"}


def main() -> int:
    """Fit, print, and write when asked to."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="put the values into the table")
    options = arguments.parse_args()
    fitted = with_allocator(fit(free := free_constants()))
    for constant in TABLE:
        value = getattr(fitted, constant.name)
        ends = " at its bound" if value in (constant.low, constant.high) else ""
        how = "" if constant in free else " (not by least squares)"
        print(f"{constant.name:26} {value:12.6g} {constant.unit}{ends}{how}")
    rows = layer_rows(fitted)
    for row in rows:
        if row.error is not None:
            print(seeded_row(row))
    missed = [row.id for row in rows if row.missed]
    print(f"{len(missed)} missed: {', '.join(missed)}")
    if options.write:
        write(fitted)
    return 0


def free_constants() -> list[Constant]:
    """Return the constants that the fit may move."""
    return [c for c in TABLE if set(c.fitted_on) & set(FITTED_ON) and c.name not in SET]


def fit(free: list[Constant]) -> Constants:
    """Return the constants whose rows are closest to what is printed."""
    printed = {
        target.id: target.printed.value
        for target in needing("layers")
        if target.id in FITTED_ON and isinstance(target.printed, Figure)
    }
    others = {c.name: c.value for c in TABLE if c not in free}

    def constants(x: NDArray[np.float64]) -> Constants:
        values = {c.name: float(value) for c, value in zip(free, np.exp(x), strict=True)}
        return Constants(**{name: (values | others)[name] for name in NAMES})

    def misses(x: NDArray[np.float64]) -> list[float]:
        said = predictions(constants(x))
        return [math.log(said[name].value / value) for name, value in printed.items()]

    low = [math.log(max(constant.low, 1e-3 * constant.value)) for constant in free]
    high = [math.log(constant.high) for constant in free]
    start = [math.log(constant.value) for constant in free]
    # Some rows have corners (the least of several ceilings): wide steps look past them.
    result = least_squares(misses, start, bounds=(low, high), diff_step=1e-4, xtol=1e-12)
    rounded = np.log([float(f"{value:.3g}") for value in np.exp(result.x)])
    return constants(rounded)


def with_allocator(fitted: Constants) -> Constants:
    """Return them with the time for a group at which an OST loses half of its write.

    An OST three quarters full that was not trimmed (write amplification 1.9) makes 77 useless loops
    in 1,000 requests: what the simulated allocator makes 85 % full, docs/twin.md.
    """
    machine = hardware(PERLMUTTER, Server(32, 50e9))
    groups = 0.077 * machine.groups
    half = float(ost_array.ceilings_of(machine, constants=fitted).rates(1.9).write) / 2
    request_s = machine.cores * ost_array.REQUEST_BYTES / half
    found = (request_s - ost_array.BASE_CORE_S) / groups
    return replace(fitted, allocator_s_per_group=float(f"{found:.3g}"))


def seeded_row(row: Row) -> str:
    """Return one line of a row."""
    assert row.error is not None
    assert row.twin is not None
    assert isinstance(row.printed, Figure)
    sign = "" if row.printed.relation == "=" else row.printed.relation
    return (
        f"{row.id:18} {row.row_class:10} {sign:2}{row.printed.value:<12.5g} {row.twin:<12.5g} "
        f"{row.error:+7.1%}{'  missed' if row.missed else ''}"
    )


def write(fitted: Constants) -> None:
    """Put the values into the table, each behind its name."""
    text = FILE.read_text()
    for name in NAMES:
        pattern = rf"({name}: float = _fitted\(\s*)[^,]+,"
        text, found = re.subn(pattern, rf"\g<1>{getattr(fitted, name):.3g},", text)
        if found != 1:
            raise SystemExit(f"{FILE.name}: {name} is declared {found} times")
    FILE.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
