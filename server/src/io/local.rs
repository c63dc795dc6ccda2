//! `slotd local`.
use std::process::ExitCode;
/// placeholder until the supervisor lands
pub fn main(_args: &[std::ffi::OsString]) -> ExitCode {
    ExitCode::from(2)
}
