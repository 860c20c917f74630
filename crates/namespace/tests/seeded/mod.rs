//! Seeds that are new with every commit, and that can be given.

use std::process::Command;

/// The seed of a test: from `TRIMTAB_SEED`, a commit's hash or any other text, else from the commit
/// that is checked out.
pub fn seed(name: &str) -> u64 {
    let source = std::env::var("TRIMTAB_SEED").unwrap_or_else(|_| {
        let commit = Command::new("git").args(["rev-parse", "HEAD"]).output();
        commit.map_or(String::new(), |commit| {
            String::from_utf8_lossy(&commit.stdout).trim().to_string()
        })
    });
    // FNV-1a.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let seed = format!("{source}:{name}").bytes().fold(0xCBF2_9CE4_8422_2325, hash);
    println!("TRIMTAB_SEED={source}");
    seed | 1
}
