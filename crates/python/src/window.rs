//! A window of a RAID group as one function.

use crate::drive::{named, refused};
use flash::raid::{Ceilings, Kind, Lanes, Raid, read_ceiling};
use flash::window::{Class, Collection, Figures, Latencies, Load, Terms, Throttling, run};
use pyo3::prelude::*;
use pyo3::types::PyDict;

const KINDS: [(&str, Kind); 3] =
    [("gridraid", Kind::GridRaid), ("draid", Kind::Draid), ("raid10", Kind::Raid10)];
const CLASSES: [(&str, Class); 3] =
    [("plain", Class::Plain), ("sync", Class::Sync), ("direct", Class::Direct)];

/// The attributes of `trimtab.twin.simulation.ost_rate.WindowTerms`, which declares what they mean.
#[derive(FromPyObject)]
pub struct WindowTerms {
    write_bytes_per_s: f64,
    read_bytes_per_s: f64,
    write_iops: f64,
    read_iops: f64,
    amplification: f64,
    seed: u64,
    drives: u32,
    data: u32,
    parity: u32,
    chunk_bytes: u64,
    kind: String,
    throttle: bool,
    throttle_target_s: f64,
    write_class: String,
    queue_depth: u32,
    submitters: u32,
    serial_s: f64,
    write_latency_s: f64,
    read_latency_s: f64,
    transfer_bytes: u64,
    depth: u32,
    operations_per_s: Option<f64>,
    read_share: f64,
    reads_per_s: f64,
    read_bytes: u64,
    superblock_bytes: Option<f64>,
    urgency: Option<f64>,
    slice_s: Option<f64>,
    slice_hit: Option<f64>,
    erase_s: Option<f64>,
    erase_hit: Option<f64>,
    idle_s: Option<f64>,
    slow_drive: Option<(u32, f64)>,
    failed_drives: u32,
    rebuild_share: f64,
    warm_s: f64,
    duration_s: f64,
}

impl WindowTerms {
    fn raid(&self) -> PyResult<Raid> {
        let Self { drives, data, parity, chunk_bytes, .. } = *self;
        Ok(Raid { kind: named("kind", &self.kind, &KINDS)?, drives, data, parity, chunk_bytes })
    }

    fn drive(&self) -> Ceilings {
        let Self { write_bytes_per_s, read_bytes_per_s, write_iops, read_iops, .. } = *self;
        Ceilings { write_bytes_per_s, read_bytes_per_s, write_iops, read_iops }
    }

    fn collection(&self) -> Collection {
        let usual = Collection::default();
        Collection {
            superblock_bytes: self.superblock_bytes.unwrap_or(usual.superblock_bytes),
            urgency: self.urgency.unwrap_or(usual.urgency),
            slice_s: self.slice_s.unwrap_or(usual.slice_s),
            slice_hit: self.slice_hit.unwrap_or(usual.slice_hit),
            erase_s: self.erase_s.unwrap_or(usual.erase_s),
            erase_hit: self.erase_hit.unwrap_or(usual.erase_hit),
            idle_s: self.idle_s.unwrap_or(usual.idle_s),
        }
    }

    fn load(&self) -> Load {
        let Self { transfer_bytes, depth, operations_per_s, read_share, .. } = *self;
        let Self { reads_per_s, read_bytes, .. } = *self;
        Load { transfer_bytes, depth, operations_per_s, read_share, reads_per_s, read_bytes }
    }

    fn terms(&self) -> PyResult<Terms> {
        let class = named("write_class", &self.write_class, &CLASSES)?;
        let throttling = Throttling { target_s: self.throttle_target_s, class };
        let Self { amplification, write_latency_s, read_latency_s, queue_depth, .. } = *self;
        let Self { submitters, serial_s, slow_drive, failed_drives, rebuild_share, .. } = *self;
        let Self { warm_s, duration_s, seed, .. } = *self;
        Ok(Terms {
            raid: self.raid()?,
            drive: self.drive(),
            amplification,
            collection: self.collection(),
            write_latency_s,
            read_latency_s,
            throttling: self.throttle.then_some(throttling),
            queue_depth,
            submitters,
            serial_s,
            load: self.load(),
            slow_drive,
            failed_drives,
            rebuild_share,
            warm_s,
            duration_s,
            seed,
        })
    }
}

/// Simulates a window of one RAID group; returns its figures by name.
#[pyfunction]
pub fn run_window(py: Python<'_>, terms: WindowTerms) -> PyResult<Py<PyDict>> {
    let terms = terms.terms()?;
    let figures = py.detach(|| run(&terms)).map_err(refused)?;
    figures_by_name(py, &figures).map(Bound::unbind)
}

fn figures_by_name<'py>(py: Python<'py>, figures: &Figures) -> PyResult<Bound<'py, PyDict>> {
    let by_name = dict_of!(
        py,
        figures,
        [
            write_bytes_per_s,
            read_bytes_per_s,
            ceiling_bytes_per_s,
            met,
            started,
            ended,
            outstanding
        ]
    );
    by_name.set_item("writes", quantiles(py, figures.writes)?)?;
    by_name.set_item("reads", quantiles(py, figures.reads)?)?;
    let sampled = dict_of!(
        py,
        figures.sampled,
        [looks, collecting, below, below_quiet, held, held_quiet, starved_quiet, steps_below]
    );
    by_name.set_item("sampled", sampled)?;
    Ok(by_name)
}

fn quantiles<'py>(
    py: Python<'py>,
    latencies: Option<Latencies>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(latencies) = latencies else { return Ok(None) };
    let names =
        dict_of!(py, latencies, [count, mean_s, p50_s, p90_s, p99_s, p999_s, p9999_s, max_s]);
    Ok(Some(names))
}

/// Returns the bytes a second that a group takes when every drive is busy and none collects.
#[pyfunction]
pub fn raid_write_ceiling(terms: WindowTerms) -> PyResult<f64> {
    let raid = terms.raid()?;
    raid.check().map_err(refused)?;
    Ok(raid.write_ceiling(terms.drive(), terms.transfer_bytes.max(1)))
}

/// Returns the bytes a second read from one OST of several that share their drives.
#[pyfunction]
#[pyo3(signature = (*, read_bytes_per_s, drives, shared, slot_bytes_per_s, controllers))]
pub fn raid_read_ceiling(
    read_bytes_per_s: f64,
    drives: u32,
    shared: u32,
    slot_bytes_per_s: f64,
    controllers: u32,
) -> f64 {
    read_ceiling(read_bytes_per_s, drives, shared, Lanes { slot_bytes_per_s, controllers })
}
