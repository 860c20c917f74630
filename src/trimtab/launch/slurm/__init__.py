"""Slurm: one batch job holds the nodes of a probe, whose commands run in it as steps.

::

    sbatch ──> PENDING ──> RUNNING ── srun --jobid --overlap: one step a command ──> released
               squeue, with back-off              (streams and deadline as everywhere)

`states` classifies Slurm's job states, `options` lists the options a site may use, `client` runs
Slurm's commands, `allocation` manages one job, `launcher` detects Slurm.
"""
