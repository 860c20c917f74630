"""The twin: a simulated all-flash file system, where policies are tried before production.

Here are its scenarios, its driver, and the programs on its nodes; `simulation` lets time pass,
`instrument` prints what a site would see, and `whatif` runs sweeps and sizes file systems. The
physics of drives, RAID groups and the block allocator are in the Rust crate `crates/flash`.
"""
