//! What a node keeps on disk: about itself (and what a start may conclude from it), the log of its
//! keys, their checkpoints. Pure: files are read and written by `io`.

pub mod checkpoint;
pub mod evidence;
pub mod identity;
pub mod log;
pub mod recovery;
