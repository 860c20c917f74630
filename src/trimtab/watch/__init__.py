"""Watch a site for as long as the process runs: slots on schedule, armed policies, alerts, metrics.

What a slot does is in other rooms: probes and snapshots in `probe`, changes in `act`, plans of
purges in `purge`. Installation as a service is here too.
"""
