"""Streams of random numbers, one for each noun, so that no draw depends on another's."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray


class _Key(ISeedSequence):
    """A key of Philox as it is: given by itself, NumPy asks the system for entropy first."""

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, "<u8")

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Return the two words that Philox asks for."""
        return self._words


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
    # NumPy takes any ISeedSequence; its stubs know only its own.
    return np.random.Generator(np.random.Philox(_Key(digest)))  # pyrefly: ignore[bad-argument-type]
