"""Keep a file system under its limit without ever deleting the wrong file.

In the order in which data flows: `index` (what there is), `policy` and `rules` (what may go),
`horizon` (what has to go), `plan` (what will go, frozen), `notice` (who is told), `run` (what goes,
checked again one by one), `report` (what went).
"""
