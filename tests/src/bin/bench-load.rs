//! The loader of the bench: fills a server with distinct keys, or holds idle connections open.
//!
//! `bench-load fill HOST:PORT --keys N --size BYTES`: SETs `key:000000000000` and on, pipelined.
//! `bench-load idle HOST:PORT --conns N`: opens N connections, one PING each, prints `ready`, holds
//! them until its input ends, then PINGs each again. Not a load generator: it measures nothing.
//! Invariant: every reply is compared; the first wrong one ends the program with code 1.

use slot_tests::flags::Flags;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const USAGE: &str = "bench-load fill HOST:PORT [--keys N] [--size BYTES] [--conns N] [--depth N]
       bench-load idle HOST:PORT [--conns N]";
const DEADLINE: Duration = Duration::from_secs(30);
const OK: &[u8] = b"+OK\r\n";
const PONG: &[u8] = b"+PONG\r\n";

fn main() -> io::Result<()> {
    let mut flags = Flags::from_env(USAGE);
    let mode = flags.word("fill or idle");
    let address = flags.word("HOST:PORT");
    let Ok(address) = address.parse::<SocketAddr>() else { flags.refuse("HOST:PORT is not one") };
    match mode.as_str() {
        "fill" => {
            let keys = flags.value("--keys", 2_000_000u64);
            let size = flags.value("--size", 64usize);
            let conns = flags.value("--conns", 4u64).max(1);
            let depth = flags.value("--depth", 128u64).max(1);
            flags.finish();
            fill(address, keys, size, conns, depth)?;
            println!("filled {keys} keys of {size} bytes");
        }
        "idle" => {
            let conns = flags.value("--conns", 5_000usize);
            flags.finish();
            hold_idle(address, conns)?;
        }
        other => flags.refuse(format_args!("unknown mode `{other}`")),
    }
    Ok(())
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    Ok(stream)
}

fn fill(address: SocketAddr, keys: u64, size: usize, conns: u64, depth: u64) -> io::Result<()> {
    let fillers: Vec<_> = (0..conns)
        .map(|number| {
            let part = keys * number / conns..keys * (number + 1) / conns;
            std::thread::spawn(move || fill_part(address, part, size, depth))
        })
        .collect();
    for filler in fillers {
        filler.join().map_err(|_| io::Error::other("a filler panicked"))??;
    }
    Ok(())
}

fn fill_part(
    address: SocketAddr,
    part: std::ops::Range<u64>,
    size: usize,
    depth: u64,
) -> io::Result<()> {
    let mut stream = connect(address)?;
    let value = "x".repeat(size);
    let wanted = OK.repeat(usize::try_from(depth).map_err(io::Error::other)?);
    let mut replies = wanted.clone();
    let mut batch = Vec::new();
    let mut next = part.start;
    while next < part.end {
        let end = part.end.min(next + depth);
        batch.clear();
        for key in next..end {
            write!(batch, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${size}\r\n{value}\r\n")?;
        }
        stream.write_all(&batch)?;
        let bytes = OK.len() * (end - next) as usize;
        expect(&mut stream, &mut replies[..bytes], &wanted[..bytes])?;
        next = end;
    }
    Ok(())
}

fn hold_idle(address: SocketAddr, conns: usize) -> io::Result<()> {
    let mut streams = Vec::with_capacity(conns);
    for number in 0..conns {
        let mut stream = connect(address)
            .map_err(|error| io::Error::other(format!("connection {number}: {error}")))?;
        ping(&mut stream)?;
        streams.push(stream);
    }
    println!("ready {conns}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    for stream in &mut streams {
        ping(stream)?;
    }
    println!("alive {conns}");
    Ok(())
}

fn ping(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    expect(stream, &mut [0; PONG.len()], PONG)
}

/// Reads as many bytes as are wanted. On a difference also says what stood there.
fn expect(stream: &mut TcpStream, buf: &mut [u8], wanted: &[u8]) -> io::Result<()> {
    let mut got = 0;
    while got < buf.len() {
        let more = stream.read(&mut buf[got..])?;
        if more == 0 || buf[got..got + more] != wanted[got..got + more] {
            let text = String::from_utf8_lossy(&buf[..got + more]);
            let tail: String = text.chars().rev().take(200).collect();
            let tail: String = tail.chars().rev().collect();
            return Err(io::Error::other(format!("unexpected reply: ...{tail:?}")));
        }
        got += more;
    }
    Ok(())
}
