//! Checks of every rank before the run, so that all ranks begin or none does.

use crate::args::Options;
use crate::direct;
use crate::error::{Error, ErrorReport, Result};
use crate::files;
use crate::sys;
use serde::{Deserialize, Serialize};

/// Findings of a rank before the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrival {
    pub host: String,
    pub boot_id: Option<String>,
    pub parameters: String,
    /// Whether each file of the rank existed already.
    pub direct_refused: Option<String>,
    /// Which of the rank's files were there already.
    pub existed: Vec<bool>,
    pub error: Option<ErrorReport>,
}

/// Looks at this rank's files and at direct I/O.
pub fn look_around(options: &Options) -> Arrival {
    let looked = look(options);
    let error = looked.as_ref().err().map(Error::report);
    let (existed, direct_refused) = looked.unwrap_or_default();
    Arrival {
        host: sys::host_name(),
        boot_id: sys::boot_id(),
        parameters: common_parameters(options),
        direct_refused,
        existed,
        error,
    }
}

fn common_parameters(options: &Options) -> String {
    let Options { geometry, write, read, tasks_per_rank, random, reorder, direct, fsync, .. } =
        options;
    let Options {
        deadline_s,
        wear_out,
        minimum_duration_s,
        verify,
        seed,
        keep,
        overwrite,
        name,
        ..
    } = options;
    format!(
        "{geometry:?} {write} {read} {tasks_per_rank} {random} {reorder} {direct} {fsync} {deadline_s:?} {wear_out} {minimum_duration_s:?} {verify} {seed} {keep} {overwrite} {name}"
    )
}

fn look(options: &Options) -> Result<(Vec<bool>, Option<String>)> {
    let mut existed = Vec::new();
    for task in files::tasks_of(options, options.rank.rank) {
        let path = files::path_of(options, task);
        let exists = path.symlink_metadata().is_ok();
        if exists && options.write && !options.overwrite {
            return Err(Error::Exists(path));
        }
        existed.push(exists);
    }
    let refused = if options.direct { probe_direct(options)? } else { None };
    Ok((existed, refused))
}

fn probe_direct(options: &Options) -> Result<Option<String>> {
    let transfer_bytes = options.geometry.transfer_bytes;
    if options.write {
        let probe = options
            .dir
            .join(format!(".{}.{}.probe{}", options.name, options.run_id, options.rank.rank));
        return direct::probe_write(&probe, transfer_bytes);
    }
    let first = files::tasks_of(options, options.rank.rank).start;
    direct::probe_read(&files::path_of(options, first), transfer_bytes)
}

/// Whether the run may begin. All ranks come to the same conclusion, because all see the same arrivals.
pub fn admit(arrivals: &[Arrival]) -> std::result::Result<(), ErrorReport> {
    if let Some(error) = arrivals.iter().find_map(|arrival| arrival.error.as_ref()) {
        return Err(error.clone());
    }
    match arrivals.iter().position(|arrival| arrival.parameters != arrivals[0].parameters) {
        Some(rank) => {
            Err(Error::Usage(format!("ranks 0 and {rank} were started with different options"))
                .report())
        }
        None => Ok(()),
    }
}
