//! The columns of an index: what they hold, how they are written, where they are in a file.
//!
//! [`COLUMNS`] is the one place where a column is declared. The Parquet schema, the writer, the reader
//! of rows and the list that Python has follow from it.

use std::fmt::Write;
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

use crate::entry::{Entry, Layout};
use crate::error::{Error, Result};

/// Mark of a shard written by this crate: name and version of the schema.
const VERSION: (&str, &str) = ("trimtab.index", "1");

/// A column of the index, in the order of the shards.
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

/// Type of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bytes.
    Bytes,
    /// UTF-8.
    Text,
    /// 16 bytes.
    Identity,
    /// A number of 32 bits without a sign.
    Small,
    /// A number of 64 bits without a sign; above `i64::MAX` it is stored as the same bits.
    Unsigned,
    /// A number of 64 bits with a sign.
    Signed,
    /// The same: nanoseconds since 1970.
    Time,
    /// A list of numbers of 32 bits without a sign.
    Smalls,
}

impl Kind {
    fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Text | Self::Identity)
    }
}

/// A number of an [`Entry`]; without a sign it is the same bits.
pub(crate) struct Number {
    pub(crate) get: fn(&Entry) -> Option<i64>,
    pub(crate) set: fn(&mut Entry, i64),
}

/// Bytes of an [`Entry`] that many rows share.
pub(crate) struct Shared {
    pub(crate) get: fn(&Entry) -> Option<&Arc<[u8]>>,
    pub(crate) set: fn(&mut Entry, Arc<[u8]>),
}

/// How values come out of an entry and back into it.
pub(crate) enum Access {
    Number(Number),
    Shared(Shared),
    /// The writer and the reader know this column by its name.
    Own,
}

/// Whether a row may be without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// No row may be.
    Required,
    /// No row of a shard written by this crate is; in files of other tools this value replaces a
    /// null.
    StandIn(i64),
    /// Any row may be.
    Nullable,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    Plain,
    Dictionary,
    Differences,
}

/// Declaration of a column.
pub struct Column {
    pub(crate) id: Name,
    /// Its name in the file.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    pub(crate) presence: Presence,
    pub(crate) access: Access,
    /// Whether a file without it can still be read: it was not asked for, or can be worked out.
    may_lack: bool,
    packing: Packing,
    statistics: bool,
    compressed: bool,
}

const fn column(id: Name, name: &'static str, kind: Kind) -> Column {
    Column {
        id,
        name,
        kind,
        presence: Presence::Required,
        access: Access::Own,
        may_lack: false,
        packing: Packing::Plain,
        statistics: false,
        compressed: true,
    }
}

impl Column {
    /// Whether a row may have no value.
    pub fn is_nullable(&self) -> bool {
        self.presence == Presence::Nullable
    }

    /// Where an entry has it.
    const fn of(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    const fn nullable(mut self) -> Self {
        self.presence = Presence::Nullable;
        self
    }

    const fn stand_in(mut self, number: i64) -> Self {
        self.presence = Presence::StandIn(number);
        self
    }

    const fn may_lack(mut self) -> Self {
        self.may_lack = true;
        self
    }

    /// Packs by a dictionary, for values that repeat: parents, owners.
    const fn dictionary(mut self) -> Self {
        self.packing = Packing::Dictionary;
        self
    }

    /// Packs differences, for whole numbers that grow or are near one another.
    const fn differences(mut self) -> Self {
        self.packing = Packing::Differences;
        self
    }

    /// Comparing every value costs a scan a tenth of its writing: only for columns that queries
    /// filter by.
    const fn statistics(mut self) -> Self {
        self.statistics = true;
        self
    }

    /// Columns that a tally reads are packed already: a codec would cost more time than the disk
    /// saves.
    const fn uncompressed(mut self) -> Self {
        self.compressed = false;
        self
    }

    /// Its line in the schema.
    fn declare(&self, message: &mut String) {
        let presence = if self.is_nullable() { "optional" } else { "required" };
        let name = self.name;
        let line = match self.kind {
            Kind::Bytes => format!("binary {name};"),
            Kind::Text => format!("binary {name} (STRING);"),
            Kind::Identity => format!("fixed_len_byte_array(16) {name};"),
            Kind::Small => format!("int32 {name} (INTEGER(32, false));"),
            Kind::Unsigned => format!("int64 {name} (INTEGER(64, false));"),
            Kind::Signed | Kind::Time => format!("int64 {name};"),
            Kind::Smalls => format!(
                "group {name} (LIST) {{ repeated group list {{ \
                 required int32 element (INTEGER(32, false)); }} }}"
            ),
        };
        // Writing to a string cannot fail.
        let _ = write!(message, "{presence} {line} ");
    }
}

fn layout(entry: &mut Entry) -> &mut Layout {
    entry.layout.get_or_insert_default()
}

/// A number that every entry has.
macro_rules! number {
    ($($field:ident).+ as $kind:ty) => {
        Access::Number(Number {
            get: |entry| Some(entry.$($field).+ as i64),
            set: |entry, number| entry.$($field).+ = number as $kind,
        })
    };
}

/// A number that an entry may lack.
macro_rules! optional_number {
    ($($field:ident).+ as $kind:ty) => {
        Access::Number(Number {
            get: |entry| entry.$($field).+.map(|number| number as i64),
            set: |entry, number| entry.$($field).+ = Some(number as $kind),
        })
    };
}

/// The stripes that a layout asks for.
const STRIPE_COUNT: Access = Access::Number(Number {
    get: |entry| entry.layout.as_ref().map(|layout| layout.stripe_count.into()),
    set: |entry, number| layout(entry).stripe_count = number as u32,
});

/// The pool that a layout names.
const POOL: Access = Access::Shared(Shared {
    get: |entry| entry.layout.as_ref()?.pool.as_ref(),
    set: |entry, pool| layout(entry).pool = Some(pool),
});

/// The columns, in the order of the shards. How each is packed was measured: `benchmarks/README.md`.
#[rustfmt::skip]
pub static COLUMNS: [Column; 20] = [
    column(Name::Parent, "parent", Kind::Bytes).dictionary(),
    column(Name::Last, "name", Kind::Bytes),
    column(Name::Id, "id", Kind::Identity),
    column(Name::IdKind, "id_kind", Kind::Text).dictionary(),
    column(Name::Device, "device", Kind::Unsigned).of(number!(device as u64)).stand_in(0).dictionary(),
    column(Name::Uid, "uid", Kind::Small).of(number!(uid as u32)).dictionary().statistics(),
    column(Name::Gid, "gid", Kind::Small).of(number!(gid as u32)).dictionary(),
    column(Name::Project, "project", Kind::Small).of(optional_number!(project as u32))
        .nullable().may_lack().dictionary(),
    column(Name::Size, "size_bytes", Kind::Unsigned).of(number!(size_bytes as u64))
        .differences().statistics(),
    column(Name::Allocated, "allocated_bytes", Kind::Unsigned).of(number!(allocated_bytes as u64))
        .differences().uncompressed(),
    column(Name::Links, "nlink", Kind::Small).of(number!(links as u32)).stand_in(1).dictionary(),
    column(Name::Access, "atime_ns", Kind::Time).of(optional_number!(times.access_ns as i64))
        .nullable().differences(),
    column(Name::Modification, "mtime_ns", Kind::Time)
        .of(optional_number!(times.modification_ns as i64)).nullable().differences(),
    column(Name::Change, "ctime_ns", Kind::Time).of(optional_number!(times.change_ns as i64))
        .nullable().differences(),
    column(Name::Birth, "btime_ns", Kind::Time).of(optional_number!(times.birth_ns as i64))
        .nullable().differences(),
    column(Name::Type, "type", Kind::Text).dictionary(),
    column(Name::StripeCount, "stripe_count", Kind::Small).of(STRIPE_COUNT)
        .nullable().may_lack().dictionary(),
    column(Name::Osts, "osts", Kind::Smalls).nullable().may_lack(),
    column(Name::Pool, "pool", Kind::Bytes).of(POOL).nullable().may_lack().dictionary(),
    column(Name::LastUse, "last_use_s", Kind::Signed)
        .nullable().may_lack().differences().statistics().uncompressed(),
];

impl Name {
    pub(crate) fn column(self) -> &'static Column {
        &COLUMNS[self as usize]
    }

    /// Its name in the file.
    pub(crate) fn text(self) -> &'static str {
        self.column().name
    }
}

pub(crate) fn message() -> TypePtr {
    let mut text = "message index { ".to_owned();
    COLUMNS.iter().for_each(|column| column.declare(&mut text));
    text.push('}');
    Arc::new(parse_message_type(&text).expect("the columns above are well formed"))
}

/// How a shard is written: a fast codec over the packing of each column. Version 1 of the pages keeps
/// the encodings that every reader knows.
pub(crate) fn properties() -> WriterPropertiesPtr {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::LZ4_RAW)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(format!("trimtab {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(VERSION.0.into(), VERSION.1.to_owned())]));
    for column in &COLUMNS {
        let path = || ColumnPath::from(column.name);
        properties = match column.packing {
            Packing::Plain => properties,
            Packing::Dictionary => properties.set_column_dictionary_enabled(path(), true),
            Packing::Differences => {
                properties.set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED)
            }
        };
        if column.statistics {
            properties = properties.set_column_statistics_enabled(path(), EnabledStatistics::Chunk);
        }
        if !column.compressed {
            properties = properties.set_column_compression(path(), Compression::UNCOMPRESSED);
        }
    }
    Arc::new(properties.build())
}

/// Location of a column in a file, and the type of its values.
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
    /// The definition level of a value that is not null.
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
        if name.column().may_lack {
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

/// The reason why a column cannot be read as declared; `None` if it can.
fn misfit(column: &ColumnDescriptor, name: Name) -> Option<String> {
    let physical = column.physical_type();
    let bytes = name.column().kind.is_bytes();
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
        return Some(format!("holds {physical}, which is the wrong type"));
    }
    let (depth, parts) =
        (i16::from(name.column().kind == Kind::Smalls), column.path().parts().len());
    if column.max_rep_level() != depth || (depth == 0 && parts != 1) {
        return Some("is nested differently than in an index".into());
    }
    unit(column, name)
}

/// The problem with the declared unit of a column of whole numbers; `None` if it is valid.
fn unit(column: &ColumnDescriptor, name: Name) -> Option<String> {
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(time))
            if name.column().kind == Kind::Time && time.unit == TimeUnit::NANOS =>
        {
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
                    Some(format!("holds {}, which is the wrong type", column.converted_type()))
                }
                _ => None,
            }
        }
        Some(other) => Some(format!("holds {other:?}, which is the wrong type")),
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
        for (place, column) in COLUMNS.iter().enumerate() {
            assert_eq!(column.id as usize, place, "{}", column.name);
        }
        let schema = SchemaDescriptor::new(message());
        let at = |name| locate(&schema, name, Path::new("x")).unwrap().unwrap();
        assert_eq!(at(Name::Parent).leaf, 0);
        assert_eq!((at(Name::Id).length, at(Name::Uid).signed), (16, false));
        assert_eq!((at(Name::Access).definition, at(Name::Access).signed), (1, true));
        assert_eq!((at(Name::Osts).definition, at(Name::Osts).repetition), (2, 1));
        assert_eq!((at(Name::Pool).leaf, at(Name::Pool).definition), (18, 1));
        assert_eq!(at(Name::LastUse).leaf, COLUMNS.len() - 1);
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
