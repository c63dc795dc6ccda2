//! The slotd binary: parses the command line, starts the runtime, runs a node or a local cluster.

use std::process::ExitCode;

use slotd::config::{Config, Start};

/// Gives memory back after a shrink, and answers INFO's allocator fields.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Huge pages for the heap, where the machine offers them (`madvise` or `always`). A look-up in
/// a table larger than the TLB's reach costs two page walks, on a virtual machine nested ones:
/// with 2,000,000 keys a GET at depth 64 takes 0.31 us of CPU instead of 0.79, RSS grows by 3 %.
/// `_RJEM_MALLOC_CONF=thp:default` in the environment turns it off.
#[allow(unsafe_code, reason = "jemalloc reads its settings from a symbol of this name")]
// SAFETY: the name is jemalloc's for exactly this purpose, and nothing else defines it.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 31] = b"thp:always,metadata_thp:always\0";

/// Bad options or arguments.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|a| a == "local") {
        return slotd::io::local::main(&args[1..]);
    }
    if args.iter().any(|a| a == "--help" || a == "-h") {
        print!("{}", slotd::config::help());
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|a| a == "--version" || a == "-v") {
        println!("slotd {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let start = match Config::from_args(args.into_iter(), |path| std::fs::read_to_string(path)) {
        Ok(start) => start,
        Err(error) => {
            eprintln!("slotd: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    run(start)
}

fn run(start: Start) -> ExitCode {
    if let Err(error) = slotd::io::log::start(&start.config) {
        eprintln!("slotd: {error}");
        return ExitCode::from(EXIT_USAGE);
    }
    if let Some(file) = &start.kept {
        let file = file.display();
        tracing::info!(%file, "options kept by CONFIG REWRITE are read; flags overrule them");
    }
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
    // Two at least: a slow command must not stall the others (DESIGN 3).
    let threads = if start.threads == 0 { cores } else { start.threads }.max(2);
    start.config.resolve("threads", &threads.to_string());
    slotd::store::table::set_hash_seed(slotd::io::clock::random_u64());
    slotd::io::clock::raise_open_files(start.config.live().maxclients.load() + 100);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("slotd-worker")
        .enable_all()
        .build();
    let result = runtime.and_then(|runtime| runtime.block_on(slotd::node::run(start)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slotd: {error}");
            ExitCode::FAILURE
        }
    }
}
