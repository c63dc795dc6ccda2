//! What a node keeps on disk about itself, and what a start may conclude from it. Pure: files are
//! read and written by `io/data_dir`.

pub mod evidence;
pub mod identity;
pub mod log;
