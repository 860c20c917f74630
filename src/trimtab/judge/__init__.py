"""Statistics: plain numbers in, verdicts out. No I/O, no clock, no process.

`credibility` decides whether a repetition is to be believed, `variability` judges repetitions
and history against the goal, `comparison` sets a run beside earlier ones, `trend` says where a
series is heading. `quantiles` and `spread` hold the formulas they share.
"""
