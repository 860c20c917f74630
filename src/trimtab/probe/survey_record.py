"""All measurements of single targets of a site: those of past periods are kept in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.probe.site_series import surveying_series
from trimtab.store.kept_period import KeptPeriods, Period, bounds_of, in_order

if TYPE_CHECKING:
    import polars as pl

    from trimtab.store.kept import Keeping, RestsOn

_Columns = tuple[
    tuple[int, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[float, ...]
]
"""Time (microseconds since 1970), run, target, metric and value of each measurement."""


def survey_record(look: Keeping) -> pl.DataFrame:
    """Return what `survey_frame` of the store returns for a whole site."""
    import polars as pl

    names = {series.comparability for series in surveying_series(look)}

    def rests_on(period: Period) -> RestsOn:
        return lambda sums: sorted(
            (name, of) for (name, at), of in sums.runs_in.items() if at == period and name in names
        )

    periods = in_order(at for name, at in look.sums.runs_in if name in names and at is not None)
    surveys = KeptPeriods[_Columns](look, "surveys", _Columns, rests_on, periods)
    made = (_read(look, period) for period in surveys.missing)
    columns = ("at", "run", "target", "metric", "value")
    kinds = (pl.Int64, pl.String, pl.String, pl.String, pl.Float64)
    schema = dict(zip(columns, kinds, strict=True))
    frames = [pl.DataFrame(of, schema=schema, orient="col") for of in surveys.filled(made)]
    record = pl.concat(frames or [pl.DataFrame(schema=schema)])
    return record.with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))


def _read(look: Keeping, period: Period) -> _Columns:
    assert period is not None  # a run without a time is in no survey
    since, until = bounds_of(period)
    frame = look.store.survey_frame(look.site, since=since, until=until)
    at, run, target, metric, value = frame.with_columns(frame["at"].to_physical()).get_columns()
    return tuple(at), tuple(run), tuple(target), tuple(metric), tuple(value)
