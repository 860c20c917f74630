"""Simulated records of sites with the truth beside them; imports nothing of trimtab.

``generate.make_world(family, seed)`` gives one site's record; ``families.VARIANTS`` lists what can
happen to it. The README describes every variant, and which instruments see it.
"""
