"""The site file: a site, its limits, and its probes.

``schema`` declares its keys, ``load`` finds and reads it, ``checks`` finds contradictions,
``write`` writes a commented one.
"""
