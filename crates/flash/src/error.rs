//! What cannot be simulated, and why.

/// A geometry, a setting or a workload that no drive could have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value lies outside of what it may be.
    #[error("{name} is {value}: {reason}")]
    Impossible {
        /// The key, as it is written in a scenario.
        name: &'static str,
        /// What it was.
        value: f64,
        /// What it may be.
        reason: &'static str,
    },
}

impl Error {
    pub(crate) fn impossible(name: &'static str, value: f64, reason: &'static str) -> Self {
        Self::Impossible { name, value, reason }
    }
}
