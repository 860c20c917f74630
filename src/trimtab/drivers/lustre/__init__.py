"""Lustre: ``lfs`` and ``lctl`` on a client, and one round trip to each server. Reading only."""
