"""From observations to explanations: findings for today, incidents and their causes over time.

Everything here is pure: no I/O, no clock.
"""
