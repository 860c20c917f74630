"""Access to machines: processes, ssh, Slurm, Dask workers, mail, and the drivers.

A file knows how to run something and how to read its answer. It keeps nothing in the store, and
what a benchmark printed is parsed by `trimtab.formats`.
"""
