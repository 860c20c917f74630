"""Compare targets survey by survey: the lower tail, and targets that are repeatedly slow.

`median_polish` removes the effect of each survey and of each target, `stragglers` tests which
targets are slow more often than chance explains, `lower_tail` estimates what a job striped over
many targets loses.
"""
