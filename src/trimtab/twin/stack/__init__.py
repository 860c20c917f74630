"""What each layer lets through: drive, RAID, OST, server, network, client, job.

Pure functions on plain values; arrays have one entry an OST. Nothing here knows of time: what
wears, fills or ages arrives as numbers (write amplification, useless loops, what users take).
"""
