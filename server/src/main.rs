//! The slotd binary.
fn main() {}
