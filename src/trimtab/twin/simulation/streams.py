"""Independent streams of random numbers, one for each subject."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray


class _Key(ISeedSequence):
    """A raw key for Philox; given a plain key, NumPy would first read system entropy."""

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, "<u8")

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Return the two words that Philox requests."""
        return self._words


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the reproducible generator of a seed and names.

    Parameters
    ----------
    seed
        Seed of the scenario.
    names
        Subject of the draws: a noun, then an epoch or an entity. An additional fault has its own
        names and so does not change users' draws.
    """
    text = "\0".join([str(seed), *map(str, names)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    # Philox accepts any raw key; generators that hash a seed first take longer than the draws.
    # NumPy accepts any ISeedSequence; its stubs know only its own.
    return np.random.Generator(np.random.Philox(_Key(digest)))  # pyrefly: ignore[bad-argument-type]
