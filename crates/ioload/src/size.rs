//! Sizes as people write them.

/// Bytes of a size such as `4096`, `64KiB`, `1MiB` or `2GB`; the message says what was wrong.
pub fn parse(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size; hint: write 1048576, 1MiB or 1MB"))?;
    let unit = unit_bytes(suffix.trim()).ok_or_else(|| {
        format!(
            "`{text}` has an unknown unit; hint: KiB, MiB, GiB, TiB (1024) or KB, MB, GB, TB (1000)"
        )
    })?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"))
}

/// IOR's single letters are left out: `1m` is 1024^2 there and 1000^2 elsewhere.
fn unit_bytes(suffix: &str) -> Option<u64> {
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    Some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_units() {
        let cases = [
            ("4096", 4096),
            ("64KiB", 65536),
            ("1 MiB", 1 << 20),
            ("2GiB", 2 << 30),
            ("1tib", 1 << 40),
            ("3KB", 3000),
            ("1MB", 1_000_000),
            ("7B", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "MiB", "-1", "1.5MiB", "1m", "1 XiB", "99999999TiB", "1MiB2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
