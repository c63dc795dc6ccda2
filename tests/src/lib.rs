//! What the tests, probes and benches of slotd share: a RESP client, server processes, figures.
//!
//! Nothing here links the server: it is seen from outside, over sockets and `/proc`.
//! Not here: the tests themselves (`tests/tests`), the programs (`src/bin`), the bench (`bench/`).

pub mod cluster;
pub mod dice;
pub mod durable;
pub mod figures;
pub mod flags;
pub mod fleet;
pub mod history;
pub mod keys;
pub mod lives;
pub mod maps;
pub mod moving;
pub mod pair;
pub mod probe;
pub mod process;
pub mod resp;
pub mod shadow;
