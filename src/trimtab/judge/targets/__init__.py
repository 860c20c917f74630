"""Targets compared survey by survey: the lower tail, and the targets that are slow repeatedly.

`median_polish` removes the effect of each survey and of each target, `stragglers` tests which
targets are slow more often than chance explains, `lower_tail` estimates what a job striped over
many targets loses.
"""
