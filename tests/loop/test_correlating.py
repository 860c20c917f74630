"""What imported runs tell of their own time is compared as rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from trimtab.loop.correlating import correlate_site
from trimtab.loop.event_log import Place
from trimtab.model.identifier import new_identifier
from trimtab.model.run import Run, RunStatus, Sample
from trimtab.record.comparability import ASKED
from trimtab.record.store import Store

START = datetime(2026, 3, 2, tzinfo=UTC)


def test_a_slow_run_does_not_move_with_the_length_that_it_has(tmp_path: Path) -> None:
    """What others do is the same every second: over the run it is most where the run is slowest."""
    rng = np.random.default_rng(1)
    with Store.open(tmp_path / "t.db") as store:
        for day in range(120):
            bandwidth = 1e9 * float(np.exp(0.3 * rng.standard_normal()))
            walltime_s = 1e12 / bandwidth
            others = 1e8 * float(np.exp(0.3 * rng.standard_normal()))
            moved = {
                "other_bytes_written": others * walltime_s,
                "server_bytes_written": others * walltime_s + 1e12,
                "metadata_operations": 5.0 * walltime_s * float(rng.uniform(0.5, 1.5)),
                "mean_fullness_fraction": float(rng.uniform()),
            }
            at = START + timedelta(days=day)
            run = Run(
                new_identifier(at), "s", "p", "ior", RunStatus.OK, at,
                samples=(Sample("write_bandwidth", bandwidth, 0),),
                parameters={ASKED: {}, "told": {"walltime_s": walltime_s, "telemetry": moved}},
            )  # fmt: skip
            store.add_run(run)
        (series,) = correlate_site(store, Place("s", None), since="2026-01-01").series
    names = {correlation.name: correlation for correlation in series.correlations}
    assert set(names) == {
        "told: other_bytes_written, a second",
        "told: metadata_operations, a second",
        "told: mean_fullness_fraction",
    }
    assert not any(correlation.moves_with for correlation in names.values())
