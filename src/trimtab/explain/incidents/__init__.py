"""Incidents."""
