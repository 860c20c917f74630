//! Columns in Arrow's memory layout, for a consumer that takes them over without copying.

/// Bytes of many rows: of each a view, short ones in it, longer ones in one block behind it.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// Length, then up to 12 bytes; or the first four, the block (0) and the place in it.
    pub views: Vec<u128>,
    /// Bytes that views point to.
    pub block: Vec<u8>,
}

const WITHIN: usize = 12;

impl Views {
    /// Returns a view of bytes, which are kept.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> u128 {
        let mut view = [0_u8; 16];
        view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= WITHIN {
            view[4..4 + bytes.len()].copy_from_slice(bytes);
        } else {
            view[4..8].copy_from_slice(&bytes[..4]);
            view[12..].copy_from_slice(&(self.block.len() as u32).to_le_bytes());
            self.block.extend_from_slice(bytes);
        }
        u128::from_le_bytes(view)
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let view = self.keep(bytes);
        self.views.push(view);
    }
}

/// Values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Numbers of 32 bits without a sign.
    Small(Vec<u32>),
    /// Numbers of 64 bits without a sign.
    Unsigned(Vec<u64>),
    /// Numbers of 64 bits with a sign.
    Signed(Vec<i64>),
    /// Any bytes.
    Bytes(Views),
    /// UTF-8.
    Text(Views),
    /// Lists of numbers of 32 bits: where each ends (the first begins at 0), and all numbers.
    Lists(Vec<i64>, Vec<u32>),
}

/// A column of rows.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in the index.
    pub name: String,
    /// Values by row; arbitrary for a null.
    pub values: Values,
    /// Whether each row has a value; empty: all have.
    pub known: Vec<bool>,
}

impl Column {
    /// Returns a column whose rows all have a value.
    #[must_use]
    pub fn new(name: &str, values: Values) -> Self {
        Self { name: name.to_owned(), values, known: Vec::new() }
    }

    /// Returns whether 32-bit offsets of views reach all of their block.
    #[must_use]
    pub fn is_within_reach(&self) -> bool {
        match &self.values {
            Values::Bytes(views) | Values::Text(views) => u32::try_from(views.block.len()).is_ok(),
            _ => true,
        }
    }

    /// Forgets all rows but the first.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.known.truncate(rows);
        match &mut self.values {
            Values::Small(values) => values.truncate(rows),
            Values::Unsigned(values) => values.truncate(rows),
            Values::Signed(values) => values.truncate(rows),
            Values::Bytes(views) | Values::Text(views) => views.views.truncate(rows),
            Values::Lists(ends, values) => {
                ends.truncate(rows + 1);
                values.truncate(ends[rows] as usize);
            }
        }
    }

    /// Makes the last row's value a null.
    pub(crate) fn forget_last(&mut self) {
        if let Some(known) = self.known.last_mut() {
            *known = false;
        }
    }
}
