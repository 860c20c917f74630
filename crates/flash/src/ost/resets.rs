//! When the allocator is sent back to group 0, spread over the requests of a step.

/// Resets that are due; a fraction of one is carried on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resets {
    owed: f64,
    /// Resets of this step that are not yet spread.
    due: f64,
    per_unit: f64,
}

impl Resets {
    /// Begins a step of so many resets, in which so many units are written.
    pub(crate) fn begin(&mut self, resets: f64, units: f64) {
        self.due = resets;
        self.per_unit = if units > 0.0 { resets / units } else { 0.0 };
    }

    /// Notes a request of so many units, and returns whether a reset comes after it.
    pub(crate) fn pass(&mut self, units: u32) -> bool {
        let now = (self.per_unit * f64::from(units)).min(self.due);
        self.due -= now;
        self.owe(now)
    }

    /// Ends a step, and returns whether a reset comes now.
    pub(crate) fn end(&mut self) -> bool {
        let rest = std::mem::take(&mut self.due);
        self.owe(rest)
    }

    fn owe(&mut self, resets: f64) -> bool {
        self.owed += resets;
        let whole = self.owed.floor();
        self.owed -= whole;
        whole > 0.0
    }
}
