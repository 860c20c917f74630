//! Which rank this process is, from the environment that a launcher leaves.

use crate::error::{Error, Result};

/// Place of this process among those that were started together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The rank, from 0.
    pub rank: u64,
    pub size: u64,
    /// The variables it was read from; `None` where no launcher was found.
    pub source: Option<&'static str>,
}

const ALONE: Rank = Rank { rank: 0, size: 1, source: None };

impl Default for Rank {
    fn default() -> Self {
        ALONE
    }
}

/// Pairs that an MPI launcher sets for each of its processes.
const MPI_PAIRS: [(&str, &str, &str); 2] = [
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "PMI_RANK and PMI_SIZE"),
];

/// Variables that may hold the size where `PMIX_RANK` is set, which has none of its own.
const PMIX_SIZES: [&str; 5] =
    ["PMIX_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];

/// Rank and size from the environment `get`.
///
/// MPI's own variables come before Slurm's: under `mpirun` inside a Slurm job every process still sees the
/// SLURM_PROCID of what started it. Two MPI launchers that disagree are an error.
pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Rank> {
    let mut ranks: Vec<Rank> = Vec::new();
    for (rank, size, source) in MPI_PAIRS {
        match (get(rank), get(size)) {
            (None, None) => {}
            (Some(rank_text), Some(size_text)) => {
                ranks.push(checked(rank, &rank_text, size, &size_text, source)?);
            }
            (Some(_), None) => return Err(incomplete(rank, size)),
            (None, Some(_)) => return Err(incomplete(size, rank)),
        }
    }
    if let Some(rank_text) = get("PMIX_RANK") {
        let (size, size_text) = PMIX_SIZES
            .iter()
            .find_map(|&name| Some((name, get(name)?)))
            .ok_or_else(|| incomplete("PMIX_RANK", "a size"))?;
        ranks.push(checked("PMIX_RANK", &rank_text, size, &size_text, "PMIX_RANK")?);
    }
    if ranks.is_empty() {
        return from_slurm(get);
    }
    let first = ranks.remove(0);
    match ranks.iter().find(|other| (other.rank, other.size) != (first.rank, first.size)) {
        None => Ok(first),
        Some(other) => Err(conflict(&first, other)),
    }
}

/// A task of `srun`; the batch script itself and a shell in an allocation also carry SLURM_PROCID but are one process.
fn from_slurm(get: impl Fn(&str) -> Option<String>) -> Result<Rank> {
    let Some(rank_text) = get("SLURM_PROCID") else {
        return Ok(ALONE);
    };
    // Step ids from 0xfffffff0 up are Slurm's own steps: batch script, interactive shell, extern (slurm.h).
    let step = get("SLURM_STEP_ID").and_then(|text| text.parse::<u32>().ok());
    let is_batch = match step {
        Some(id) => id >= 0xffff_fff0,
        None => get("SLURM_JOB_ID").is_some(),
    };
    if is_batch {
        return Ok(ALONE);
    }
    for size in ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"] {
        if let Some(size_text) = get(size) {
            return checked(
                "SLURM_PROCID",
                &rank_text,
                size,
                &size_text,
                "SLURM_PROCID and SLURM_NTASKS",
            );
        }
    }
    Err(incomplete("SLURM_PROCID", "SLURM_NTASKS"))
}

fn checked(
    rank_name: &str,
    rank: &str,
    size_name: &str,
    size: &str,
    source: &'static str,
) -> Result<Rank> {
    let number = |name: &str, text: &str| {
        text.trim().parse::<u64>().map_err(|_| {
            Error::Usage(format!(
                "{name}=`{text}` in the environment is not a number; hint: unset it or use --alone"
            ))
        })
    };
    let (rank, size) = (number(rank_name, rank)?, number(size_name, size)?);
    if rank >= size {
        return Err(Error::Usage(format!(
            "{rank_name}={rank} and {size_name}={size} in the environment do not fit together; hint: unset them or use --alone"
        )));
    }
    Ok(Rank { rank, size, source: Some(source) })
}

fn incomplete(has: &str, lacks: &str) -> Error {
    Error::Usage(format!(
        "{has} is set in the environment but {lacks} is not; hint: start with mpirun or srun, or use --alone"
    ))
}

fn conflict(first: &Rank, second: &Rank) -> Error {
    let show = |rank: &Rank| {
        let source = rank.source.unwrap_or("the environment");
        format!("{source} say rank {} of {}", rank.rank, rank.size)
    };
    Error::Usage(format!(
        "two launchers disagree: {}, {}; hint: unset the variables of one",
        show(first),
        show(second)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The rank in an environment such as `PMI_RANK=1 PMI_SIZE=2`.
    fn rank_of(variables: &str) -> Result<Rank> {
        let pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
        let map: HashMap<_, _> = pairs.collect();
        from_environment(|name| map.get(name).map(|&value| value.to_string()))
    }

    #[track_caller]
    fn expect(variables: &str, expected: (u64, u64)) {
        let rank = rank_of(variables).unwrap();
        assert_eq!((rank.rank, rank.size), expected, "{variables}");
    }

    #[test]
    fn each_launcher_is_understood() {
        expect("", (0, 1));
        expect("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", (3, 4));
        expect("PMI_RANK=1 PMI_SIZE=2", (1, 2));
        expect("PMIX_RANK=1 SLURM_NTASKS=2 SLURM_PROCID=1", (1, 2));
        expect("SLURM_PROCID=5 SLURM_NTASKS=6", (5, 6));
        let step = "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=9";
        expect(&format!("SLURM_PROCID=1 SLURM_NTASKS=8 {step}"), (1, 2));
    }

    #[test]
    fn a_batch_script_is_alone() {
        let batch = "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=9";
        expect(batch, (0, 1));
        expect(&format!("{batch} SLURM_STEP_ID=4294967291"), (0, 1));
    }

    #[test]
    fn mpirun_inside_a_slurm_job_goes_by_mpirun() {
        let outer = "SLURM_PROCID=0 SLURM_NTASKS=1";
        expect(&format!("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 {outer}"), (2, 4));
    }

    #[test]
    fn conflicts_and_nonsense_are_errors() {
        for variables in [
            "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2",
            "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2",
            "PMI_RANK=minus-one PMI_SIZE=2",
            "OMPI_COMM_WORLD_RANK=0",
            "PMIX_RANK=0",
            "SLURM_PROCID=0",
        ] {
            let error = rank_of(variables).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{variables}");
            assert!(error.to_string().contains("hint:"), "{error}");
        }
    }
}
