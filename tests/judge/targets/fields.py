"""Made-up surveys: every target of a file system, one survey a day."""

from datetime import timedelta

import numpy as np
import polars as pl
from tests.judge.history import START

from trimtab.judge.lower_tail import SurveyTable


def field(surveys, targets, *, phi=0.0, cov=0.08, rate=17e9, tails=None, seed=1):
    """Return rates, shape (surveys, targets): a night's effect, and AR(1) noise of each target."""
    rng = np.random.default_rng(seed)
    shape = (surveys, targets)
    shocks = rng.standard_normal(shape) if tails is None else rng.standard_t(tails, shape)
    noise = shocks.copy()
    for day in range(1, surveys):
        noise[day] = phi * noise[day - 1] + np.sqrt(1 - phi * phi) * shocks[day]
    night = 0.1 * rng.standard_normal((surveys, 1))
    return rate * np.exp(cov * noise + night)


def table(values):
    """Return rates as a table of daily surveys."""
    days, targets = values.shape
    return SurveyTable(
        at=tuple(START + timedelta(days=day) for day in range(days)),
        runs=tuple(f"survey-{day}" for day in range(days)),
        targets=tuple(f"OST{target:04x}" for target in range(targets)),
        servers=(None,) * targets,
        values=values,
    )


def frame(values, metric="write_bandwidth", servers=True):
    """Return rates as the frame that a store gives; what is not a number is left out."""
    made = table(values)
    rows = [
        (made.at[row], made.runs[row], made.targets[column], f"oss{column // 2}", metric, value)
        for (row, column), value in np.ndenumerate(values)
        if np.isfinite(value)
    ]
    schema = {
        "at": pl.Datetime("us", "UTC"),
        "run": pl.String,
        "target": pl.String,
        "server": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
    }
    found = pl.DataFrame(rows, schema=schema, orient="row")
    return found if servers else found.drop("server")
