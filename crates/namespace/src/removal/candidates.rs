//! The rows of a plan, read back from its Parquet file a stretch at a time.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::entry::{Entry, FileType, ObjectId, Times};
use crate::error::{Error, Result};

/// One file of the plan, as it was when its metadata were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its directory, relative to the root; rows of one directory mostly share the bytes.
    pub(super) parent: Arc<[u8]>,
    /// Its name there.
    pub(super) name: Vec<u8>,
    /// What it was.
    pub(super) entry: Entry,
}

/// The file of candidates of a plan.
pub(super) struct Candidates {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// The first row of each row group, and the number of all rows at the end.
    starts: Vec<u64>,
    /// The row group that was read last: batches come in order, so the next one is mostly in it.
    held: Option<(usize, Vec<Candidate>)>,
}

impl Candidates {
    /// Opens the file and reads where its row groups begin.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::system("open", path, error))?;
        let reader = SerializedFileReader::new(file).map_err(|source| unreadable(path, source))?;
        let mut starts = vec![0];
        for group in reader.metadata().row_groups() {
            let rows = u64::try_from(group.num_rows())
                .map_err(|_| Error::data(path, "has a row group of less than no rows"))?;
            starts.push(starts[starts.len() - 1] + rows);
        }
        Ok(Self { path: path.to_path_buf(), reader, starts, held: None })
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// The rows of a stretch.
    pub(super) fn read(&mut self, wanted: Range<u64>) -> Result<Vec<Candidate>> {
        if wanted.end > self.rows() || wanted.start > wanted.end {
            return Err(Error::Usage(format!(
                "rows {} to {} were asked for, of {}",
                wanted.start,
                wanted.end,
                self.rows()
            )));
        }
        let mut rows = Vec::with_capacity((wanted.end - wanted.start) as usize);
        for group in 0..self.starts.len() - 1 {
            let (start, end) = (self.starts[group], self.starts[group + 1]);
            let (from, to) = (wanted.start.max(start), wanted.end.min(end));
            if from < to {
                let held = self.group(group)?;
                rows.extend_from_slice(&held[(from - start) as usize..(to - start) as usize]);
            }
        }
        Ok(rows)
    }

    fn group(&mut self, number: usize) -> Result<&[Candidate]> {
        if self.held.as_ref().is_none_or(|(held, _)| *held != number) {
            self.held = None;
            let group = self
                .reader
                .get_row_group(number)
                .map_err(|source| unreadable(&self.path, source))?;
            self.held = Some((number, Columns { path: &self.path, group: &*group }.rows()?));
        }
        Ok(self.held.as_ref().map_or(&[], |(_, rows)| rows))
    }
}

/// The columns of one row group.
struct Columns<'a> {
    path: &'a Path,
    group: &'a dyn RowGroupReader,
}

impl Columns<'_> {
    fn rows(&self) -> Result<Vec<Candidate>> {
        let parents = self.shared(self.binary("parent")?);
        let mut names = self.binary("name")?.into_iter();
        let mut identities = self.binary("id")?.into_iter().zip(self.binary("id_kind")?);
        let kinds = self.binary("type")?;
        let device = self.required("device")?;
        let (uid, gid) = (self.required("uid")?, self.required("gid")?);
        let project = self.optional("project")?;
        let (size, allocated) = (self.required("size_bytes")?, self.required("allocated_bytes")?);
        let links = self.required("nlink")?;
        let [access, modification, change, birth] =
            ["atime_ns", "mtime_ns", "ctime_ns", "btime_ns"].map(|name| self.optional(name));
        let (access, modification, change, birth) = (access?, modification?, change?, birth?);
        let mut rows = Vec::with_capacity(parents.len());
        for (row, parent) in parents.into_iter().enumerate() {
            let (id, kind) = identities.next().ok_or_else(|| self.problem("id", "ends early"))?;
            let name = names.next().ok_or_else(|| self.problem("name", "ends early"))?;
            let entry = Entry {
                id: self.identity(&id, &kind)?,
                device: device[row] as u64,
                // Kept as the same 32 bits, whatever the sign of the physical type.
                uid: uid[row] as u32,
                gid: gid[row] as u32,
                project: project[row].map(|project| project as u32),
                size_bytes: size[row] as u64,
                allocated_bytes: allocated[row] as u64,
                links: links[row] as u32,
                times: Times {
                    access_ns: access[row],
                    modification_ns: modification[row],
                    change_ns: change[row],
                    birth_ns: birth[row],
                },
                kind: FileType::of_letter(kinds[row].data().first().copied().unwrap_or(b'?')),
                layout: None,
            };
            rows.push(Candidate { parent, name: name.data().to_vec(), entry });
        }
        Ok(rows)
    }

    fn shared(&self, parents: Vec<ByteArray>) -> Vec<Arc<[u8]>> {
        let mut last: Arc<[u8]> = Arc::from(&b""[..]);
        let share = |parent: ByteArray| {
            if *parent.data() != *last {
                last = Arc::from(parent.data());
            }
            Arc::clone(&last)
        };
        parents.into_iter().map(share).collect()
    }

    fn identity(&self, id: &ByteArray, kind: &ByteArray) -> Result<ObjectId> {
        let bytes: [u8; 16] =
            id.data().try_into().map_err(|_| self.problem("id", "is not of 16 bytes"))?;
        match kind.data() {
            b"inode" => Ok(ObjectId::of_bytes(bytes, false)),
            b"fid" => Ok(ObjectId::of_bytes(bytes, true)),
            _ => Err(self.problem("id_kind", "is neither fid nor inode")),
        }
    }

    fn required(&self, name: &str) -> Result<Vec<i64>> {
        let values = self.optional(name)?;
        let all: Option<Vec<i64>> = values.into_iter().collect();
        all.ok_or_else(|| self.problem(name, "lacks values, without which nothing may be deleted"))
    }

    /// The whole numbers of a column that may be missing, as a whole or here and there.
    fn optional(&self, name: &str) -> Result<Vec<Option<i64>>> {
        let rows = self.count();
        let Some(column) = self.column(name)? else { return Ok(vec![None; rows]) };
        match self.physical(column) {
            Physical::INT32 => {
                let values = self.values::<Int32Type>(name, column)?;
                Ok(values.into_iter().map(|value| value.map(i64::from)).collect())
            }
            Physical::INT64 => self.values::<Int64Type>(name, column),
            other => Err(self.problem(name, &format!("holds {other}"))),
        }
    }

    fn binary(&self, name: &str) -> Result<Vec<ByteArray>> {
        let column = self.column(name)?.ok_or_else(|| self.problem(name, "is not there"))?;
        let values: Option<Vec<ByteArray>> = match self.physical(column) {
            Physical::BYTE_ARRAY => {
                self.values::<ByteArrayType>(name, column)?.into_iter().collect()
            }
            Physical::FIXED_LEN_BYTE_ARRAY => {
                let values = self.values::<FixedLenByteArrayType>(name, column)?;
                let plain = |value: Option<FixedLenByteArray>| value.map(ByteArray::from);
                values.into_iter().map(plain).collect()
            }
            other => return Err(self.problem(name, &format!("holds {other}"))),
        };
        values.ok_or_else(|| self.problem(name, "lacks values, without which nothing may be deleted"))
    }

    fn values<T: DataType>(&self, name: &str, column: usize) -> Result<Vec<Option<T::T>>> {
        let unreadable = |source| unreadable(self.path, source);
        let reader = self.group.get_column_reader(column).map_err(unreadable)?;
        let mut reader = get_typed_column_reader::<T>(reader);
        let rows = self.count();
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let (mut read, mut here) = (0, 0);
        let depth = self.group.metadata().column(column).column_descr().max_def_level();
        while read < rows {
            let room = (depth > 0).then_some(&mut levels);
            let (records, found, _) =
                reader.read_records(rows - read, room, None, &mut values).map_err(unreadable)?;
            if records == 0 {
                return Err(self.problem(name, "ends early"));
            }
            read += records;
            here += found;
        }
        values.truncate(here);
        let mut values = values.into_iter();
        if depth == 0 {
            return Ok(values.map(Some).collect());
        }
        Ok(levels.into_iter().map(|level| if level == depth { values.next() } else { None }).collect())
    }

    fn column(&self, name: &str) -> Result<Option<usize>> {
        let schema = self.group.metadata().schema_descr();
        let named = |leaf: &usize| {
            schema.column(*leaf).path().parts().first().is_some_and(|part| part == name)
        };
        let found = (0..schema.num_columns()).find(named);
        if found.is_some_and(|leaf| schema.column(leaf).path().parts().len() > 1) {
            return Err(self.problem(name, "is nested"));
        }
        Ok(found)
    }

    fn physical(&self, column: usize) -> Physical {
        self.group.metadata().schema_descr().column(column).physical_type()
    }

    fn count(&self) -> usize {
        usize::try_from(self.group.metadata().num_rows()).unwrap_or(0)
    }

    fn problem(&self, column: &str, what: &str) -> Error {
        Error::data(self.path, format!("column {column} {what}"))
    }
}

fn unreadable(path: &Path, source: ParquetError) -> Error {
    Error::Parquet { path: path.to_path_buf(), source }
}
