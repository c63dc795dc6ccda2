//! Shows that 10,000 idle and 1,000 busy connections are served without an error, within memory.
//!
//! Starts a slotd (`--slotd PATH`, else the one built beside it), opens the idle connections, then
//! drives the busy ones: each SETs and GETs its own key and checks every reply. Prints what a
//! connection of each kind costs. Exit code 1 when a line does not hold.

use slot_tests::figures::{Waits, descriptor_limit, rss_bytes};
use slot_tests::flags::Flags;
use slot_tests::process::{Node, binary};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const USAGE: &str = "idle-and-busy [--slotd PATH] [--idle N] [--busy N] [--seconds N] \
                     [--max-idle-bytes N] [--max-busy-bytes N]";
const DEADLINE: Duration = Duration::from_secs(10);
const SAMPLE: Duration = Duration::from_millis(100);
/// Descriptors beside the connections: standard streams, the runtime's own, some slack.
const SPARE_DESCRIPTORS: u64 = 100;
const VALUE_BYTES: usize = 64;

struct Wish {
    idle: usize,
    busy: usize,
    seconds: u64,
    max_idle_bytes: f64,
    max_busy_bytes: f64,
}

fn main() -> io::Result<ExitCode> {
    let mut flags = Flags::from_env(USAGE);
    let slotd = flags.maybe::<PathBuf>("--slotd");
    let wish = Wish {
        idle: flags.value("--idle", 10_000),
        busy: flags.value("--busy", 1_000),
        seconds: flags.value("--seconds", 15),
        max_idle_bytes: flags.value("--max-idle-bytes", 2048.0),
        max_busy_bytes: flags.value("--max-busy-bytes", 65_536.0),
    };
    let needed = (wish.idle + wish.busy) as u64 + SPARE_DESCRIPTORS;
    if descriptor_limit()? < needed {
        flags.refuse(format_args!("needs {needed} file descriptors: `ulimit -n {needed}` first"));
    }
    flags.finish();
    let node = Node::start_binary(&slotd.map_or_else(binary, Ok)?, &["--maxclients", "20000"])?;
    node.wait_until_served("idle-and-busy")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let held = runtime.block_on(probe(&node, &wish))?;
    println!("idle-and-busy: {}", if held { "holds" } else { "DOES NOT HOLD" });
    // Returned, not exited with: the node ends with its owner.
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn probe(node: &Node, wish: &Wish) -> io::Result<bool> {
    // The first connections pay for what all share (buffers of the workers, the key table).
    drop(open_idle(node.address(), 50).await?);
    let empty = rss_bytes(node.pid())?;
    let mut idle = open_idle(node.address(), wish.idle).await?;
    let with_idle = rss_bytes(node.pid())?;
    let per_idle = (with_idle as f64 - empty as f64) / wish.idle as f64;
    println!("{} idle connections: {per_idle:.0} bytes each", wish.idle);

    let Busy { mut waits, errors, peak } = drive(node, wish).await?;
    let per_busy = (peak as f64 - with_idle as f64) / wish.busy as f64;
    println!(
        "{} busy connections: {per_busy:.0} bytes each, its key and value included",
        wish.busy
    );
    println!(
        "{} requests, {} errors, {:.0}/s, p50 {:?}, p99 {:?}, longest {:?}",
        waits.len(),
        errors.len(),
        waits.len() as f64 / wish.seconds as f64,
        waits.percentile(0.5),
        waits.percentile(0.99),
        waits.longest()
    );
    errors.iter().take(5).for_each(|error| println!("error: {error}"));
    println!(
        "memory: {} KB empty, {} KB idle, {} KB peak",
        empty >> 10,
        with_idle >> 10,
        peak >> 10
    );

    let mut silent = 0;
    for stream in &mut idle {
        silent += usize::from(!matches!(timeout(DEADLINE, ping(stream)).await, Ok(Ok(()))));
    }
    println!("{silent} of {} idle connections do not answer any more", wish.idle);
    Ok(errors.is_empty()
        && !waits.is_empty()
        && silent == 0
        && per_idle <= wish.max_idle_bytes
        && per_busy <= wish.max_busy_bytes)
}

async fn open_idle(address: SocketAddr, count: usize) -> io::Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = timeout(DEADLINE, TcpStream::connect(address)).await??;
        timeout(DEADLINE, ping(&mut stream)).await??;
        streams.push(stream);
    }
    Ok(streams)
}

async fn ping(stream: &mut TcpStream) -> io::Result<()> {
    exchange(stream, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n").await
}

struct Busy {
    waits: Waits,
    errors: Vec<String>,
    peak: u64,
}

async fn drive(node: &Node, wish: &Wish) -> io::Result<Busy> {
    let until = Instant::now() + Duration::from_secs(wish.seconds);
    let address = node.address();
    let busy: Vec<_> =
        (0..wish.busy).map(|number| tokio::spawn(one_busy(address, number, until))).collect();
    let mut peak = 0;
    while Instant::now() < until {
        peak = peak.max(rss_bytes(node.pid())?);
        tokio::time::sleep(SAMPLE).await;
    }
    let mut waits = Waits::default();
    let mut errors = Vec::new();
    for task in busy {
        let (own, error) = task.await.map_err(io::Error::other)?;
        waits.absorb(own);
        errors.extend(error);
    }
    Ok(Busy { waits, errors, peak })
}

async fn one_busy(address: SocketAddr, number: usize, until: Instant) -> (Waits, Option<String>) {
    let mut waits = Waits::default();
    let work = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut round = 0u64;
        while Instant::now() < until {
            let value = format!("{round:0VALUE_BYTES$}");
            let key = format!("busy:{number:08}");
            let set = format!("*3\r\n$3\r\nSET\r\n$13\r\n{key}\r\n${VALUE_BYTES}\r\n{value}\r\n");
            let get = format!("*2\r\n$3\r\nGET\r\n$13\r\n{key}\r\n");
            let got = format!("${VALUE_BYTES}\r\n{value}\r\n");
            for (request, reply) in [(&set, "+OK\r\n"), (&get, got.as_str())] {
                let start = Instant::now();
                let done = exchange(&mut stream, request.as_bytes(), reply.as_bytes());
                timeout(DEADLINE, done).await??;
                waits.add(start.elapsed());
            }
            round += 1;
        }
        io::Result::Ok(())
    };
    let error = work.await.err().map(|error| format!("connection {number}: {error}"));
    (waits, error)
}

async fn exchange(stream: &mut TcpStream, request: &[u8], wanted: &[u8]) -> io::Result<()> {
    stream.write_all(request).await?;
    let mut got = vec![0; wanted.len()];
    let mut filled = 0;
    // Compared as it comes: an error reply may be shorter than the reply wanted.
    while filled < wanted.len() {
        let more = stream.read(&mut got[filled..]).await?;
        if more == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += more;
        if got[..filled] != wanted[..filled] {
            let text = String::from_utf8_lossy(&got[..filled]).into_owned();
            return Err(io::Error::other(format!("unexpected reply {text:?}")));
        }
    }
    Ok(())
}
