"""Decide what to change: pure functions from what was observed and a policy to a plan.

Each policy has a ``decide_*`` function; `site_observed` has the reasons to hold all changes, and
`decision` makes the plan of any policy. Nothing here reads a file system, a store or a clock.
"""
