"""The driver of a Lustre file system: parsers, queries and changes, from one client to its servers.

`read_table` lists everything that is read, `write_table` everything that may be written. Six files
are sent to servers as source: `collector_tree`, `collector`, `write_table`, `writer_machine`,
`writer_order` and `writer`.
"""
