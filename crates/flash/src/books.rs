//! Bytes held by many users, booked for many epochs in one pass.

/// Writes of all users in one epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Bytes of all users; each user's plan is multiplied by it.
    pub total: f64,
    /// Part of the total that is booked under each lifetime.
    pub shares: Vec<f64>,
    /// Part of the total that was written.
    pub part: f64,
}

/// Users who are booked together: their numbers stay near while all entries are passed.
const BLOCK: usize = 512;

/// Adds entries to what users hold (lifetime after lifetime, a number for each user) and to what they
/// wrote. Each sum is made in the order of the entries, as if they were booked one by one: the result
/// is the same to the last bit. Entries with another number of lifetimes than `held` has are cut to
/// the shorter.
pub fn book(held: &mut [f64], written: &mut [f64], plan: &[f64], entries: &[Entry]) {
    let users = written.len().min(plan.len());
    let mut by_user = [0.0; BLOCK];
    for first in (0..users).step_by(BLOCK) {
        let block = first..users.min(first + BLOCK);
        for entry in entries {
            let by_user = &mut by_user[..block.len()];
            let planned = plan[block.clone()].iter();
            by_user.iter_mut().zip(planned).for_each(|(bytes, share)| {
                *bytes = share * entry.total;
            });
            for (row, share) in held.chunks_exact_mut(users).zip(&entry.shares) {
                add(&mut row[block.clone()], by_user, *share);
            }
            add(&mut written[block.clone()], by_user, entry.part);
        }
    }
}

fn add(sums: &mut [f64], values: &[f64], factor: f64) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Entry, book};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn at_once_is_as_one_by_one(
            users in prop_oneof![1..9_usize, BLOCK - 1..BLOCK + 2, 3 * BLOCK..3 * BLOCK + 5],
            lives in 1..5_usize,
            parts in prop::collection::vec(0.0..1.0, 64),
            totals in prop::collection::vec(0.0..1e15, 1..6),
        ) {
            let part = |number: usize| parts[number % parts.len()];
            let plan: Vec<f64> = (0..users).map(|user| part(user * 7)).collect();
            let entries: Vec<_> = totals.iter().enumerate().map(|(epoch, total)| Entry {
                total: *total,
                shares: (0..lives).map(|life| part(epoch + life)).collect(),
                part: part(epoch),
            }).collect();
            let (mut held, mut written) = (vec![0.1; users * lives], plan.clone());
            let (mut slow_held, mut slow_written) = (held.clone(), written.clone());
            book(&mut held, &mut written, &plan, &entries);
            for entry in &entries {
                for user in 0..users {
                    let bytes = plan[user] * entry.total;
                    for life in 0..lives {
                        slow_held[life * users + user] += entry.shares[life] * bytes;
                    }
                    slow_written[user] += bytes * entry.part;
                }
            }
            prop_assert_eq!(held, slow_held);
            prop_assert_eq!(written, slow_written);
        }
    }
}
