"""The store: sites, runs with their samples and raw outputs, snapshots and events, kept for good.

Runs are small, relational and precious, so they live in SQLite (one file, no service) or in
PostgreSQL where a site has several hosts; what a tool printed lies beside them, compressed and
named by its hash, so that every number can be traced to the line it came from. `Store` is the
only door: values of `trimtab.model` go in and the same values come out. A run is durable once
`Store.add_run` returns, and a process that is killed loses at most the run in flight.
"""
