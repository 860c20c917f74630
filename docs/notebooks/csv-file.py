# %% [markdown]
# # A series from a CSV file: since when, by how much
# Cells as editors and Jupytext know them; `python csv-file.py` runs it too.

# %%
from pathlib import Path

import trimtab

here = Path(globals().get("__file__", "docs/notebooks/csv-file.py")).resolve().parent
judged = trimtab.judge_csv(here.parent / "examples" / "reads.csv")
(series,) = judged.judgement.series

# %%
for change in series.changes:
    print(f"{change.at:%d %B %Y}: x {change.effect:.2f}, {change.status}")
print(series.verdict.status, series.verdict.reason)

# %% [markdown]
# The chart, with levels and changes:

# %%
picture = trimtab.chart(series)
picture
