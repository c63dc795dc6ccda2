//! The floor of the bench: a RESP server that parses requests and stores nothing.
//!
//! `resp-echo PORT`: GET answers a 64-byte bulk string, PING `+PONG`, CONFIG an error, all else
//! `+OK`. What a server costs below this line is the kernel and tokio, not the server.
//! Invariant: one read, one write per batch, as the server under test does it.

use slot_tests::flags::Flags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The longest unfinished request kept; the bench sends at most 64 of some 120 bytes at once.
const MAX_PENDING_BYTES: usize = 1 << 20;
const GET_REPLY: &[u8] =
    b"$64\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";

fn main() -> std::io::Result<()> {
    let mut flags = Flags::from_env("resp-echo PORT");
    let port = flags.word("PORT");
    let Ok(port) = port.parse::<u16>() else { flags.refuse("PORT is not a port") };
    flags.finish();
    // One worker for each core it may use, as tokio counts them (the bench pins it to one).
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            // A connection's error ends that connection only.
            tokio::spawn(async move { serve(stream).await.ok() });
        }
    })
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(16 * 1024);
    let mut output = Vec::with_capacity(16 * 1024);
    while stream.read_buf(&mut input).await? > 0 {
        let mut done = 0;
        while let Some((length, reply)) = answer(&input[done..]) {
            output.extend_from_slice(reply);
            done += length;
        }
        input.drain(..done);
        if input.len() > MAX_PENDING_BYTES {
            break;
        }
        if !output.is_empty() {
            stream.write_all(&output).await?;
            output.clear();
        }
    }
    Ok(())
}

/// The length of the first whole request and what it gets; `None` if more bytes are needed.
fn answer(buf: &[u8]) -> Option<(usize, &'static [u8])> {
    if *buf.first()? != b'*' {
        let end = buf.iter().position(|&byte| byte == b'\n')? + 1;
        return Some((end, reply_to(buf[..end].split(|byte| *byte <= b' ').next()?)));
    }
    let (count, mut at) = number_at(buf, 1)?;
    let mut name: &[u8] = b"";
    for index in 0..count {
        let (length, start) = number_at(buf, at + 1)?;
        at = start.checked_add(length)?.checked_add(2)?;
        if at > buf.len() {
            return None;
        }
        if index == 0 {
            name = &buf[start..start + length];
        }
    }
    Some((at, reply_to(name)))
}

fn reply_to(name: &[u8]) -> &'static [u8] {
    match name {
        b"GET" | b"get" => GET_REPLY,
        b"PING" | b"ping" => b"+PONG\r\n",
        b"CONFIG" | b"config" => b"-ERR nothing is stored here\r\n",
        _ => b"+OK\r\n",
    }
}

fn number_at(buf: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut number = 0usize;
    loop {
        match *buf.get(at)? {
            b'\r' => return buf.get(at + 1).map(|_| (number, at + 2)),
            digit => {
                number = number.wrapping_mul(10).wrapping_add(usize::from(digit & 15));
                at += 1;
            }
        }
    }
}
