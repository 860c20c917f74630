"""What a sentence says in figures: assertions on these outlive a better wording."""

import re


def numbers(sentence: str) -> list[float]:
    """Return the numbers of a sentence in their order.

    Examples
    --------
    >>> numbers("COV 7.9 % (6.1 to 11.2 %) over 48 runs of 1,024 files: -3")
    [7.9, 6.1, 11.2, 48.0, 1024.0, -3.0]
    """
    found = re.findall(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?", sentence)
    return [float(text.replace(",", "")) for text in found]
