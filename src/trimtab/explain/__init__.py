"""From observations to explanations: findings for today, incidents and their causes over time.

It also gives hints for the files of a job. Apart from commands, screens and pages everything here
is pure: no I/O, no clock. Statistics come from `judge`; `act` decides what to do about a cause.
"""
