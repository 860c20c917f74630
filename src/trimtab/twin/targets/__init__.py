"""What the five documents print, in base units."""

from trimtab.twin.targets.layers import STATIC
from trimtab.twin.targets.timed import TIMED

__all__ = ["STATIC", "TIMED"]
