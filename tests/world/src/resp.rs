//! Requests and replies as clients of the world see them.
//!
//! Not the server's codec: a client of its own kind, so that a fault cannot hide on both sides.

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// `+` and `$`.
    Text(String),
    /// `-`.
    Error(String),
    /// `:`.
    Int(i64),
    /// `*` and its kin.
    List(Vec<Value>),
    /// Null.
    Nil,
}

impl Value {
    /// The reply's kind, for coverage: errors by their first words.
    pub fn kind(&self) -> String {
        match self {
            Value::Text(_) => "text".to_owned(),
            Value::Int(_) => "integer".to_owned(),
            Value::List(_) => "list".to_owned(),
            Value::Nil => "nil".to_owned(),
            Value::Error(text) if text.starts_with("MOVED") => "MOVED".to_owned(),
            Value::Error(text) => text.chars().take(48).filter(|c| !c.is_numeric()).collect(),
        }
    }
}

/// A request of these words.
pub fn encode(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// The first reply in `bytes` and what follows it; `None` if it is not whole.
pub fn decode(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let head = std::str::from_utf8(bytes.get(1..end)?).ok()?;
    let mut rest = bytes.get(end + 2..)?;
    let value = match bytes[0] {
        b'+' => Value::Text(head.to_owned()),
        b'-' => Value::Error(head.to_owned()),
        b':' => Value::Int(head.parse().ok()?),
        b'$' => match usize::try_from(head.parse::<i64>().ok()?) {
            Err(_) => Value::Nil,
            Ok(length) => {
                let text = String::from_utf8_lossy(rest.get(..length)?).into_owned();
                rest = rest.get(length + 2..)?;
                Value::Text(text)
            }
        },
        b'*' => match usize::try_from(head.parse::<i64>().ok()?) {
            Err(_) => Value::Nil,
            Ok(length) => {
                let mut list = Vec::new();
                for _ in 0..length {
                    let (value, behind) = decode(rest)?;
                    list.push(value);
                    rest = behind;
                }
                Value::List(list)
            }
        },
        _ => return None,
    };
    Some((value, rest))
}

/// The reply that `bytes` are.
pub fn only(bytes: &[u8]) -> Option<Value> {
    decode(bytes).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_or_not_at_all() {
        let bytes = b"*3\r\n:1\r\n$2\r\nab\r\n*1\r\n$-1\r\n";
        let list = vec![Value::Int(1), Value::Text("ab".to_owned()), Value::List(vec![Value::Nil])];
        assert_eq!(only(bytes), Some(Value::List(list)));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        assert_eq!(only(b"-MOVED 1 a:2\r\n"), Some(Value::Error("MOVED 1 a:2".to_owned())));
    }
}
