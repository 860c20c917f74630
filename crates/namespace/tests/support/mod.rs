//! Entries at random, as an index may hold them.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod twin;

use std::sync::Arc;

use namespace::index::Row;
use namespace::rules::{Counted, Exempt, Exemptions};
use namespace::{Entry, FileType, Layout, ObjectId, Rules, Times};
use proptest::prelude::*;

/// The second at which the scans of the tests ended.
pub const AS_OF_S: i64 = 1_000_000;

fn time() -> impl Strategy<Value = Option<i64>> {
    let second = 1_000_000_000i64;
    prop_oneof![
        8 => (0..AS_OF_S).prop_map(move |s| Some(s * second)),
        2 => (AS_OF_S - 200_000..AS_OF_S + 3).prop_map(move |s| Some(s * second + 999_999_999)),
        1 => Just(None),
        1 => (-5..5i64).prop_map(Some),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN + 1), Just(AS_OF_S * second * 3)].prop_map(Some),
    ]
}

fn times() -> impl Strategy<Value = Times> {
    let four = prop::array::uniform4(time());
    four.prop_map(|[access_ns, modification_ns, change_ns, birth_ns]| Times {
        access_ns,
        modification_ns,
        change_ns,
        birth_ns,
    })
}

/// None, one of two that many share, or bytes of any kind but a NUL.
fn pool() -> impl Strategy<Value = Option<Arc<[u8]>>> {
    prop_oneof![
        2 => Just(None),
        2 => prop_oneof![Just("flash"), Just("disk")].prop_map(|name| Some(name.as_bytes().into())),
        1 => prop::collection::vec(1u8..=255, 1..16).prop_map(|name| Some(name.into())),
    ]
}

fn layout() -> impl Strategy<Value = Option<Layout>> {
    let osts = prop::collection::vec(0u32..4, 0..4);
    prop::option::of((0u32..5, osts, pool()).prop_map(|(stripe_count, osts, pool)| Layout {
        stripe_count,
        osts,
        pool,
    }))
}

/// An entry of a small world, in which names collide, owners are few and some files have several names.
pub fn entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        12 => Just(FileType::Regular),
        2 => Just(FileType::Directory),
        1 => Just(FileType::SymbolicLink),
        1 => Just(FileType::Unknown),
    ];
    let id = prop_oneof![
        6 => (0u64..6).prop_map(ObjectId::Inode),
        1 => (0u64..2).prop_map(|sequence| ObjectId::Fid { sequence, object: 1, version: 0 }),
    ];
    let links = prop_oneof![8 => Just(1u32), 3 => Just(2), 1 => Just(3), 1 => Just(0)];
    let sizes = (0u64..9000, prop_oneof![Just(0u64), Just(4096), Just(8192), 0u64..1 << 40]);
    let owners = (0u32..4, 0u32..4, prop::option::of(0u32..4));
    (kind, id, links, sizes, owners, times(), layout(), 0u64..2).prop_map(
        |(kind, id, links, sizes, (uid, gid, project), times, layout, device)| Entry {
            id,
            device,
            uid,
            gid,
            project,
            size_bytes: sizes.0,
            allocated_bytes: sizes.1,
            links,
            times,
            kind,
            layout,
        },
    )
}

/// A path and a name that are well formed, and bytes of any kind.
pub fn place() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let part = prop_oneof![
        "[ab]".prop_map(String::into_bytes),
        prop::collection::vec(1u8..=255, 1..4)
            .prop_map(|part| part.into_iter().map(|b| if b == b'/' { b'_' } else { b }).collect()),
    ]
    .prop_filter("a dot is no name", |part: &Vec<u8>| part != b"." && part != b"..");
    let parent = prop::collection::vec(part.clone(), 0..4).prop_map(|parts| parts.join(&b'/'));
    (parent, part)
}

pub fn row() -> impl Strategy<Value = Row> {
    (place(), entry()).prop_map(|((parent, name), entry)| row_of(&parent, &name, entry))
}

/// A row as a reader of the index returns it.
pub fn row_of(parent: &[u8], name: &[u8], entry: Entry) -> Row {
    let last_use_s = latest(&entry.times);
    Row { parent: parent.to_vec().into(), name: name.to_vec().into(), entry, last_use_s }
}

/// The most recent of the three times in whole seconds, written down once more.
pub fn latest(times: &Times) -> Option<i64> {
    let all = [times.access_ns?, times.modification_ns?, times.change_ns?];
    all.iter().max().map(|last| last.div_euclid(1_000_000_000))
}

/// Rules of all kinds over such a world.
pub fn rules() -> impl Strategy<Value = Rules> {
    let counted = prop_oneof![
        4 => Just(Counted::ALL),
        2 => (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(access, modification, change)| Counted { access, modification, change }),
    ];
    let path = prop_oneof![
        4 => "[ab](/[ab]){0,2}".prop_map(String::into_bytes),
        1 => Just(Vec::new()),
    ];
    let ids = || prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0u32..4, 1..3)];
    let paths = prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(path, 0..3)];
    let times = (AS_OF_S - 300_000..AS_OF_S + 10, prop_oneof![Just(0u64), 0u64..9000]);
    let exempt = (paths, ids(), ids(), ids()).prop_map(|(paths, users, groups, projects)| Exempt {
        paths,
        users,
        groups,
        projects,
    });
    (counted, times, exempt, any::<bool>()).prop_map(|(counted, times, exempt, linked)| Rules {
        counted,
        as_of_s: AS_OF_S,
        old_enough_before_s: times.0,
        minimum_size_bytes: times.1,
        exempt: Exemptions::new(exempt),
        linked,
    })
}
