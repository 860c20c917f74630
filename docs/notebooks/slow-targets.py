# %% [markdown]
# # Which OST is slow
# Thirty surveys of forty OSTs, of which one is a quarter slower than the others.

# %%
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from trimtab.judge import target_tails

generator = np.random.default_rng(7)
rates = 17e9 * np.exp(0.08 * generator.standard_normal((30, 40)))
rates[:, 18] *= 0.75
start = datetime(2026, 10, 1, tzinfo=UTC)
rows = [
    (start + timedelta(days=day), f"survey-{day}", f"OST{ost:04x}", "write_bandwidth", float(rate))
    for (day, ost), rate in np.ndenumerate(rates)
]
columns = {"at": pl.Datetime("us", "UTC"), "run": pl.String, "target": pl.String}
columns |= {"metric": pl.String, "value": pl.Float64}
surveys = pl.DataFrame(rows, schema=columns, orient="row")

# %%
tails = target_tails(surveys, "write_bandwidth", stripe_count=8)
print([straggler.target for straggler in tails.stragglers])
if tails.overall is not None:
    print(f"a job over 8 OSTs loses {tails.overall.stripe_loss:.0%} to its slowest")
