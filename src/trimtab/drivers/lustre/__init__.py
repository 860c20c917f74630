"""The Lustre driver: ``lfs`` and ``lctl`` on a client, one round trip to each server."""
