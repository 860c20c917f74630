"""Watch a site for as long as the process runs: slots on schedule, armed policies, alerts, metrics.

The work of a slot is in other rooms: probes and snapshots in `probe`, changes in `act`, purge plans
in `purge`. Installation as a service is here too.
"""
