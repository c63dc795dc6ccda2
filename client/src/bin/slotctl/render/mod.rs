//! Text for people: columns that line up, colors where they are wanted, dates.
//!
//! Not what is shown (the files below). Invariant: the same text with and without color.

pub(crate) mod lists;
pub(crate) mod moves;
pub(crate) mod status;

use std::fmt::Write;
use std::time::Duration;

/// Whether to color.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paint {
    /// Text only.
    Plain,
    /// With the escape sequences of terminals.
    Ansi,
}

/// What a text means, for its color.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    /// Nothing special.
    Plain,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Wrong.
    Bad,
    /// A heading.
    Head,
}

impl Paint {
    /// The text in its color.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let code = match (self, tone) {
            (Paint::Plain, _) | (_, Tone::Plain) => return text.to_owned(),
            (_, Tone::Good) => "32",
            (_, Tone::Warn) => "33",
            (_, Tone::Bad) => "31",
            (_, Tone::Head) => "1",
        };
        if text.is_empty() { String::new() } else { format!("\x1b[{code}m{text}\x1b[0m") }
    }
}

/// A cell of a table.
pub(crate) type Cell = (Tone, String);

/// A cell without a color.
pub(crate) fn plain(text: impl Into<String>) -> Cell {
    (Tone::Plain, text.into())
}

/// Rows under headings, columns lined up two blanks apart; the last column has no padding.
pub(crate) fn columns(headings: &[&str], rows: &[Vec<Cell>], paint: Paint) -> String {
    let head: Vec<Cell> =
        headings.iter().map(|heading| (Tone::Head, (*heading).to_owned())).collect();
    let all = std::iter::once(&head).chain(rows);
    let all: Vec<Vec<Cell>> =
        all.map(|row| row.iter().map(|(tone, text)| (*tone, visible(text))).collect()).collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|(_, text)| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    for row in all {
        let mut line = String::new();
        let mut pending = 0;
        for ((tone, cell), width) in row.iter().zip(&widths) {
            // Blanks are written only before something: no line ends with them.
            if !cell.is_empty() {
                let _ = write!(line, "{:pending$}{}", "", paint.tone(*tone, cell));
                pending = 0;
            }
            pending += width + 2 - cell.chars().count();
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The text with nothing in it that a terminal would obey: others chose it.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Names and what they are, lined up, a line each.
pub(crate) fn facts(rows: &[(&str, String)], paint: Paint) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, fact) in rows {
        let blanks = width - name.chars().count() + 2;
        let _ = writeln!(text, "{}{:blanks$}{}", paint.tone(Tone::Head, name), "", visible(fact));
    }
    text
}

/// The first ranges of a set of slots, and how many more there are.
pub(crate) fn short_slots(slots: &str) -> String {
    /// Ranges shown: three tell where in the space a node is.
    const SHOWN_RANGES: usize = 3;
    let pieces: Vec<&str> = slots.split(',').collect();
    if pieces.len() <= SHOWN_RANGES {
        return if slots.is_empty() { "-".into() } else { slots.to_owned() };
    }
    format!("{} +{} more", pieces[..SHOWN_RANGES].join(","), pieces.len() - SHOWN_RANGES)
}

/// A number of the thing, with an s if it is not one.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Bytes, and bytes a second.
pub(crate) fn rate(bytes: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(0.001);
    format!("{}, {}/s", size(bytes), size((bytes as f64 / seconds) as u64))
}

/// Bytes in a unit that people read.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A moment as `2026-11-30 17:59:19` in UTC; `never` for 0.
pub(crate) fn moment(unix_ms: u64) -> String {
    if unix_ms == 0 {
        return "never".into();
    }
    let seconds = unix_ms / 1_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01. Years are counted
/// from March, so that the day that leap years have comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let since_0000_03_01 = days + 719_468;
    let (era, day_of_era) = (since_0000_03_01 / 146_097, since_0000_03_01 % 146_097);
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
pub(crate) mod golden {
    //! Texts as they were recorded.

    /// Compares with `golden/NAME.txt`; `UPDATE_EXPECT=1` rewrites it.
    pub(crate) fn check(name: &str, text: &str) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/slotctl/golden");
        let path = format!("{folder}/{name}.txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, text).expect("a golden text can be written");
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            recorded == text,
            "{name}: if this is right, run with UPDATE_EXPECT=1:\n{text}\nrecorded:\n{recorded}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters_and_end_without_blanks() {
        let rows =
            [vec![plain("é"), plain("1"), plain("")], vec![plain("longer"), plain(""), plain("x")]];
        let text = columns(&["A", "B", "C"], &rows, Paint::Plain);
        assert_eq!(text, "A       B  C\né       1\nlonger     x\n");
    }

    #[test]
    fn color_changes_no_column() {
        let rows = [vec![(Tone::Bad, "no".to_owned()), plain("x")]];
        let colored = columns(&["STATE", "B"], &rows, Paint::Ansi);
        assert!(colored.contains("\x1b[31mno\x1b[0m     x\n"), "{colored:?}");
    }

    #[test]
    fn a_name_chosen_by_others_does_not_command_the_terminal() {
        let text = columns(&["A"], &[vec![plain("x\x1b[2J\ny")]], Paint::Ansi);
        assert!(text.ends_with("\nx?[2J?y\n"), "{text:?}");
        assert_eq!(facts(&[("a", "\r".into())], Paint::Plain), "a  ?\n");
    }

    #[test]
    fn long_sets_of_slots_are_cut_and_say_so() {
        assert_eq!(short_slots(""), "-");
        assert_eq!(short_slots("1,3,5"), "1,3,5");
        assert_eq!(short_slots("1,3,5,7-9,11"), "1,3,5 +2 more");
    }

    #[test]
    fn moments_are_dates() {
        for (seconds, text) in [
            (1, "1970-01-01 00:00:01"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_704_067_199, "2023-12-31 23:59:59"),
            (1_709_164_800, "2024-02-29 00:00:00"),
            (4_102_444_800, "2100-01-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(moment(seconds * 1_000 + 999), text);
        }
        assert_eq!(moment(0), "never");
        assert!(moment(u64::MAX).ends_with(":51"), "{}", moment(u64::MAX));
    }

    #[test]
    fn sizes_are_read_by_people() {
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(5 << 40), "5.0 TiB");
        assert_eq!(rate(4096, Duration::from_secs(2)), "4.0 KiB, 2.0 KiB/s");
    }
}
