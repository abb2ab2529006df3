//! Names, numbers and ages as text that is safe and short enough for a terminal.

/// Bytes as one line of printable text. Whatever a terminal might obey or hide (control
/// characters, bytes that are not UTF-8, marks that turn the direction of writing) comes out
/// escaped, and so does a backslash, so that two names never look the same.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for each in chunk.valid().chars() {
            match each {
                '"' | '\'' => text.push(each),
                _ => text.extend(each.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// A count in at most five characters: exact up to 99999.
pub fn count(n: u64) -> String {
    match n {
        0..=99_999 => n.to_string(),
        100_000..=999_999 => format!("{}k", n / 1000),
        1_000_000..=99_999_999 => format!("{}.{}M", n / 1_000_000, n / 100_000 % 10),
        100_000_000..=999_999_999 => format!("{}M", n / 1_000_000),
        _ => format!("{}G", n / 1_000_000_000),
    }
}

/// How often each second, in at most six characters up to millions.
pub fn rate(per_second: f64) -> String {
    if per_second < 1000.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

/// A time in at most six characters up to months: the two largest units.
pub fn age(ms: u64) -> String {
    let (s, m, h, d) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match ms {
        0..=999 => format!("{ms}ms"),
        1000..=59_999 => format!("{s}.{}s", ms / 100 % 10),
        60_000..=3_599_999 => format!("{m}m{:02}s", s % 60),
        3_600_000..=86_399_999 => format!("{h}h{:02}m", m % 60),
        _ => format!("{d}d{:02}h", h % 24),
    }
}

/// What may be absent, as text.
pub fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(shown("größe:日本 \"a'b\"".as_bytes()), "größe:日本 \"a'b\"");
        assert_eq!(shown(b"\x1b[2J\r\n\0\x7f"), "\\u{1b}[2J\\r\\n\\0\\u{7f}");
        assert_eq!(shown(b"a\xff\xc3(b"), "a\\xff\\xc3(b");
        assert_eq!(shown("\u{9b}31m\u{202e}\u{200b}\u{feff}".as_bytes()), "\\u{9b}31m\\u{202e}\\u{200b}\\u{feff}");
        assert_eq!(shown(b"\\xff"), "\\\\xff", "is not the same as the byte");
        for byte in 0..=u8::MAX {
            assert!(shown(&[byte]).chars().all(|each| !each.is_control()), "{byte}");
        }
    }

    #[test]
    fn counts_fit() {
        let cases = [
            (0, "0"), (99_999, "99999"), (100_000, "100k"), (999_999, "999k"), (1_000_000, "1.0M"),
            (99_999_999, "99.9M"), (100_000_000, "100M"), (999_999_999, "999M"), (1_000_000_000, "1G"),
        ];
        for (n, text) in cases {
            assert_eq!(count(n), text);
            assert!(text.len() <= 5);
        }
    }

    #[test]
    fn ages_fit() {
        let cases = [
            (0, "0ms"), (999, "999ms"), (1000, "1.0s"), (59_999, "59.9s"), (60_000, "1m00s"), (3_599_999, "59m59s"),
            (3_600_000, "1h00m"), (86_399_999, "23h59m"), (86_400_000, "1d00h"), (99 * 86_400_000, "99d00h"),
        ];
        for (ms, text) in cases {
            assert_eq!(age(ms), text);
            assert!(text.len() <= 6);
        }
    }

    #[test]
    fn rates_fit() {
        assert_eq!([0.0, 0.96, 999.94, 1000.0, 123_456.7].map(rate), ["0.0", "1.0", "999.9", "1000", "123457"]);
    }
}
