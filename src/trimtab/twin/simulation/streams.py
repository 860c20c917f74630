"""Streams of random numbers, one for each noun, so that no draw depends on another's."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator that belongs to a seed and names, always the same one.

    Parameters
    ----------
    seed
        Of the scenario.
    names
        What the draws are of: a noun, then an epoch or an entity. A fault that is added has its
        own names and so changes nothing of what users draw.
    """
    text = "\0".join([str(seed), *map(str, names)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    # Philox takes any key as it is; generators that spread a seed first take longer than the draws.
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
