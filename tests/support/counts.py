"""How often a randomised test repeats: few times in the gate, many under ``make soak``."""

from __future__ import annotations

import os
import random
import subprocess


def repetitions(gate: int, soak: int) -> int:
    """Return ``soak`` under ``make soak``, else ``gate``."""
    return soak if os.environ.get("TRIMTAB_SOAK") else gate


def seeded(name: str) -> random.Random:
    """Return a generator seeded by the commit and the test: new moments with every change.

    Set ``TRIMTAB_SEED`` to repeat a failure; its seed is the commit's full hash.
    """
    seed = os.environ.get("TRIMTAB_SEED")
    if seed is None:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
        seed = commit.stdout.strip()
    return random.Random(f"{seed}:{name}")
