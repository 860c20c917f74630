"""Alerts of a watched site: which ones its record asks for, and how they reach people.

Deciding is pure; couriers, receivers and the view of the store are not.
"""
