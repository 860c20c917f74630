//! The columns of an index: how they are written, and where they are found in a file.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, TimeUnit, Type as Physical,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, SchemaDescriptor, TypePtr};

use crate::error::{Error, Result};

/// What a shard that this crate wrote says of itself: name and version of the schema.
const VERSION: (&str, &str) = ("trimtab.index", "1");

const MESSAGE: &str = "
message index {
    required binary parent;
    required binary name;
    required fixed_len_byte_array(16) id;
    required binary id_kind (STRING);
    required int64 device (INTEGER(64, false));
    required int32 uid (INTEGER(32, false));
    required int32 gid (INTEGER(32, false));
    optional int32 project (INTEGER(32, false));
    required int64 size_bytes (INTEGER(64, false));
    required int64 allocated_bytes (INTEGER(64, false));
    required int32 nlink (INTEGER(32, false));
    optional int64 atime_ns;
    optional int64 mtime_ns;
    optional int64 ctime_ns;
    optional int64 btime_ns;
    required binary type (STRING);
    optional int32 stripe_count (INTEGER(32, false));
    optional group osts (LIST) {
        repeated group list {
            required int32 element (INTEGER(32, false));
        }
    }
    optional binary pool;
    optional int64 last_use_s;
}";

/// A column of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Parent,
    /// The last component of the path.
    Last,
    Id,
    IdKind,
    Device,
    Uid,
    Gid,
    Project,
    Size,
    Allocated,
    Links,
    Access,
    Modification,
    Change,
    Birth,
    Type,
    StripeCount,
    Osts,
    Pool,
    LastUse,
}

impl Name {
    /// Its name in the file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Last => "name",
            Self::Id => "id",
            Self::IdKind => "id_kind",
            Self::Device => "device",
            Self::Uid => "uid",
            Self::Gid => "gid",
            Self::Project => "project",
            Self::Size => "size_bytes",
            Self::Allocated => "allocated_bytes",
            Self::Links => "nlink",
            Self::Access => "atime_ns",
            Self::Modification => "mtime_ns",
            Self::Change => "ctime_ns",
            Self::Birth => "btime_ns",
            Self::Type => "type",
            Self::StripeCount => "stripe_count",
            Self::Osts => "osts",
            Self::Pool => "pool",
            Self::LastUse => "last_use_s",
        }
    }

    /// Whether a file without it can still be read: it was not asked for, or can be worked out.
    pub(crate) fn may_lack(self) -> bool {
        matches!(self, Self::Project | Self::StripeCount | Self::Osts | Self::Pool | Self::LastUse)
    }

    fn is_time(self) -> bool {
        matches!(self, Self::Access | Self::Modification | Self::Change | Self::Birth)
    }
}

/// The schema of a shard.
pub(crate) fn message() -> TypePtr {
    Arc::new(parse_message_type(MESSAGE).expect("the schema above is well formed"))
}

/// How a shard is written; the choices were measured, see `benchmarks/README.md`.
///
/// Whole numbers that grow or repeat are packed as differences, names that repeat (parents, owners)
/// go into a dictionary, and a fast codec takes what is left. Version 1 of the pages keeps the
/// encodings that every reader knows.
pub(crate) fn properties() -> WriterPropertiesPtr {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::LZ4_RAW)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(format!("trimtab {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(VERSION.0.into(), VERSION.1.to_owned())]));
    for name in [
        Name::Parent,
        Name::IdKind,
        Name::Device,
        Name::Uid,
        Name::Gid,
        Name::Project,
        Name::Links,
        Name::Type,
        Name::StripeCount,
        Name::Pool,
    ] {
        properties = properties.set_column_dictionary_enabled(path(name), true);
    }
    for name in [
        Name::Size,
        Name::Allocated,
        Name::Access,
        Name::Modification,
        Name::Change,
        Name::Birth,
        Name::LastUse,
    ] {
        properties = properties.set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Comparing every value costs a scan a tenth of its writing: only what a query cuts by.
    for name in [Name::Uid, Name::Size, Name::LastUse] {
        properties = properties.set_column_statistics_enabled(path(name), EnabledStatistics::Chunk);
    }
    // What a tally reads is packed already: a codec would cost it more time than the disk saves.
    for name in [Name::LastUse, Name::Allocated] {
        properties = properties.set_column_compression(path(name), Compression::UNCOMPRESSED);
    }
    Arc::new(properties.build())
}

fn path(name: Name) -> ColumnPath {
    ColumnPath::from(name.text())
}

/// What a column's numbers stand for, which says which of them can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// Any signed number.
    Signed,
    /// A number from 0; above `i64::MAX` it is kept as the same bits.
    Unsigned,
    /// A number that fits into 32 bits without a sign.
    Small,
}

/// Where a column lies in a file and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    /// Its number among the leaves.
    pub(crate) leaf: usize,
    /// How a value is stored.
    pub(crate) physical: Physical,
    /// The length of a value, where all have the same.
    pub(crate) length: usize,
    /// Whether its whole numbers have a sign.
    pub(crate) signed: bool,
    /// Whether a row may have none.
    pub(crate) optional: bool,
    /// The definition level of a value that is there.
    pub(crate) definition: i16,
    /// The repetition level of a value that belongs to the row of the one before.
    pub(crate) repetition: i16,
}

/// Finds a column; `None` where the file lacks one that it may lack.
pub(crate) fn locate(
    schema: &SchemaDescriptor,
    name: Name,
    file: &Path,
) -> Result<Option<Location>> {
    let of_name = |leaf: &usize| {
        schema.column(*leaf).path().parts().first().map(String::as_str) == Some(name.text())
    };
    let mut leaves = (0..schema.num_columns()).filter(of_name);
    let (first, second) = (leaves.next(), leaves.next());
    if second.is_some() {
        return Err(Error::data(file, format!("has several columns called {}", name.text())));
    }
    let Some(leaf) = first else {
        if name.may_lack() {
            return Ok(None);
        }
        return Err(Error::data(file, format!("has no column {}", name.text())));
    };
    let column = schema.column(leaf);
    if let Some(problem) = misfit(&column, name) {
        return Err(Error::data(file, format!("column {} {problem}", name.text())));
    }
    Ok(Some(Location {
        leaf,
        physical: column.physical_type(),
        length: usize::try_from(column.type_length()).unwrap_or(0),
        signed: is_signed(&column),
        optional: schema.get_column_root(leaf).is_optional(),
        definition: column.max_def_level(),
        repetition: column.max_rep_level(),
    }))
}

/// What keeps a column from being read as what it should be.
fn misfit(column: &ColumnDescriptor, name: Name) -> Option<String> {
    let physical = column.physical_type();
    let bytes = matches!(
        name,
        Name::Parent | Name::Last | Name::Id | Name::IdKind | Name::Type | Name::Pool
    );
    let fits = match physical {
        Physical::INT32 | Physical::INT64 => !bytes,
        Physical::BYTE_ARRAY => bytes,
        Physical::FIXED_LEN_BYTE_ARRAY => {
            (name == Name::Id && column.type_length() == 16)
                || (name == Name::Type && column.type_length() == 1)
        }
        _ => false,
    };
    if !fits {
        return Some(format!("holds {physical}, which it cannot"));
    }
    let (depth, parts) = (i16::from(name == Name::Osts), column.path().parts().len());
    if column.max_rep_level() != depth || (depth == 0 && parts != 1) {
        return Some("is nested otherwise than an index has it".into());
    }
    unit(column, name)
}

/// What is wrong with the unit that a column of whole numbers says it has.
fn unit(column: &ColumnDescriptor, name: Name) -> Option<String> {
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(time)) if name.is_time() && time.unit == TimeUnit::NANOS => {
            None
        }
        Some(LogicalType::Integer(_) | LogicalType::String) | None => {
            match column.converted_type() {
                ConvertedType::TIMESTAMP_MILLIS
                | ConvertedType::TIMESTAMP_MICROS
                | ConvertedType::TIME_MILLIS
                | ConvertedType::TIME_MICROS
                | ConvertedType::DATE
                | ConvertedType::DECIMAL => {
                    Some(format!("holds {}, which it cannot", column.converted_type()))
                }
                _ => None,
            }
        }
        Some(other) => Some(format!("holds {other:?}, which it cannot")),
    }
}

fn is_signed(column: &ColumnDescriptor) -> bool {
    if let Some(LogicalType::Integer(integer)) = column.logical_type_ref() {
        return integer.is_signed;
    }
    !matches!(
        column.converted_type(),
        ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_where_the_schema_has_it() {
        let schema = SchemaDescriptor::new(message());
        let at = |name| locate(&schema, name, Path::new("x")).unwrap().unwrap();
        assert_eq!(at(Name::Parent).leaf, 0);
        assert_eq!((at(Name::Id).length, at(Name::Uid).signed), (16, false));
        assert_eq!((at(Name::Access).definition, at(Name::Access).signed), (1, true));
        assert_eq!((at(Name::Osts).definition, at(Name::Osts).repetition), (2, 1));
        assert_eq!((at(Name::Pool).leaf, at(Name::Pool).definition), (18, 1));
        assert_eq!(at(Name::LastUse).leaf, 19);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let problem = |text: &str, name: Name| {
            let schema = SchemaDescriptor::new(Arc::new(parse_message_type(text).unwrap()));
            locate(&schema, name, Path::new("f")).unwrap_err().to_string()
        };
        let text =
            "message m { required int64 atime_ns (TIMESTAMP(MICROS, true)); required double uid; }";
        assert!(
            problem(text, Name::Access).contains("atime_ns"),
            "{}",
            problem(text, Name::Access)
        );
        assert!(problem(text, Name::Uid).contains("DOUBLE"));
        assert_eq!(problem(text, Name::Gid), "f: has no column gid");
        let nested = "message m { required group uid { required int32 x; } }";
        assert!(problem(nested, Name::Uid).contains("nested"));
    }

    #[test]
    fn a_column_may_be_lacking_only_where_it_can_be_done_without() {
        let schema = parse_message_type("message m { required int32 uid; }").unwrap();
        let schema = SchemaDescriptor::new(Arc::new(schema));
        for name in [Name::Project, Name::StripeCount, Name::Osts, Name::Pool, Name::LastUse] {
            assert!(locate(&schema, name, Path::new("f")).unwrap().is_none(), "{name:?}");
        }
        assert!(locate(&schema, Name::Uid, Path::new("f")).unwrap().unwrap().signed);
    }
}
