"""Find the cut-off that reaches a target from the ages of files, and what it would delete.

`trimtab.purge.fullness.AgeCurve` holds files and bytes by the hour of their last use. `horizon`
finds the cut-off that reaches a target, `group_horizon` that of OSTs and pools, and
`horizon_estimate` forecasts usage until a plan expires; `horizon_answer` combines them, and
computes what a past cut-off would have deleted, and what of it was used afterwards. `evasion`
detects files kept artificially young. These are pure; `horizon_question` reads the index and the
site. Nothing here selects or deletes a file.
"""
