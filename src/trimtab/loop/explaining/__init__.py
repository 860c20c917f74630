"""Incidents: detected in what a site has recorded, and explained."""
