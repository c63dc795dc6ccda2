//! Patterns of option names for CONFIG GET: `*`, `?`, `[a-z]`, `[^x]`, any case.
//!
//! Not the patterns of keys (`store::glob`): option names are short and few.
//!
//! Invariant: work is bounded by pattern length times name length; no recursion.

/// Whether the pattern covers the whole name.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star: its pattern position and the name position it eats to.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, n));
            p += 1;
        } else if n == name.len() {
            return p == pattern.len();
        } else if let Some(width) = one(&pattern[p..], name[n]) {
            p += width;
            n += 1;
        } else if let Some((after, eaten)) = star {
            (p, n) = (after, eaten + 1);
            star = Some((after, eaten + 1));
        } else {
            return false;
        }
    }
}

/// How many pattern bytes match this one byte, if they do.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    let byte = byte.to_ascii_lowercase();
    match pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let close = pattern.iter().position(|b| *b == b']')?;
            let inside = &pattern[1..close];
            let (negated, inside) = match inside.strip_prefix(b"^") {
                Some(rest) => (true, rest),
                None => (false, inside),
            };
            (class_has(inside, byte) != negated).then_some(close + 1)
        }
        other => (other.to_ascii_lowercase() == byte).then_some(1),
    }
}

fn class_has(mut class: &[u8], byte: u8) -> bool {
    while let Some((&first, rest)) = class.split_first() {
        let (low, high, after) = match rest {
            [b'-', last, after @ ..] => (first.min(*last), first.max(*last), after),
            _ => (first, first, rest),
        };
        if (low.to_ascii_lowercase()..=high.to_ascii_lowercase()).contains(&byte) {
            return true;
        }
        class = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_of_names() {
        for (pattern, name, want) in [
            ("*", "port", true),
            ("maxmemory*", "maxmemory", true),
            ("MAX*y", "maxmemory", true),
            ("*of", "slaveof", true),
            ("*of", "of-slaves", false),
            ("p?rt", "port", true),
            ("p[a-o]rt", "port", true),
            ("p[^a-n]rt", "port", true),
            ("p[^o]rt", "port", false),
            ("p[ort", "port", false),
            ("**a*b*", "xxaxxb", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
