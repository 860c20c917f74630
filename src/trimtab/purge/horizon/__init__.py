"""Find the cut-off that reaches a target from the ages of files. Pure.

`curve` holds files and bytes by the hour of their last use, `usage` the fullness of a file system.
`horizon` finds the cut-off that reaches its target, `targets` that of its OSTs and pools, and
`forecast` the growth until a plan expires; `answer` combines them on the core's `tally` of an
index. `replay` computes what a past cut-off would have deleted, and what of it was used afterwards.
"""
