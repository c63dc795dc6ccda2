//! The listening sockets: opens them, accepts clients within the limits, starts their tasks.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::command::{ClientShared, NodeState};
use crate::io::{clock, conn};

/// Pause after a failed accept (out of descriptors): the listener must not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Listens on every address; one with `-` before it may be missing. `*` is every IPv4 address.
pub fn bind_all(
    hosts: &[String],
    port: u16,
    backlog: u32,
) -> io::Result<Vec<(SocketAddr, TcpListener)>> {
    let mut listeners = Vec::new();
    for bind in hosts {
        let (host, optional) = match bind.strip_prefix('-') {
            Some(host) => (host, true),
            None => (bind.as_str(), false),
        };
        match listen_on(host, port, backlog) {
            Ok(listener) => listeners.push((listener.local_addr()?, listener)),
            Err(e) if optional => tracing::info!(host, error = %e, "not listening"),
            Err(e) => {
                let text = format!("cannot listen on {host}:{port}: {e}");
                return Err(io::Error::new(e.kind(), text));
            }
        }
    }
    Ok(listeners)
}

/// The addresses that these words name, with a port. One with `-` before it is left out if this
/// machine does not have it.
pub fn addresses(hosts: &[String], port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for bind in hosts {
        match bind.strip_prefix('-') {
            None => addresses.push(resolve(bind, port)?),
            Some(host) => addresses.extend(
                // A socket of its own tells; the port does not matter.
                resolve(host, 0)
                    .and_then(|address| std::net::UdpSocket::bind(address).map(|_| address.ip()))
                    .map(|ip| SocketAddr::new(ip, port)),
            ),
        }
    }
    Ok(addresses)
}

/// The address of this machine that leads to others, if it has any: what a node that listens on
/// all its addresses tells of itself. Sends nothing.
pub fn outward_host() -> Option<String> {
    /// Kept for documentation (RFC 5737): a route to it is the route to everywhere.
    const ANYWHERE: (&str, u16) = ("192.0.2.1", 9);
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(ANYWHERE).ok()?;
    socket.local_addr().ok().map(|address| address.ip().to_string())
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let host = if host == "*" { "0.0.0.0" } else { host };
    let ip = match host.parse() {
        Ok(ip) => ip,
        Err(_) => {
            use std::net::ToSocketAddrs;
            let mut found = (host, port).to_socket_addrs()?;
            let none = || io::Error::other(format!("'{host}' has no address"));
            found.next().ok_or_else(none)?.ip()
        }
    };
    Ok(SocketAddr::new(ip, port))
}

fn listen_on(host: &str, port: u16, backlog: u32) -> io::Result<TcpListener> {
    let address = resolve(host, port)?;
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

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
