"""Where a program runs: started, timed, limited, and stopped with everything it started.

``process`` runs one program; ``launchers`` put ``mpirun`` in front of it; ``bounded`` asks about
paths that may hang; ``interruption`` turns signals into one error. Nothing here knows a benchmark.
"""
