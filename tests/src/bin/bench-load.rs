//! The loader of the bench: fills a server with distinct keys, or holds idle connections open.
//!
//! `bench-load fill HOST:PORT --keys N --size BYTES`: SETs `key:000000000000` and on, pipelined.
//! `bench-load idle HOST:PORT --conns N`: opens N connections, one PING each, prints `ready`, holds
//! them until its input ends, then PINGs each again. `bench-load steady HOST:PORT --rate N`: SETs
//! at one rate until its input ends, prints the waiting times from the moment each was due.
//! Invariant: every reply is compared; the first wrong one ends the program with code 1.

use slot_tests::dice::Dice;
use slot_tests::figures::Waits;
use slot_tests::flags::Flags;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const USAGE: &str = "bench-load fill HOST:PORT [--keys N] [--size BYTES] [--conns N] [--depth N]
       bench-load idle HOST:PORT [--conns N]
       bench-load steady HOST:PORT [--keys N] [--rate PER_SECOND] [--conns N] [--size BYTES]";
const DEADLINE: Duration = Duration::from_secs(30);
const OK: &[u8] = b"+OK\r\n";
const PONG: &[u8] = b"+PONG\r\n";

fn main() -> io::Result<()> {
    let mut flags = Flags::from_env(USAGE);
    let mode = flags.word("fill, idle or steady");
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
        "steady" => {
            let steady = Steady {
                address,
                keys: flags.value("--keys", 2_000_000u64).max(1),
                value: "x".repeat(flags.value("--size", 64usize)),
                conns: flags.value("--conns", 16u64).max(1),
                rate: flags.value("--rate", 20_000u64).max(1),
            };
            flags.finish();
            steady.run()?;
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

/// A load of one rate, whatever the server does: who is late was waiting all the while.
struct Steady {
    address: SocketAddr,
    keys: u64,
    value: String,
    conns: u64,
    rate: u64,
}

impl Steady {
    fn run(&self) -> io::Result<()> {
        let stop = &AtomicBool::new(false);
        let streams =
            (0..self.conns).map(|_| connect(self.address)).collect::<io::Result<Vec<_>>>()?;
        println!("ready");
        io::stdout().flush()?;
        let start = Instant::now();
        let waits = std::thread::scope(|threads| {
            let mut writers = Vec::new();
            for (number, stream) in streams.into_iter().enumerate() {
                writers.push(threads.spawn(move || self.write(stream, number as u64, start, stop)));
            }
            io::stdin().read_to_end(&mut Vec::new())?;
            stop.store(true, SeqCst);
            let mut all = Waits::default();
            for writer in writers {
                all.absorb(writer.join().map_err(|_| io::Error::other("a writer panicked"))??);
            }
            io::Result::Ok(all)
        })?;
        let (mut waits, took) = (waits, start.elapsed());
        let us = |wait: Duration| wait.as_nanos() as f64 / 1000.0;
        let rate = waits.len() as f64 / took.as_secs_f64();
        println!(
            "rate={rate:.0} p50={:.1} p99={:.1} p999={:.1} max={:.1}",
            us(waits.percentile(0.5)),
            us(waits.percentile(0.99)),
            us(waits.percentile(0.999)),
            us(waits.longest()),
        );
        Ok(())
    }

    fn write(
        &self,
        mut stream: TcpStream,
        number: u64,
        start: Instant,
        stop: &AtomicBool,
    ) -> io::Result<Waits> {
        let (mut waits, mut dice) = (Waits::default(), Dice::new(number));
        let mut request = Vec::new();
        for turn in 0.. {
            let due =
                Duration::from_nanos((turn * self.conns + number) * 1_000_000_000 / self.rate);
            if let Some(early) = due.checked_sub(start.elapsed()) {
                std::thread::sleep(early);
            }
            if stop.load(SeqCst) {
                break;
            }
            let (key, size, value) = (dice.below(self.keys), self.value.len(), &self.value);
            request.clear();
            write!(request, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${size}\r\n{value}\r\n")?;
            stream.write_all(&request)?;
            expect(&mut stream, &mut [0; OK.len()], OK)?;
            waits.add(start.elapsed() - due);
        }
        Ok(waits)
    }
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
