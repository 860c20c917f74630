"""Runs programs: starts, times and limits them, and stops everything they started.

``process`` runs one program; ``launchers`` prepend ``mpirun``; ``bounded`` accesses paths that may
hang; ``interruption`` turns signals into one error. Nothing here knows any benchmark.
"""
