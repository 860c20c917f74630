"""Records of sites as they really are, with the truth beside them; imports nothing of trimtab.

``record.make_world(seed)`` gives the record of one site: 20 days to three years, a probe every hour
to every twelve on some of its nodes, snapshots every 1 to 24 hours with gaps or none at all, runs
that do not finish though nothing is wrong, a log book that is kept, holds one line, or none, and
lines in it that have nothing to do with anything. Over a third of the faults have no cause that an
instrument shows. ``scripts/score_worlds.py`` scores the program on them.
"""
