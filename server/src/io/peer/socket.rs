//! Socket options of links.

#![allow(unsafe_code, reason = "neither std nor tokio sets TCP_USER_TIMEOUT")]

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Links waiting to be accepted: all nodes of a large cluster may dial at once.
const BACKLOG: u32 = 1024;
/// How long sent bytes may stay without the other kernel's word, ms: by then the link is closed as
/// silent, and the socket should not outlive it.
const USER_TIMEOUT_MS: libc::c_int = 5000;

/// Listens on an address.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Sets what links want. Pings do what keepalive would, sooner.
pub(super) fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let value = USER_TIMEOUT_MS;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let pointer = std::ptr::from_ref(&value).cast();
    // SAFETY: the descriptor is the stream's, and value and size are those of a c_int that lives
    // through the call. A refusal leaves the kernel's own timeout, no worse.
    unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
        libc::setsockopt(stream.as_raw_fd(), level, name, pointer, size);
    }
}
