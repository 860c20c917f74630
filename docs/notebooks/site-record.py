# %% [markdown]
# # A site's record as frames
# This one makes a small store of its own. With a real site: `trimtab.open("scratch")`.

# %%
import tempfile
from datetime import UTC, datetime, timedelta

import polars as pl

import trimtab
from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.store.store import Store

directory = tempfile.TemporaryDirectory()
file = f"{directory.name}/trimtab.db"
with Store.open(file) as store:
    for hour in range(96):
        at = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)
        rate = (2e9 if hour < 60 else 1.5e9) * (1 + 0.01 * (hour * 7 % 5 - 2))
        samples = (Sample("write_bandwidth", rate, 0),)
        status = RunStatus.OK
        store.add_run(
            Run(new_identifier(at), "scratch", "hourly", "fio", status, at, samples=samples)
        )

# %%
with trimtab.open("scratch", store=file) as site:
    frame = site.samples(metric="write_bandwidth")
    judged = site.judge(metric="write_bandwidth")

directory.cleanup()

# %%
daily = frame.group_by(pl.col("at").dt.date().alias("day")).agg(pl.col("value").mean()).sort("day")
print(daily)

# %%
series = judged.judgement.series[0]
print(
    series.verdict.status,
    [f"{change.at:%d %H:%M} x {change.effect:.2f}" for change in series.changes],
)
