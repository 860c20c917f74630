"""What-if analyses on the twin: sizing of file systems, sweeps of policies. All simulated."""
