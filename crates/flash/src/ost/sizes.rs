//! How large files are.

use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Log-normal sizes in whole units, from one up to a largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// The size that half of the files exceed, in units.
    pub median: f64,
    /// Standard deviation of the size's natural logarithm.
    pub sigma: f64,
    /// Units of the largest file.
    pub largest: u32,
}

impl Sizes {
    pub(crate) fn draw(&self, draws: &mut Xoshiro256PlusPlus) -> u32 {
        let size = self.median * (self.sigma * normal(draws)).exp();
        size.round().clamp(1.0, f64::from(self.largest)) as u32
    }
}

/// Draws from the standard normal distribution (G. Marsaglia's polar method, one of its two values).
fn normal(draws: &mut Xoshiro256PlusPlus) -> f64 {
    loop {
        let x = 2.0 * part(draws) - 1.0;
        let y = 2.0 * part(draws) - 1.0;
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Draws a number from 0 to 1, 1 left out.
fn part(draws: &mut Xoshiro256PlusPlus) -> f64 {
    (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
