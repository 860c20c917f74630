//! Seeds that are new with every commit, and that can be given.

use std::process::Command;

/// The seed of a test: from `TRIMTAB_SEED`, a commit's hash or any other text, else from the commit
/// that is checked out.
pub fn seed(name: &str) -> u64 {
    let given = std::env::var("TRIMTAB_SEED").unwrap_or_else(|_| {
        let told = Command::new("git").args(["rev-parse", "HEAD"]).output();
        told.map_or(String::new(), |told| String::from_utf8_lossy(&told.stdout).trim().to_string())
    });
    // FNV-1a.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let seed = format!("{given}:{name}").bytes().fold(0xCBF2_9CE4_8422_2325, hash);
    println!("TRIMTAB_SEED={given}");
    seed | 1
}
