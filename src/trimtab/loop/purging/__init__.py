"""Purge, joined: what the commands call. Each file is one command.

::

    scanning ─▶ index ─▶ horizons ─▶ planning ─▶ noticing ─▶ arming ─▶ running ─▶ reporting

`place` says where the key, the journals and what is armed lie; `measuring` how full a file system
is, and how its use grew.
"""
