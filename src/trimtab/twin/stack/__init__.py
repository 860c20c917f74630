"""Throughput of each layer: drive, RAID, OST, server, network, client, job.

Pure functions on plain values; arrays have one entry per OST. Nothing here depends on time: wear,
fullness and age are inputs (write amplification, useless loops, users' load).
"""
