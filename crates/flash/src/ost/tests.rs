//! Nothing is lost between files, allocator and drive; and neighbours are written as one by one.

use super::{GROUP_SHIFT, GROUP_UNITS, Ost, Settings, Step};
use crate::{Drive, Geometry, Policy, Settings as Drives};
use proptest::prelude::*;

impl Ost {
    /// Holds what files have against allocator and drive.
    fn audit(&mut self) {
        self.settle();
        let mut owned = vec![false; self.units() as usize];
        let open = self.writers.iter().filter_map(|writer| writer.open);
        let mut own = |first: u32, len: u32| {
            for unit in first..first + len {
                assert!(!owned[unit as usize], "unit {unit} is of two files");
                owned[unit as usize] = true;
                let (group, start) = (unit >> GROUP_SHIFT, unit & (GROUP_UNITS - 1));
                assert!(self.allocator.is_taken(group, start), "unit {unit} is not taken");
                let place = self.drive.place(unit).expect("it exists");
                assert!(place.is_some(), "the drive lost unit {unit}");
            }
        };
        for file in self.files.closed_files().chain(open.map(|(file, _)| file)) {
            for (first, len) in self.files.stretches(file) {
                own(first, len);
            }
        }
        let used = owned.iter().filter(|owned| **owned).count() as u64;
        assert_eq!(used, u64::from(self.used_units()));
        assert_eq!(used + self.allocator.free_units(), u64::from(self.units()));
        let (valid, wear) = self.drive.superblocks();
        let mapped = (0..self.units()).filter(|unit| self.drive.place(*unit) != Ok(None)).count();
        assert_eq!(valid.iter().map(|units| *units as usize).sum::<usize>(), mapped);
        assert_eq!(u64::from(wear.iter().sum::<u32>()), self.drive.counts().erased);
    }
}

/// Operation on an OST.
#[derive(Debug, Clone)]
enum Deed {
    Step(Step),
    Trim,
    Reset,
    Discard(bool),
}

fn deeds() -> impl Strategy<Value = Deed> {
    let part = prop_oneof![Just(0.0), 0.0..0.002, 0.0..0.3];
    let step = (part.clone(), part.clone(), part.clone(), part, 0_u32..9, 0.0..3.0).prop_map(
        |(written, deleted, purged, burst, burst_files, resets)| {
            Deed::Step(Step { written, deleted, purged, burst, burst_files, resets })
        },
    );
    prop_oneof![
        6 => step,
        1 => Just(Deed::Trim),
        1 => Just(Deed::Reset),
        1 => any::<bool>().prop_map(Deed::Discard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost(
        groups in 1_u32..5,
        discard: bool,
        separate: bool,
        median in prop_oneof![Just(1.0), Just(5.0), Just(80.0)],
        full in 0.0..1.0,
        seed: u64,
        done in prop::collection::vec(deeds(), 1..20),
    ) {
        let settings = Settings {
            groups, discard, separate, size_median_units: median, ..Settings::default()
        };
        let mut ost = Ost::new(&settings, seed).expect("there is such an OST");
        ost.fill(full, 0.3);
        ost.audit();
        for deed in done {
            match deed {
                Deed::Step(step) => ost.advance(&step),
                Deed::Reset => ost.reset(),
                Deed::Discard(discard) => ost.set_discard(discard),
                Deed::Trim => {
                    ost.trim();
                    let live = ost.drive.superblocks().0.iter().sum::<u32>();
                    prop_assert_eq!(live, ost.used_units());
                }
            }
            ost.audit();
        }
    }

    #[test]
    fn neighbours_are_written_as_one_by_one(
        separate: bool,
        policy in prop_oneof![Just(Policy::Greedy), Just(Policy::Fifo), Just(Policy::CostBenefit)],
        done in prop::collection::vec((0_u32..360, 1_u32..40, 0_u32..5), 1..400),
    ) {
        let geometry = Geometry::new(28, 16, 0.15).expect("there is such a drive");
        let drive = || Drive::new(geometry, Drives { policy, separate, seed: 3 });
        let (mut at_once, mut each) = (drive(), drive());
        for (first, units, kind) in done {
            let units = units.min(geometry.logical() - first);
            if kind == 0 {
                at_once.give_back(first, units);
            } else {
                at_once.put_all(first, units);
            }
            for unit in first..first + units {
                if kind == 0 {
                    each.trim(unit).expect("it exists");
                } else {
                    each.put(unit);
                }
            }
            prop_assert_eq!(at_once.counts(), each.counts());
            prop_assert_eq!(at_once.superblocks(), each.superblocks());
        }
        for unit in 0..geometry.logical() {
            prop_assert_eq!(at_once.place(unit), each.place(unit));
        }
    }
}
