"""Ask "what if?" of the twin: sweeps of policies, and sizing of file systems.

All results are simulated; nothing here reads or changes a real file system. The ``whatif*`` files
are about sweeps; ``sizing*`` and `ost_amplification` are about sizing. `whatif_request` has the
requests of both.
"""
