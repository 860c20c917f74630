"""From what was seen to what is wrong: findings now, incidents and their causes over time.

Everything here is pure: no I/O, no clock.
"""
