"""LNet selftest: what the network of Lustre carries, without disks.

`reading` reads what ``lst stat`` prints, `commands` makes the sequence of commands of a test.
"""

from trimtab.measure.lnet_selftest.reading import FORMAT, read

__all__ = ["FORMAT", "read"]
