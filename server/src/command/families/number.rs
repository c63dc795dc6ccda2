//! Counts among the words of a request, with Redis's errors.

use crate::command::CommandError;
use crate::store::number::parse_i64;

/// A count that may be negative; its negation always exists.
pub fn parse_signed_count(text: &[u8]) -> Result<i64, CommandError> {
    let count = parse_i64(text).ok_or(CommandError::NotInteger)?;
    if count == i64::MIN {
        return Err(CommandError::Static(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    Ok(count)
}

/// A count that may not be negative; `error` is the answer for all that is no such count.
pub fn parse_count(text: &[u8], error: &'static str) -> Result<usize, CommandError> {
    let count = parse_i64(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::Static(error))
}
