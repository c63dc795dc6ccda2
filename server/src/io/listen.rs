//! The listening sockets: accepts clients within the limits and starts their tasks.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::command::{ClientShared, NodeState};
use crate::io::{clock, conn};

/// Pause after a failed accept (out of descriptors): the listener must not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Accepts for ever.
pub async fn accept_all(listener: TcpListener, node: Arc<NodeState>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => accept(stream, peer, &node),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn accept(stream: TcpStream, peer: SocketAddr, node: &Arc<NodeState>) {
    if node.clients.len() as u64 >= node.config.live().maxclients.load() {
        return refuse(stream, node, b"-ERR max number of clients reached\r\n");
    }
    if is_protected(node, peer) {
        return refuse(stream, node, PROTECTED.as_bytes());
    }
    let _ = stream.set_nodelay(true);
    set_keepalive(&stream, node.config.live().tcp_keepalive_s.load());
    node.stats.connections.fetch_add(1, Ordering::Relaxed);
    let laddr = stream.local_addr().map_or(String::new(), |a| a.to_string());
    let fd = stream.as_raw_fd();
    let id = node.clients.next_id();
    let now_ns = clock::now().mono_ns;
    let shared = Arc::new(ClientShared::new(id, peer.to_string(), laddr, fd, now_ns));
    node.clients.add(shared.clone());
    tokio::spawn(conn::serve(stream, node.clone(), shared));
}

/// Tells a client why it is not served, and closes.
fn refuse(stream: TcpStream, node: &NodeState, text: &[u8]) {
    node.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
    // Not by `try_write`: it reports WouldBlock until the socket's first readiness event, which
    // may not have come yet. The socket is new, so the text fits its buffer.
    let _ = stream.into_std().and_then(|mut socket| socket.write(text));
}

/// Probes a silent peer every `seconds` (0 = never); three misses end the connection. So a client
/// whose machine vanished does not stay for ever.
#[allow(unsafe_code, reason = "neither std nor tokio sets keepalive")]
fn set_keepalive(stream: &TcpStream, seconds: u64) {
    /// Missed probes before the peer counts as gone, as Redis.
    const PROBES: libc::c_int = 3;
    let Some(seconds) = libc::c_int::try_from(seconds).ok().filter(|s| *s > 0) else { return };
    let set = |level, name, value: libc::c_int| {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        let value = std::ptr::from_ref(&value).cast();
        // SAFETY: the descriptor is the stream's, and value and size are those of a c_int that
        // lives through the call. A refusal leaves the connection without probes, no worse.
        unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, value, size) };
    };
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (seconds / PROBES).max(1));
    set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, PROBES);
}

/// Protected mode: without a password only clients on this machine are served.
fn is_protected(node: &NodeState, peer: SocketAddr) -> bool {
    let live = node.config.live();
    live.protected_mode.load()
        && !live.requirepass.is_set()
        && !peer.ip().to_canonical().is_loopback()
}

const PROTECTED: &str = "-DENIED slotd is in protected mode: no password is set, so only clients \
on this machine are served. Set one with 'requirepass', or start with '--protected-mode no' on a \
network that you trust.\r\n";
