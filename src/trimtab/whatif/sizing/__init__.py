"""How large a file system has to be, and what its drives then do: `sizing.size`."""
