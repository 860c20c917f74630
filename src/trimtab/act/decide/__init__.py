"""Decide what to change: pure functions from what was observed and a policy to a plan.

One file per policy with a ``decide``, plus the reasons to hold all changes. Nothing here reads a
file system, a store or a clock.
"""
