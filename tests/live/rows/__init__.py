"""The rows of the table, in the order in which they run; importing this declares them all."""

from importlib import import_module

from tests.live.running import CAPABILITIES

__all__ = ["CAPABILITIES"]

for _name in (
    "discovery",
    "states",
    "measuring",
    "tuning",
    "trimming",
    "balancing",
    "scanning",
    "purging",
    "drifting",
    "following",
    "watching",
    "mailing",
    "leaving",
):
    import_module(f"tests.live.rows.{_name}")
