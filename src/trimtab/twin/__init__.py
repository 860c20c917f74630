"""The twin: a simulated all-flash file system, where policies are tried before production.

Here are its scenarios, its driver, the programs on its nodes, and what a site would see of it;
`simulation` lets time pass, and `whatif` runs sweeps and sizes file systems. The physics of drives,
RAID groups and the block allocator are in the Rust crate `crates/flash`.
"""
