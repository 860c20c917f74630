//! Shards that other programs wrote: any codec, either version of the pages, plain, dictionary or
//! packed values, every column optional and numbers of either width, as importers write them.

mod support;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use namespace::index::{Row, Shard};
use namespace::rules::{Exempt, Exemptions};
use namespace::tally::{Options, tally};
use namespace::{ObjectId, Rules};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use support::{AS_OF_S, row, twin};

/// Every column optional, in an order of its own, owners as wide numbers with a sign, lists as
/// Polars and Arrow have them, and a column that is never asked for. Pools come last, so that a
/// shard can be without.
const MESSAGE: &str = "message root {
    optional int64 uid;
    optional binary name;
    optional binary parent (STRING);
    optional binary type (STRING);
    optional binary id;
    optional double score;
    optional binary id_kind (STRING);
    optional int64 device (INTEGER(64, false));
    optional int32 gid;
    optional int64 project;
    optional int64 size_bytes;
    optional int64 allocated_bytes (INTEGER(64, false));
    optional int32 nlink (INTEGER(16, false));
    optional int64 atime_ns (TIMESTAMP(NANOS, true));
    optional int64 mtime_ns;
    optional int64 ctime_ns;
    optional int64 btime_ns;
    optional int32 stripe_count (INTEGER(32, false));
    optional group osts (LIST) { repeated group list { optional int64 element; } }
    optional int64 last_use_s;
    optional binary pool;
}";

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn column<T: DataType>(group: &mut Group<'_>, values: impl Iterator<Item = Option<T::T>>) {
    let values: Vec<_> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    leaf::<T>(group, &values, &levels, None);
}

fn leaf<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    definition: &[i16],
    repetition: Option<&[i16]>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, Some(definition), repetition).unwrap();
    column.close().unwrap();
}

fn strings<'a>(group: &mut Group<'_>, values: impl Iterator<Item = &'a [u8]>) {
    column::<ByteArrayType>(group, values.map(|value| Some(value.into())));
}

fn lists(group: &mut Group<'_>, rows: &[Row]) {
    let (mut values, mut present, mut begins) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let osts = row.entry.layout.as_ref().map(|layout| &layout.osts);
        if osts.is_none_or(Vec::is_empty) {
            present.push(i16::from(osts.is_some()));
            begins.push(0);
        }
        for (place, ost) in osts.into_iter().flatten().enumerate() {
            values.push(i64::from(*ost));
            present.push(3);
            begins.push(i16::from(place > 0));
        }
    }
    leaf::<Int64Type>(group, &values, &present, Some(&begins));
}

/// A missing pool is an empty name in every other row, as some tools have it.
fn pools(group: &mut Group<'_>, rows: &[Row]) {
    let pool_of = |(place, row): (usize, &Row)| {
        let pool = row.entry.layout.as_ref().and_then(|layout| layout.pool.as_deref());
        pool.or((place % 2 == 0).then_some(&b""[..])).map(ByteArray::from)
    };
    column::<ByteArrayType>(group, rows.iter().enumerate().map(pool_of));
}

fn write(path: &Path, rows: &[Row], properties: WriterProperties) {
    write_as(MESSAGE, path, rows, properties, |_, uid| uid);
}

/// Writes rows in a schema that ends with the pools, or before them; the owner of each may be another.
fn write_as(
    message: &str,
    path: &Path,
    rows: &[Row],
    properties: WriterProperties,
    uid_of: impl Fn(usize, Option<i64>) -> Option<i64>,
) {
    let schema = Arc::new(parse_message_type(message).unwrap());
    let tells_pools = schema.get_fields().iter().any(|field| field.name() == "pool");
    let file = File::create(path).unwrap();
    let mut output = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for rows in rows.chunks(700) {
        let mut group = output.next_row_group().unwrap();
        let entries = || rows.iter().map(|row| &row.entry);
        let letters: Vec<[u8; 1]> = entries().map(|entry| [entry.kind.letter()]).collect();
        let ids: Vec<[u8; 16]> = entries().map(|entry| entry.id.to_bytes()).collect();
        let kinds = entries().map(|entry| match entry.id {
            ObjectId::Inode(_) => &b"inode"[..],
            ObjectId::Fid { .. } => b"fid",
        });
        let uids = entries().enumerate();
        column::<Int64Type>(
            &mut group,
            uids.map(|(row, entry)| uid_of(row, Some(entry.uid.into()))),
        );
        strings(&mut group, rows.iter().map(|row| &row.name[..]));
        strings(&mut group, rows.iter().map(|row| &row.parent[..]));
        strings(&mut group, letters.iter().map(|letter| &letter[..]));
        strings(&mut group, ids.iter().map(|id| &id[..]));
        column::<DoubleType>(&mut group, rows.iter().map(|_| None));
        strings(&mut group, kinds);
        column::<Int64Type>(&mut group, entries().map(|entry| Some(entry.device as i64)));
        column::<Int32Type>(&mut group, entries().map(|entry| Some(entry.gid as i32)));
        column::<Int64Type>(&mut group, entries().map(|entry| entry.project.map(i64::from)));
        column::<Int64Type>(&mut group, entries().map(|entry| Some(entry.size_bytes as i64)));
        column::<Int64Type>(&mut group, entries().map(|entry| Some(entry.allocated_bytes as i64)));
        column::<Int32Type>(&mut group, entries().map(|entry| Some(entry.links as i32)));
        column::<Int64Type>(&mut group, entries().map(|entry| entry.times.access_ns));
        column::<Int64Type>(&mut group, entries().map(|entry| entry.times.modification_ns));
        column::<Int64Type>(&mut group, entries().map(|entry| entry.times.change_ns));
        column::<Int64Type>(&mut group, entries().map(|entry| entry.times.birth_ns));
        let stripes = |entry: &namespace::Entry| {
            entry.layout.as_ref().map(|layout| layout.stripe_count as i32)
        };
        column::<Int32Type>(&mut group, entries().map(stripes));
        lists(&mut group, rows);
        column::<Int64Type>(&mut group, rows.iter().map(|row| row.last_use_s));
        if tells_pools {
            pools(&mut group, rows);
        }
        group.close().unwrap();
    }
    output.close().unwrap();
}

fn rows(count: usize) -> Vec<Row> {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    (0..count).map(|_| row().new_tree(&mut runner).unwrap().current()).collect()
}

fn rules() -> Rules {
    Rules {
        counted: namespace::rules::Counted::ALL,
        as_of_s: AS_OF_S,
        old_enough_before_s: AS_OF_S - 100,
        minimum_size_bytes: 100,
        exempt: Exemptions::new(Exempt {
            paths: vec![b"a/b".to_vec(), b"b/a".to_vec()],
            users: vec![3],
            groups: vec![2],
            projects: vec![1],
        }),
        linked: true,
    }
}

#[test]
fn a_shard_is_read_however_it_is_packed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("foreign.parquet");
    let rows = rows(1500);
    let options = Options { users: true, projects: true, osts: true };
    let expected = twin::tally(&rows, &rules(), options);
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::try_new(3).unwrap()),
    ];
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for dictionary in [true, false] {
                for page in [64, 100_000] {
                    let properties = WriterProperties::builder()
                        .set_compression(codec)
                        .set_writer_version(version)
                        .set_dictionary_enabled(dictionary)
                        .set_dictionary_page_size_limit(2000)
                        .set_data_page_row_count_limit(page)
                        .set_write_batch_size(page.min(1024));
                    write(&path, &rows, properties.build());
                    let read =
                        Shard::open(&path).unwrap().rows_from(0).unwrap().read(9999).unwrap();
                    let packing = || format!("{codec:?} {version:?} {dictionary} {page}");
                    assert!(read == rows, "{}", packing());
                    let counted = tally(std::slice::from_ref(&path), &rules(), options, 2).unwrap();
                    assert!(twin::told(&counted) == expected, "{}", packing());
                }
            }
        }
    }
}

#[test]
fn a_shard_of_before_pools_were_kept_is_read_without_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("older.parquet");
    let mut rows = rows(900);
    let older = MESSAGE.replace("    optional binary pool;\n", "");
    assert_ne!(older, MESSAGE);
    write_as(&older, &path, &rows, WriterProperties::builder().build(), |_, uid| uid);
    let read = Shard::open(&path).unwrap().rows_from(0).unwrap().read(9999).unwrap();
    assert!(read != rows, "some of them were in pools");
    let layouts = rows.iter_mut().filter_map(|row| row.entry.layout.as_mut());
    layouts.for_each(|layout| layout.pool = None);
    assert!(read == rows);
    let options = Options { users: true, projects: true, osts: true };
    let counted = tally(std::slice::from_ref(&path), &rules(), options, 2).unwrap();
    assert!(twin::told(&counted) == twin::tally(&rows, &rules(), options));
}

#[test]
fn a_packing_that_is_not_read_is_named_and_no_wrong_number_comes_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("foreign.parquet");
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("uid".into(), Encoding::BYTE_STREAM_SPLIT);
    write(&path, &rows(50), properties.build());
    let options = Options { users: true, ..Options::default() };
    let error = tally(std::slice::from_ref(&path), &rules(), options, 1).unwrap_err().to_string();
    assert!(
        error.contains("foreign.parquet: column uid is packed as BYTE_STREAM_SPLIT"),
        "{error}"
    );
}

#[test]
fn a_number_that_cannot_be_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("foreign.parquet");
    let options = Options { users: true, ..Options::default() };
    for dictionary in [true, false] {
        for (uid, expected) in [
            (Some(-1), "foreign.parquet: column uid holds -1"),
            (Some(1 << 32), "column uid holds 4294967296"),
            (None, "column uid has a row without a value"),
        ] {
            let properties = WriterProperties::builder().set_dictionary_enabled(dictionary).build();
            let uid_of = |row, known| if row == 7 { uid } else { known };
            write_as(MESSAGE, &path, &rows(50), properties, uid_of);
            let error = tally(std::slice::from_ref(&path), &rules(), options, 1).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

#[test]
fn a_file_of_something_else_is_named_with_what_it_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.parquet");
    let schema = Arc::new(parse_message_type("message m { optional int64 uid; }").unwrap());
    let file = File::create(&path).unwrap();
    let mut output = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
    let mut group = output.next_row_group().unwrap();
    column::<Int64Type>(&mut group, [Some(5)].into_iter());
    group.close().unwrap();
    output.close().unwrap();
    let error = tally(&[path], &rules(), Options::default(), 1).unwrap_err().to_string();
    assert!(error.contains("other.parquet: has no column"), "{error}");
}
