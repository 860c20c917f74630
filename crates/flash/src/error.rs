//! Error for settings that cannot be simulated, with the reason.

/// A geometry, a setting or a workload that no drive could have: a value outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} is {value}: {reason}")]
pub struct Error {
    /// The key, as it is written in a scenario.
    name: &'static str,
    value: f64,
    /// The range, or why the value is out of it.
    reason: &'static str,
}

impl Error {
    pub(crate) fn impossible(
        name: &'static str,
        value: impl Into<f64>,
        reason: &'static str,
    ) -> Self {
        Self { name, value: value.into(), reason }
    }
}

/// Refuses a value unless a condition holds.
pub(crate) fn require(
    holds: bool,
    name: &'static str,
    value: impl Into<f64>,
    reason: &'static str,
) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::impossible(name, value, reason)) }
}
