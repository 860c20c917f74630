"""The twin: an all-flash file system in simulation, where policies are tried before production."""
