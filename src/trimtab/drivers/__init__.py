"""How to reach a file system: the protocol, and the drivers that speak it.

A driver answers what it can, gives the reason where it cannot, and decides nothing. ``local`` sees
a mounted file system of this host through ``/proc``, ``/sys`` and a few tools.
"""
