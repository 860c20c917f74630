"""Simulate a file system in epochs: users, placement, deletion, purges, trims, faults and probes.

Throughput of each layer is computed here, and free space and write amplification on miniature OSTs
of the Rust core. What a site would see of it is in `trimtab.twin.simulated_site`.
"""
