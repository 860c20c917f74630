//! Whatever a host does, the drive finds every unit, and its counts add up.

use flash::{Drive, Geometry, Policy, Settings, workload::Workload};
use proptest::prelude::*;
use std::collections::HashSet;

fn settings() -> impl Strategy<Value = Settings> {
    let policies = prop_oneof![Just(Policy::Greedy), Just(Policy::Fifo), Just(Policy::CostBenefit)];
    (policies, any::<bool>(), any::<u64>()).prop_map(|(policy, separate, seed)| Settings {
        policy,
        separate,
        seed,
    })
}

fn geometry() -> impl Strategy<Value = Geometry> {
    (3..12_u32, 1..9_u32, 0.05..0.7_f64)
        .prop_filter_map("no room for data and spare", |(blocks, units, spare)| {
            Geometry::new(blocks, units, spare).ok()
        })
}

/// Checks that every unit that holds data has a place of its own, counted in its superblock.
fn check(drive: &Drive, holds: &HashSet<u32>) {
    let geometry = drive.geometry();
    let (valid, wear) = drive.superblocks();
    let mut seen = HashSet::new();
    let mut counted = vec![0; valid.len()];
    for unit in 0..geometry.logical() {
        let place = drive.place(unit).unwrap();
        assert_eq!(place.is_some(), holds.contains(&unit), "unit {unit}");
        if let Some((superblock, within)) = place {
            assert!(within < geometry.units());
            assert!(seen.insert((superblock, within)));
            counted[superblock as usize] += 1;
        }
    }
    assert_eq!(valid, counted);
    let erased: u64 = wear.iter().map(|erasures| u64::from(*erasures)).sum();
    assert_eq!(erased, drive.counts().erased);
}

proptest! {
    #[test]
    fn every_unit_has_its_place(
        geometry in geometry(),
        settings in settings(),
        asked in prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8), 0..600),
    ) {
        let mut drive = Drive::new(geometry, settings);
        let mut holds = HashSet::new();
        let (mut written, mut trimmed, mut copied) = (0, 0, 0);
        for (index, kind) in asked {
            let unit = index.index(geometry.logical() as usize) as u32;
            if kind == 0 {
                prop_assert_eq!(drive.trim(unit).unwrap(), holds.remove(&unit));
                trimmed = drive.counts().trimmed;
            } else {
                copied += drive.write(unit).unwrap();
                written += 1;
                holds.insert(unit);
            }
        }
        check(&drive, &holds);
        prop_assert_eq!(drive.counts().written, written);
        prop_assert_eq!(drive.counts().copied, copied);
        prop_assert_eq!(drive.counts().trimmed, trimmed);
    }

    #[test]
    fn what_is_beyond_the_end_is_refused(geometry in geometry(), beyond in 0..9_u32) {
        let mut drive = Drive::new(geometry, Settings::default());
        let unit = geometry.logical() + beyond;
        prop_assert!(drive.write(unit).is_err());
        prop_assert!(drive.trim(unit).is_err());
        prop_assert!(drive.place(unit).is_err());
    }

    #[test]
    fn a_workload_keeps_its_part_live(
        geometry in geometry(),
        settings in settings(),
        live in 0.1..1.0_f64,
        seed in any::<u64>(),
    ) {
        let mut drive = Drive::new(geometry, settings);
        let mut host = Workload::new(geometry.logical(), live, None, seed).unwrap();
        host.fill(&mut drive).unwrap();
        host.run(&mut drive, 300).unwrap();
        let (valid, _) = drive.superblocks();
        let held: u32 = valid.iter().sum();
        prop_assert!((f64::from(held) - live * f64::from(geometry.logical())).abs() <= 1.0);
    }
}

#[test]
fn the_same_seed_gives_the_same_drive() {
    let geometry = Geometry::new(64, 32, 0.1).unwrap();
    let run = |seed| {
        let settings = Settings { policy: Policy::CostBenefit, separate: true, seed: 7 };
        let mut drive = Drive::new(geometry, settings);
        let mut host = Workload::new(geometry.logical(), 1.0, None, seed).unwrap();
        host.fill(&mut drive).unwrap();
        host.run(&mut drive, 50_000).unwrap();
        (drive.counts(), drive.superblocks().0.to_vec())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn erased_superblocks_wear_alike() {
    let geometry = Geometry::new(64, 32, 0.2).unwrap();
    let mut drive = Drive::new(geometry, Settings::default());
    let mut host = Workload::new(geometry.logical(), 1.0, None, 3).unwrap();
    host.fill(&mut drive).unwrap();
    host.run(&mut drive, 400_000).unwrap();
    let (_, wear) = drive.superblocks();
    let mean = drive.counts().erased as f64 / wear.len() as f64;
    assert!(wear.iter().all(|erasures| f64::from(*erasures) < 1.5 * mean));
}

#[test]
fn impossible_drives_are_refused_with_the_key() {
    for (blocks, units, spare, key) in [
        (1, 8, 0.1, "superblocks"),
        (8, 0, 0.1, "pages-per-block"),
        (8, 8, 0.0, "spare"),
        (8, 8, 1.0, "spare"),
        (8, 8, f64::NAN, "spare"),
        (8, 8, 0.01, "spare"),
        (1 << 30, 1 << 20, 0.1, "superblocks"),
        (u32::MAX, 1, 0.1, "superblocks"),
        (8, u32::MAX, 0.1, "pages-per-block"),
    ] {
        let refused = Geometry::new(blocks, units, spare).unwrap_err().to_string();
        assert!(refused.contains(key), "{refused}");
    }
}

#[test]
fn a_workload_is_for_drives_of_its_size() {
    let mut drive = Drive::new(Geometry::new(8, 8, 0.2).unwrap(), Settings::default());
    let mut host = Workload::new(1000, 1.0, None, 1).unwrap();
    assert!(host.fill(&mut drive).is_err());
    assert!(host.run(&mut drive, 1).is_err());
}
