"""Keep a file system under its limit without ever deleting the wrong file.

In the order of data flow: `index` (which files exist), `policy` and `rules` (which may be deleted),
`horizon` (which must be, to reach the target), `plan` (the frozen list), `notice` (lists to users),
`run` (deletion, each file checked again) and `report` (the result).
"""
