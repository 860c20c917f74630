"""Reach."""
