"""Slurm: one batch job holds the nodes of a probe, and its commands run in it as steps.

::

    sbatch ──> PENDING ──> RUNNING ── srun --jobid --overlap: one step a command ──> released
               squeue, with back-off              (streams and deadline as everywhere)

`states` says what Slurm's words mean, `options` what a site may ask for, `client` talks to the
commands of Slurm, `allocation` is the life of one job, `launcher` finds out whether there is Slurm.
"""
