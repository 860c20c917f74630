//! Lustre's attributes of a file: its identifier and the layout of its data. Pure parsers.
//!
//! The layouts are those of `lustre/include/uapi/linux/lustre/lustre_user.h`: `lustre_mdt_attrs`,
//! `lov_user_md_v1`, `lov_user_md_v3`, `lov_comp_md_v1`. All are little-endian as a client hands
//! them out on the machines that Lustre runs on.

use std::sync::Arc;

use crate::entry::{Layout, ObjectId};

const MAGIC_V1: u32 = 0x0BD1_0BD0;
const MAGIC_V3: u32 = 0x0BD3_0BD0;
const MAGIC_SPECIFIC: u32 = 0x0BD5_0BD0;
const MAGIC_COMPOSITE: u32 = 0x0BD6_0BD0;
const MAGIC_FOREIGN: u32 = 0x0BD7_0BD0;
const MAGIC_SELF_EXTENDING: u32 = 0x0BD8_0BD0;

/// Striped over OSTs; the others keep data on the MDT, or elsewhere, or nowhere.
const PATTERN_RAID0: u32 = 0x001;
/// Flags that qualify a pattern.
const PATTERN_FLAGS: u32 = 0xffff_0000;
/// The data were moved to an archive: no objects are left.
const PATTERN_RELEASED: u32 = 0x8000_0000;

const DIRECTORY_MAGIC: u32 = 0x0CD2_0CD0;
const DIRECTORY_HEADER_BYTES: usize = 56;
const FID_BYTES: usize = 16;

const LINK_MAGIC: u32 = 0x11EA_F1DF;
const LINK_HEADER_BYTES: usize = 24;

const PLAIN_HEADER_BYTES: usize = 32;
const POOL_NAME_BYTES: usize = 16;
const OBJECT_BYTES: usize = 24;
const COMPOSITE_HEADER_BYTES: usize = 32;
const COMPONENT_BYTES: usize = 48;
/// The component has objects.
const COMPONENT_INSTANTIATED: u32 = 0x10;

/// The identifier in `trusted.lma`; `None` where the bytes are something else.
pub fn identity_of_lma(bytes: &[u8]) -> Option<ObjectId> {
    identity(bytes.get(8..24)?)
}

/// The identifier that the ioctl `LL_IOC_PATH2FID` leaves: `lu_fid`.
pub fn identity(fid: &[u8]) -> Option<ObjectId> {
    let sequence = u64::from_le_bytes(fid.get(..8)?.try_into().ok()?);
    let (object, version) = (u32_at(fid, 8)?, u32_at(fid, 12)?);
    (sequence != 0).then_some(ObjectId::Fid { sequence, object, version })
}

/// Names of a file in `trusted.link`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The FID of the directory, as the index keeps one, and the name there.
    pub names: Vec<([u8; 16], Vec<u8>)>,
    /// Whether the attribute once had no room for a name.
    pub overflowed: bool,
}

/// The names in `trusted.link`; `None` where the bytes are something else.
///
/// `link_ea_header` and `link_ea_entry` of `lustre_idl.h`: the header as the machine lays it out, the
/// entries packed and big-endian.
pub fn links(bytes: &[u8]) -> Option<Links> {
    if u32_at(bytes, 0)? != LINK_MAGIC || bytes.len() as u64 != u64_at(bytes, 8)? {
        return None;
    }
    let (count, overflowed) = (u32_at(bytes, 4)?, u32_at(bytes, 16)? != 0);
    let mut rest = bytes.get(LINK_HEADER_BYTES..)?;
    let mut names = Vec::new();
    for _ in 0..count {
        let length = u16::from_be_bytes(rest.get(..2)?.try_into().ok()?).into();
        let entry = rest.get(..length)?;
        let parent = entry.get(2..18)?.try_into().ok()?;
        let name = entry.get(18..).filter(|name| !name.is_empty())?;
        names.push((parent, name.to_vec()));
        rest = &rest[length..];
    }
    rest.is_empty().then_some(Links { names, overflowed })
}

/// The parts of a striped directory, one per MDT, in its `trusted.lmv`; `None` where the bytes are
/// something else.
///
/// `lmv_mds_md_v1` of `lustre_user.h`: the header, the pool's name, and a FID for each stripe.
pub fn stripes_of(bytes: &[u8]) -> Option<Vec<ObjectId>> {
    if u32_at(bytes, 0)? != DIRECTORY_MAGIC {
        return None;
    }
    let count = u32_at(bytes, 4)? as usize;
    let fids = bytes.get(DIRECTORY_HEADER_BYTES..)?.get(..count.checked_mul(FID_BYTES)?)?;
    // One that the MDT could not read is 0.
    Some(fids.chunks_exact(FID_BYTES).filter_map(identity).collect())
}

/// The layout in `lustre.lov` or `trusted.lov`; `None` where the bytes are something else.
///
/// Of several components, only those with objects count; the stripe count is that of the last of
/// them, as `lfs getstripe -c` prints it. The pool is that of the last of them that names one: a
/// component of data on the MDT names none, but the file still belongs to a pool.
pub fn layout(bytes: &[u8]) -> Option<Layout> {
    match u32_at(bytes, 0)? {
        MAGIC_COMPOSITE | MAGIC_SELF_EXTENDING => composite(bytes),
        MAGIC_FOREIGN => Some(Layout::default()),
        _ => plain(bytes),
    }
}

fn composite(bytes: &[u8]) -> Option<Layout> {
    let count = usize::from(u16_at(bytes, 14)?);
    let mut whole = Layout::default();
    for index in 0..count {
        let start = COMPOSITE_HEADER_BYTES + index * COMPONENT_BYTES;
        let component = bytes.get(start..start + COMPONENT_BYTES)?;
        if u32_at(component, 4)? & COMPONENT_INSTANTIATED == 0 {
            continue;
        }
        let from = u32_at(component, 24)? as usize;
        let length = u32_at(component, 28)? as usize;
        let part = bytes.get(from..from.checked_add(length)?)?;
        if u32_at(part, 0)? == MAGIC_FOREIGN {
            continue;
        }
        let part = plain(part)?;
        whole.stripe_count = part.stripe_count;
        whole.osts.extend(part.osts);
        whole.pool = part.pool.or(whole.pool);
    }
    Some(whole)
}

fn plain(bytes: &[u8]) -> Option<Layout> {
    let (objects_from, pool) = match u32_at(bytes, 0)? {
        MAGIC_V1 => (PLAIN_HEADER_BYTES, None),
        MAGIC_V3 | MAGIC_SPECIFIC => {
            let end = PLAIN_HEADER_BYTES + POOL_NAME_BYTES;
            (end, pool_name(bytes.get(PLAIN_HEADER_BYTES..end)?))
        }
        _ => return None,
    };
    let pattern = u32_at(bytes, 4)?;
    let stripe_count = u16_at(bytes, 28)?;
    let striped = pattern & !PATTERN_FLAGS & PATTERN_RAID0 != 0;
    if !striped || pattern & PATTERN_RELEASED != 0 {
        return Some(Layout { pool, ..Layout::default() });
    }
    let objects = bytes.get(objects_from..)?;
    // A file that nothing was written to since it was made by mknod: a layout without objects.
    if objects.is_empty() {
        return Some(Layout { pool, ..Layout::default() });
    }
    let osts = objects
        .get(..usize::from(stripe_count) * OBJECT_BYTES)?
        .chunks_exact(OBJECT_BYTES)
        .map(|object| u32_at(object, 20))
        .collect::<Option<Vec<_>>>()?;
    Some(Layout { stripe_count: stripe_count.into(), osts, pool })
}

/// The name in a field of `LOV_MAXPOOLNAME` bytes and a NUL; without the NUL it is the whole field.
fn pool_name(field: &[u8]) -> Option<Arc<[u8]>> {
    let name = field.split(|byte| *byte == 0).next()?;
    (!name.is_empty()).then(|| name.into())
}

fn u32_at(bytes: &[u8], from: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(from..from.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], from: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(from..from.checked_add(8)?)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], from: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(from..from.checked_add(2)?)?.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A plain layout, written field by field as the header lays it out, of the pool "flash" where
    /// it has room for one.
    pub(crate) fn plain_bytes(magic: u32, pattern: u32, count: u16, osts: &[u32]) -> Vec<u8> {
        pooled_bytes(magic, pattern, (count, osts), *b"flash\0\0\0\0\0\0\0\0\0\0\0")
    }

    fn pooled_bytes(
        magic: u32,
        pattern: u32,
        (count, osts): (u16, &[u32]),
        pool: [u8; POOL_NAME_BYTES],
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(magic.to_le_bytes());
        bytes.extend(pattern.to_le_bytes());
        bytes.extend([7; 16]); // lmm_oi
        bytes.extend((1u32 << 20).to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(3u16.to_le_bytes()); // lmm_layout_gen
        if magic != MAGIC_V1 {
            bytes.extend(pool);
        }
        for ost in osts {
            bytes.extend([9; 16]); // l_ost_oi
            bytes.extend(0u32.to_le_bytes());
            bytes.extend(ost.to_le_bytes());
        }
        bytes
    }

    /// `trusted.link`, written field by field as the header lays it out.
    pub(crate) fn link_bytes(names: &[(ObjectId, &[u8])], overflowed_s: u32) -> Vec<u8> {
        let mut entries = Vec::new();
        for (parent, name) in names {
            entries.extend((18 + name.len() as u16).to_be_bytes());
            entries.extend(parent.to_bytes());
            entries.extend(*name);
        }
        let mut bytes = Vec::new();
        bytes.extend(LINK_MAGIC.to_le_bytes());
        bytes.extend((names.len() as u32).to_le_bytes());
        bytes.extend((24 + entries.len() as u64).to_le_bytes());
        bytes.extend(overflowed_s.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(entries);
        bytes
    }

    #[test]
    fn names_are_read_and_cut_ones_are_none() {
        let one = ObjectId::Fid { sequence: 0x2_0000_0402, object: 1, version: 0 };
        let whole = link_bytes(&[(one, b"a\n b"), (one, b"\xff")], 0);
        let read = links(&whole).unwrap();
        assert_eq!(read.names[0], (one.to_bytes(), b"a\n b".to_vec()));
        assert_eq!((read.names.len(), read.overflowed), (2, false));
        assert!(links(&link_bytes(&[], 5)).unwrap().overflowed);
        assert_eq!(links(&link_bytes(&[(one, b"")], 0)), None, "a name without a letter");
        for length in 0..whole.len() {
            assert_eq!(links(&whole[..length]), None, "{length}");
        }
    }

    /// `trusted.lmv` of a directory over two MDTs, as a Lustre 2.17.0 hands it out.
    const RECORDED: &str =
        include_str!("../../../tests/fixtures/lustre/2.17.0/fid/stripe_by_fid.out");

    /// `trusted.lmv`, written field by field as the header lays it out.
    pub(crate) fn stripe_bytes(stripes: &[ObjectId]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(DIRECTORY_MAGIC.to_le_bytes());
        bytes.extend((stripes.len() as u32).to_le_bytes());
        bytes.extend([0; DIRECTORY_HEADER_BYTES - 8]);
        for stripe in stripes {
            let ObjectId::Fid { sequence, object, version } = stripe else { panic!("a FID") };
            bytes.extend(sequence.to_le_bytes());
            bytes.extend(object.to_le_bytes());
            bytes.extend(version.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn stripes_are_read_and_cut_ones_are_none() {
        let line = RECORDED.lines().find_map(|line| line.strip_prefix("trusted.lmv "));
        let digits = line.unwrap().trim();
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        let whole: Vec<u8> = (0..digits.len() / 2).map(byte).collect();
        let fid = |sequence, object| ObjectId::Fid { sequence, object, version: 0 };
        let two = [fid(0x2_4000_0400, 0xA), fid(0x2_0000_0401, 7)];
        assert_eq!(stripes_of(&whole).unwrap(), two);
        for length in 0..whole.len() {
            assert_eq!(stripes_of(&whole[..length]), None, "{length}");
        }
        let alone = [&[0xD0, 0x0C, 0xD3, 0x0C][..], &whole[4..]].concat();
        assert_eq!(stripes_of(&alone), None, "a stripe has none");
    }

    const FLASH: Option<&[u8]> = Some(b"flash");

    fn composite_bytes(components: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let table = COMPOSITE_HEADER_BYTES + components.len() * COMPONENT_BYTES;
        let total = table + components.iter().map(|(_, blob)| blob.len()).sum::<usize>();
        let mut bytes = Vec::new();
        bytes.extend(MAGIC_COMPOSITE.to_le_bytes());
        bytes.extend((total as u32).to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(0u16.to_le_bytes());
        bytes.extend((components.len() as u16).to_le_bytes());
        bytes.resize(COMPOSITE_HEADER_BYTES, 0);
        let mut from = table;
        for (index, (flags, blob)) in components.iter().enumerate() {
            let start = bytes.len();
            bytes.extend((index as u32 + 1).to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend([0; 16]); // lcme_extent
            bytes.extend((from as u32).to_le_bytes());
            bytes.extend((blob.len() as u32).to_le_bytes());
            bytes.resize(start + COMPONENT_BYTES, 0);
            from += blob.len();
        }
        components.iter().for_each(|(_, blob)| bytes.extend(blob));
        bytes
    }

    #[test]
    fn an_identifier_is_read() {
        let mut lma = vec![0; 8];
        lma.extend(0x2_0000_0402_u64.to_le_bytes());
        lma.extend(0x158_u32.to_le_bytes());
        lma.extend(0_u32.to_le_bytes());
        let fid = ObjectId::Fid { sequence: 0x2_0000_0402, object: 0x158, version: 0 };
        assert_eq!(identity_of_lma(&lma), Some(fid));
        lma.extend([0; 40]); // what versions before 2.4 had after it
        assert_eq!(identity_of_lma(&lma), Some(fid));
        assert_eq!(identity_of_lma(&lma[..23]), None);
        assert_eq!(identity_of_lma(&[0; 24]), None);
    }

    #[test]
    fn plain_layouts_are_read() {
        for (magic, pool) in [(MAGIC_V1, None), (MAGIC_V3, FLASH), (MAGIC_SPECIFIC, FLASH)] {
            let two = Layout { stripe_count: 2, osts: vec![5, 297], pool: pool.map(Arc::from) };
            assert_eq!(layout(&plain_bytes(magic, PATTERN_RAID0, 2, &[5, 297])), Some(two));
        }
        let overstriped = plain_bytes(MAGIC_V3, PATTERN_RAID0 | 0x200, 3, &[1, 1, 1]);
        assert_eq!(layout(&overstriped).unwrap().osts, [1, 1, 1]);
        let none = Some(Layout::default());
        assert_eq!(layout(&plain_bytes(MAGIC_V1, 0x100, 0, &[])), none, "data on the MDT");
        let released = plain_bytes(MAGIC_V1, PATTERN_RAID0 | PATTERN_RELEASED, 2, &[]);
        assert_eq!(layout(&released), none, "released");
        assert_eq!(layout(&plain_bytes(MAGIC_V1, PATTERN_RAID0, 4, &[])), none, "never written");
    }

    #[test]
    fn of_components_those_with_objects_count() {
        let first = plain_bytes(MAGIC_V1, 0x100, 0, &[]);
        let second = plain_bytes(MAGIC_V3, PATTERN_RAID0, 2, &[4, 6]);
        let third = plain_bytes(MAGIC_V3, PATTERN_RAID0, 8, &[]);
        let init = COMPONENT_INSTANTIATED;
        let bytes = composite_bytes(&[(init, first), (init, second), (0, third)]);
        let pool = FLASH.map(Arc::from);
        assert_eq!(layout(&bytes), Some(Layout { stripe_count: 2, osts: vec![4, 6], pool }));
    }

    fn pool_of(bytes: &[u8]) -> Option<Vec<u8>> {
        layout(bytes).unwrap().pool.map(|name| name.to_vec())
    }

    #[test]
    fn a_pool_is_the_bytes_up_to_the_first_nul() {
        let named = |pool| pool_of(&pooled_bytes(MAGIC_V3, PATTERN_RAID0, (1, &[3]), pool));
        assert_eq!(named([0; 16]), None);
        assert_eq!(named(*b"\0flash\0\0\0\0\0\0\0\0\0\0"), None);
        assert_eq!(named(*b"fifteen_letters\0").unwrap(), b"fifteen_letters");
        assert_eq!(named(*b"sixteen_letters!").unwrap(), b"sixteen_letters!");
        assert_eq!(named(*b"a\n\x1b[2J\xff\0xxxxxxxx").unwrap(), b"a\n\x1b[2J\xff");
    }

    #[test]
    fn a_file_without_objects_has_its_pool_all_the_same() {
        let released = PATTERN_RAID0 | PATTERN_RELEASED;
        for (pattern, count) in [(PATTERN_RAID0, 4), (released, 2), (0x100, 0)] {
            let bytes = plain_bytes(MAGIC_V3, pattern, count, &[]);
            assert_eq!(pool_of(&bytes).unwrap(), b"flash", "{pattern:x}");
        }
        let cut = plain_bytes(MAGIC_V3, 0x100, 0, &[]);
        assert_eq!(layout(&cut[..cut.len() - 1]), None);
    }

    #[test]
    fn of_components_the_last_with_objects_that_names_a_pool_says_which() {
        let in_pool = |name: [u8; 16]| pooled_bytes(MAGIC_V3, PATTERN_RAID0, (1, &[3]), name);
        let flash = in_pool(*b"flash\0\0\0\0\0\0\0\0\0\0\0");
        let disk = in_pool(*b"disk\0\0\0\0\0\0\0\0\0\0\0\0");
        let none = plain_bytes(MAGIC_V1, PATTERN_RAID0, 1, &[3]);
        let init = COMPONENT_INSTANTIATED;
        for (components, expected) in [
            (vec![(init, flash.clone()), (init, disk.clone())], Some("disk")),
            (vec![(init, flash.clone()), (0, disk.clone())], Some("flash")),
            (vec![(init, flash.clone()), (init, none.clone())], Some("flash")),
            (vec![(0, flash), (init, none)], None),
        ] {
            let pool = pool_of(&composite_bytes(&components));
            assert_eq!(pool.as_deref(), expected.map(str::as_bytes));
        }
    }

    #[test]
    fn what_is_cut_off_is_no_layout() {
        let whole = plain_bytes(MAGIC_V1, PATTERN_RAID0, 2, &[5, 6]);
        for length in PLAIN_HEADER_BYTES + 1..whole.len() {
            assert_eq!(layout(&whole[..length]), None, "{length}");
        }
        assert_eq!(layout(&[]), None);
        assert_eq!(layout(b"not a layout at all"), None);
    }

    proptest! {
        #[test]
        fn rubbish_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0usize..6) {
            let magics = [MAGIC_V1, MAGIC_V3, MAGIC_SPECIFIC, MAGIC_COMPOSITE, MAGIC_FOREIGN, 0];
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&magics[magic].to_le_bytes());
            }
            let _ = (layout(&bytes), identity_of_lma(&bytes), identity(&bytes));
            if bytes.len() >= 16 {
                bytes[..4].copy_from_slice(&LINK_MAGIC.to_le_bytes());
                let length = bytes.len() as u64;
                bytes[8..16].copy_from_slice(&length.to_le_bytes());
            }
            let _ = links(&bytes);
        }
    }
}
