//! Groups and their index against what they are short for: one flag a unit, and plain collections.

use super::groups::Groups;
use super::index::{Arrays, Index, Lists};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const UNITS: u32 = 1024;
const ORDERS: u32 = 3;

/// Returns start and order of the maximal aligned free powers of two, up to a quarter of the group.
fn buddies(taken: &[bool], top: u32) -> Vec<(u32, u32)> {
    let mut maximal = Vec::new();
    let mut at = 0;
    while at < taken.len() {
        let is_free = |order: u32| {
            let size = 1 << order;
            at % size == 0 && at + size <= taken.len() && !taken[at..at + size].contains(&true)
        };
        if let Some(order) = (0..=top).rev().find(|order| is_free(*order)) {
            maximal.push((at as u32, order));
            at += 1 << order;
        } else {
            at += 1;
        }
    }
    maximal
}

proptest! {
    #[test]
    fn a_group_knows_what_its_units_say(stretches in prop::collection::vec((0..UNITS, 1..300_u32), 1..60)) {
        let mut groups = Groups::new(2, UNITS);
        let mut taken = vec![false; UNITS as usize];
        for (start, len) in stretches {
            let end = (start + len).min(UNITS);
            let range = start as usize..end as usize;
            let all = |wanted: bool| taken[range.clone()].iter().all(|is| *is == wanted);
            prop_assert_eq!(groups.is_taken(1, start, end - start), all(true));
            prop_assert_eq!(groups.free_from(1, start) >= end - start, all(false));
            if all(false) {
                groups.take(1, start, end - start);
                taken[range].fill(true);
            } else if all(true) {
                groups.give(1, start, end - start);
                taken[range].fill(false);
            }
            let summary = groups.summary(1);
            let held = buddies(&taken, groups.top());
            prop_assert_eq!(summary.free, taken.iter().filter(|is| !**is).count() as u32);
            prop_assert_eq!(summary.orders, held.iter().fold(0, |mask, (_, order)| mask | 1 << order));
            prop_assert_eq!(summary.runs, taken.chunk_by(|a, b| a == b).filter(|run| !run[0]).count() as u32);
            for order in 0..=groups.top() {
                let smallest = held.iter().filter(|(_, has)| *has >= order).min_by_key(|(at, has)| (*has, *at));
                prop_assert_eq!(groups.smallest_buddy(1, order), smallest.copied());
            }
        }
        prop_assert_eq!(groups.summary(0).free, UNITS, "the group beside it is as it was");
    }

    #[test]
    fn arrays_hold_groups_by_number_and_lists_by_when_they_came(
        count in 1..9000_u32,
        shifts in prop::collection::vec((0..9000_u32, prop::option::of(0..ORDERS)), 1..200),
        from in 0..9000_u32,
    ) {
        let mut lists = Index::Lists(Lists::new(count, ORDERS));
        let mut arrays = Index::Arrays(Arrays::new(count, ORDERS));
        let mut queues = vec![VecDeque::new(); ORDERS as usize];
        let mut sets = vec![BTreeSet::new(); ORDERS as usize];
        let mut orders = vec![None; count as usize];
        for (group, to) in shifts {
            let group = group % count;
            let was = std::mem::replace(&mut orders[group as usize], to);
            lists.shift(group, was, to);
            arrays.shift(group, was, to);
            if was == to {
                continue;
            }
            if let Some(order) = was {
                queues[order as usize].retain(|one| *one != group);
                sets[order as usize].remove(&group);
            }
            if let Some(order) = to {
                queues[order as usize].push_back(group);
                sets[order as usize].insert(group);
            }
        }
        let from = from % count;
        for order in 0..ORDERS {
            let listed = |index: &Index, range: std::ops::Range<u32>| {
                let first = index.first(order, range);
                std::iter::successors(first, |group| index.after(order, *group)).collect::<Vec<_>>()
            };
            prop_assert_eq!(&listed(&lists, 0..count), queues[order as usize].make_contiguous());
            let above: Vec<u32> = sets[order as usize].range(from..).copied().collect();
            prop_assert_eq!(listed(&arrays, from..count), above);
        }
    }
}
