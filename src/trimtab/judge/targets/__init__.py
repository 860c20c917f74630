"""Targets beside one another, survey after survey: the slow end, and who is there again and again.

`polish` takes out what all targets of a survey and all surveys of a target share, `stragglers`
counts who is slow more often than chance has it, `slow_end` says what a job that is striped over
many targets meets.
"""

from trimtab.judge.targets.tails import target_tails

__all__ = ["target_tails"]
