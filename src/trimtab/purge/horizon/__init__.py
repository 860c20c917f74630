"""How old a file has to be to go: from the ages of what there is to a cut-off. Pure.

`curve` holds files and bytes by the hour of their last use, `usage` how full a file system is;
`horizon` finds the cut-off that brings it to its target, `targets` that of its OSTs, `forecast` how
much more will be needed; `answer` puts them together on the core's `tally` of an index. `replay`
tells what a cut-off would have deleted, and what of it was used afterwards.
"""
