"""The public year of daily probes as a person's own table: a column map, and what it reads."""

from __future__ import annotations

import gzip

import pytest
from tests.support.real_year import tables, tokio_abc

from trimtab.probe.imports.text_table import read_numbers, read_table
from trimtab.probe.imports.written_time import read_times, texts_of

pytestmark = pytest.mark.system


@pytest.mark.parametrize("number", [0, 1])
def test_a_column_map_reads_times_and_values(number: int) -> None:
    """Edison's rows begin with an index that its head does not name."""
    path, year = tables()[number], tokio_abc()
    runs, _ = year.read(path)
    table = read_table(gzip.decompress(path.read_bytes()), path.name)
    assert read_times(texts_of(table.frame[year.TIME]), "UTC")["at"].to_list() == [
        run.at for run in runs
    ]
    values = read_numbers(
        table.frame[year.VALUE], lines=table.lines, separator=table.separator
    ).values.to_list()
    assert values == [None if run.value is None else run.value / 2**20 for run in runs]
    sites = zip(table.frame[year.SITE], runs, strict=True)
    assert all(run.site.endswith(site) for site, run in sites if site)
