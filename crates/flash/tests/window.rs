//! Whatever a group is and does, its operations end once, and its figures follow from its terms alone.

use flash::raid::{Ceilings, Kind, Piece, Raid};
use flash::window::{Class, Collection, Load, Terms, Throttling, run};
use proptest::prelude::*;

const CHUNK: u64 = 128 << 10;

fn e1000() -> Raid {
    Raid { kind: Kind::GridRaid, drives: 12, data: 8, parity: 2, chunk_bytes: CHUNK }
}

fn terms() -> Terms {
    Terms {
        raid: e1000(),
        drive: Ceilings {
            write_bytes_per_s: 3.2e9,
            read_bytes_per_s: 3.5e9,
            write_iops: 135e3,
            read_iops: 800e3,
        },
        amplification: 1.0,
        collection: Collection::default(),
        write_latency_s: 25e-6,
        read_latency_s: 100e-6,
        throttling: None,
        queue_depth: 1023,
        submitters: 8,
        serial_s: 0.0,
        load: Load {
            transfer_bytes: 8 * CHUNK,
            depth: 256,
            operations_per_s: None,
            read_share: 0.0,
            reads_per_s: 0.0,
            read_bytes: 4096,
        },
        slow_drive: None,
        failed_drives: 0,
        rebuild_share: 0.0,
        warm_s: 0.05,
        duration_s: 0.5,
        seed: 1,
    }
}

fn wbt() -> Option<Throttling> {
    Some(Throttling { target_s: 0.002, class: Class::Plain })
}

fn raids() -> impl Strategy<Value = Raid> {
    let kinds = prop_oneof![Just(Kind::GridRaid), Just(Kind::Draid), Just(Kind::Raid10)];
    (kinds, 1..5_u32, 0..3_u32, 0..4_u32).prop_map(|(kind, data, parity, more)| {
        let (parity, width) =
            if kind == Kind::Raid10 { (0, 2 * data) } else { (parity, data + parity) };
        Raid { kind, drives: width + more, data, parity, chunk_bytes: CHUNK }
    })
}

fn loads() -> impl Strategy<Value = Load> {
    let rate = prop_oneof![Just(None), (100.0..20_000.0_f64).prop_map(Some)];
    let size = prop_oneof![Just(4096), Just(CHUNK), 1..8 * CHUNK];
    (rate, size, 1..100_u32, prop_oneof![Just(0.0), Just(0.2)], 0.0..2_000.0_f64).prop_map(
        |(operations_per_s, transfer_bytes, depth, read_share, reads_per_s)| Load {
            transfer_bytes,
            depth,
            operations_per_s,
            read_share,
            reads_per_s,
            read_bytes: 4096,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_operation_ends_once_and_a_seed_repeats(
        raid in raids(),
        load in loads(),
        amplification in 1.0..3.0_f64,
        throttled in any::<bool>(),
        submitters in 1..6_u32,
        queue_depth in 2..64_u32,
        lost in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut terms = Terms {
            raid, load, amplification, submitters, queue_depth, seed,
            throttling: wbt().filter(|_| throttled),
            failed_drives: u32::from(lost && raid.losses() > 0),
            warm_s: 0.0,
            duration_s: 0.1,
            ..terms()
        };
        terms.collection.superblock_bytes = 3e7;
        let figures = run(&terms).unwrap();
        prop_assert_eq!(figures.started, figures.ended + figures.outstanding);
        prop_assert!(figures.outstanding <= u64::from(load.depth));
        if load.operations_per_s.is_none() {
            prop_assert_eq!(figures.outstanding, u64::from(load.depth));
        }
        // Each that ended was counted by its kind; other reads are counted as well.
        let counted = [figures.writes, figures.reads].iter().flatten().map(|latencies| latencies.count).sum::<u64>();
        prop_assert!(counted >= figures.ended);
        if load.reads_per_s < 1e-9 {
            prop_assert_eq!(counted, figures.ended);
        }
        // Programmed bytes include all that the host wrote: no drive exceeds its share.
        let least = figures.ceiling_bytes_per_s * (1.0 + f64::from(load.depth) * 0.02);
        prop_assert!(figures.write_bytes_per_s <= least || terms.failed_drives > 0);
        prop_assert_eq!(run(&terms).unwrap(), figures);
    }

    #[test]
    fn a_row_keeps_its_data_and_reads_no_more_than_it_must(
        raid in raids(), bytes in 1..8 * CHUNK, first in 0..8_u32, second in 0..8_u32,
    ) {
        let bytes = bytes.min(raid.row_bytes());
        let lost = |member: u32| {
            (raid.losses() > 0 && member == first) || (raid.losses() > 1 && member == second)
        };
        let plan = raid.write(bytes, lost);
        let healthy = raid.write(bytes, |_| false);
        let total = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u64>();
        prop_assert!(plan.reads.iter().chain(&plan.writes).all(|piece| !lost(piece.member)));
        prop_assert!(total(&healthy.writes) >= bytes);
        let dropped: Vec<_> =
            healthy.writes.iter().copied().filter(|piece| !lost(piece.member)).collect();
        prop_assert_eq!(&plan.writes, &dropped);
        prop_assert!(healthy.reads.len() <= raid.data as usize);
        if bytes == raid.row_bytes() || raid.kind != Kind::GridRaid {
            prop_assert!(plan.reads.is_empty());
        }
        let read = raid.read(4096, lost);
        prop_assert!(read.iter().all(|piece| !lost(piece.member)));
        prop_assert_eq!(read.len(), if lost(0) && raid.kind != Kind::Raid10 { raid.data as usize } else { 1 });
    }
}

fn members(pieces: &[Piece]) -> Vec<u32> {
    pieces.iter().map(|piece| piece.member).collect()
}

#[test]
fn small_writes_take_the_shorter_of_two_ways() {
    let raid = e1000();
    let plan = |bytes, lost: &'static [u32]| raid.write(bytes, |member| lost.contains(&member));
    assert_eq!(members(&plan(4096, &[]).reads), [0, 8, 9]);
    assert_eq!(members(&plan(4096, &[]).writes), [0, 8, 9]);
    // From five chunks of eight on it is less to read what stays.
    assert_eq!(members(&plan(2 * CHUNK, &[]).reads), [0, 1, 8, 9]);
    assert_eq!(members(&plan(3 * CHUNK, &[]).reads), [0, 1, 2, 8, 9]);
    assert_eq!(members(&plan(4 * CHUNK, &[]).reads), [4, 5, 6, 7]);
    assert_eq!(members(&plan(7 * CHUNK, &[]).reads), [7]);
    assert!(plan(8 * CHUNK, &[]).reads.is_empty());
    // The chunk itself is lost: its parity is computed from the others.
    assert_eq!(members(&plan(4096, &[0]).reads), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(members(&plan(4096, &[0]).writes), [8, 9]);
    // With another one lost as well, from the remaining data and parity.
    assert_eq!(members(&plan(4096, &[0, 3]).reads), [1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(members(&plan(4096, &[9]).reads), [0, 8]);
}

#[test]
fn without_collection_a_group_reaches_its_ceiling() {
    for (kind, data, parity) in [(Kind::GridRaid, 8, 2), (Kind::Draid, 8, 2), (Kind::Raid10, 6, 0)]
    {
        let mut terms = terms();
        terms.raid = Raid { kind, data, parity, ..terms.raid };
        terms.load.transfer_bytes = terms.raid.row_bytes();
        let figures = run(&terms).unwrap();
        let part = figures.write_bytes_per_s / figures.ceiling_bytes_per_s;
        assert!((part - 1.0).abs() < 0.01, "{kind:?}: {part}");
        assert_eq!(figures.met, Some(0.0));
    }
}

#[test]
fn a_drive_that_never_rests_gives_its_host_its_part_however_it_collects() {
    for (urgency, slice_s) in [(0.0, 0.001), (0.1, 0.0035), (0.5, 0.01), (1.0, 0.0035)] {
        let mut terms = terms();
        terms.raid = Raid { drives: 1, data: 1, parity: 0, ..terms.raid };
        terms.load.transfer_bytes = CHUNK;
        terms.amplification = 1.8;
        terms.collection = Collection { urgency, slice_s, ..terms.collection };
        terms.duration_s = 30.0;
        let figures = run(&terms).unwrap();
        let part = figures.write_bytes_per_s / figures.ceiling_bytes_per_s * 1.8;
        assert!((part - 1.0).abs() < 0.01, "{urgency} {slice_s}: {part}");
    }
}

#[test]
fn drives_that_are_lost_slow_or_rebuilding_cost_what_they_must() {
    let rate = |change: fn(&mut Terms)| {
        let mut terms = terms();
        change(&mut terms);
        run(&terms).unwrap().write_bytes_per_s
    };
    let healthy = rate(|_| ());
    // Every row needs ten drives, a slow one in ten of twelve of them: all wait for it.
    let slow = rate(|terms| terms.slow_drive = Some((3, 0.5)));
    assert!((slow / healthy - 0.5).abs() < 0.01, "{}", slow / healthy);
    let rebuilding = rate(|terms| terms.rebuild_share = 0.3);
    assert!((rebuilding / healthy - 0.7).abs() < 0.01, "{}", rebuilding / healthy);
    // The share of a lost drive is not written; the others are as busy as before.
    let degraded = rate(|terms| terms.failed_drives = 1);
    assert!((degraded / healthy - 1.0).abs() < 0.01, "{}", degraded / healthy);
    // Small writes whose chunk is lost read seven others instead of three pieces, those whose parity is
    // lost read two: 38 reads for twelve rows, of eleven drives, instead of 36 of twelve.
    let small = |failed| {
        let mut terms = terms();
        (terms.load.transfer_bytes, terms.failed_drives) = (4096, failed);
        (terms.drive.read_iops, terms.submitters) = (40e3, 64);
        run(&terms).unwrap().write_bytes_per_s
    };
    let part = small(1) / small(0);
    assert!((part - (36.0 / 12.0) / (38.0 / 11.0)).abs() < 0.02, "{part}");
}

#[test]
fn more_drives_do_not_raise_the_tail() {
    let tail = |drives| {
        let mut terms = terms();
        terms.raid.drives = drives;
        terms.amplification = 1.7;
        terms.load.operations_per_s = Some(8_000.0);
        terms.load.depth = 4096;
        terms.duration_s = 4.0;
        let writes = run(&terms).unwrap().writes.unwrap();
        (writes.mean_s, writes.p999_s)
    };
    let (few, many) = (tail(12), tail(36));
    assert!(many.0 < few.0 && many.1 <= few.1, "{few:?} {many:?}");
}

#[test]
fn one_more_drive_changes_no_draw_of_the_others() {
    use flash::window::{Draws, Stream};
    let first = |number| Draws::new(7, Stream::Collection, number).part();
    let alone: Vec<f64> = (0..3).map(first).collect();
    let among: Vec<f64> = (0..12).map(first).collect();
    assert_eq!(alone, among[..3]);
}

#[test]
fn impossible_windows_are_refused_with_the_key() {
    let message = |change: fn(&mut Terms)| {
        let mut terms = terms();
        change(&mut terms);
        run(&terms).unwrap_err().to_string()
    };
    assert!(message(|terms| terms.raid.drives = 9).starts_with("drives is 9"));
    assert!(message(|terms| terms.amplification = 0.9).starts_with("amplification is 0.9"));
    assert!(message(|terms| terms.load.read_share = f64::NAN).starts_with("read_share is NaN"));
    assert!(message(|terms| terms.failed_drives = 3).starts_with("failed_drives is 3"));
    assert!(message(|terms| terms.slow_drive = Some((12, 0.5))).starts_with("slow_drive is 12"));
    assert!(message(|terms| terms.load.depth = 0).starts_with("depth is 0"));
}
