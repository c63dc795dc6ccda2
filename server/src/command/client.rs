//! One client: what its session owns, and what others may see and do (CLIENT LIST, KILL...).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::command::mailbox::Mailbox;
use crate::resp::Proto;

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    On,
    /// No replies at all.
    Off,
    /// This command's reply (SKIP's own) and then the next one's are dropped.
    SkipNext,
    /// The reply of the command now running is dropped.
    Skip,
}

/// Flags that CLIENT LIST shows.
pub mod client_flag {
    /// In MULTI.
    pub const MULTI: u32 = 1;
    /// Blocked on keys.
    pub const BLOCKED: u32 = 1 << 1;
    /// A watched key changed.
    pub const DIRTY: u32 = 1 << 2;
    /// NO-EVICT.
    pub const NO_EVICT: u32 = 1 << 3;
    /// NO-TOUCH.
    pub const NO_TOUCH: u32 = 1 << 4;
    /// READONLY.
    pub const READONLY: u32 = 1 << 5;
    /// Will close after its reply.
    pub const CLOSING: u32 = 1 << 6;
    /// Held back by CLIENT PAUSE.
    pub const PAUSED: u32 = 1 << 7;
    /// Speaks RESP3.
    pub const RESP3: u32 = 1 << 8;
    /// Replies wait at the gate.
    pub const GATED: u32 = 1 << 9;
}

/// Text a client said of itself.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
}

/// What others see of a client.
#[derive(Debug)]
pub struct ClientShared {
    /// Unique on this node, rising.
    pub id: u64,
    /// Peer address.
    pub addr: String,
    /// Local address.
    pub laddr: String,
    /// Descriptor number, for CLIENT LIST.
    pub fd: i32,
    /// Monotonic ns at which it connected.
    pub since_ns: u64,
    /// Monotonic ns of its last request.
    pub active_ns: AtomicU64,
    /// `client_flag` bits.
    pub flags: AtomicU32,
    /// Command id of its last request; `u32::MAX` = none yet.
    pub last_command: AtomicU32,
    /// Commands queued in MULTI; -1 outside is what CLIENT LIST prints.
    pub queued: AtomicU32,
    /// Keys watched.
    pub watching: AtomicU32,
    /// Bytes of unfinished input.
    pub input_bytes: AtomicU64,
    /// Bytes of unsent output.
    pub output_bytes: AtomicU64,
    /// Bytes queued in MULTI.
    pub queue_bytes: AtomicU64,
    /// Name and library.
    pub names: Mutex<Option<Box<Names>>>,
    /// How to wake its task.
    pub mailbox: Mailbox,
    /// Somebody wants the connection ended.
    pub killed: AtomicBool,
}

impl ClientShared {
    /// A client that just connected.
    pub fn new(id: u64, addr: String, laddr: String, fd: i32, now_ns: u64) -> ClientShared {
        ClientShared {
            id,
            addr,
            laddr,
            fd,
            since_ns: now_ns,
            active_ns: AtomicU64::new(now_ns),
            flags: AtomicU32::new(0),
            last_command: AtomicU32::new(u32::MAX),
            queued: AtomicU32::new(0),
            watching: AtomicU32::new(0),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            queue_bytes: AtomicU64::new(0),
            names: Mutex::new(None),
            mailbox: Mailbox::default(),
            killed: AtomicBool::new(false),
        }
    }

    /// Sets or clears a `client_flag`. Only its own session does. In one order with what it
    /// looks at next: who waits says so first, who wakes looks for the flag last.
    pub fn set_flag(&self, bit: u32, on: bool) {
        if on {
            self.flags.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// Is a `client_flag` set?
    pub fn has_flag(&self, bit: u32) -> bool {
        self.flags.load(Ordering::SeqCst) & bit != 0
    }

    /// Name and library, as said so far.
    pub fn names(&self) -> Names {
        self.names.lock().as_deref().cloned().unwrap_or_default()
    }

    /// Changes name or library.
    pub fn set_names(&self, change: impl FnOnce(&mut Names)) {
        change(self.names.lock().get_or_insert_default());
    }

    /// Bytes it makes the node hold.
    pub fn bytes(&self) -> u64 {
        let buffers = [&self.input_bytes, &self.output_bytes, &self.queue_bytes];
        let held: u64 = buffers.iter().map(|n| n.load(Ordering::Relaxed)).sum();
        IDLE_CLIENT_BYTES + held
    }

    /// Ends the connection.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        self.mailbox.post(crate::command::mailbox::letter::KILL);
    }
}

/// What an idle connection may cost, bytes: the mark it is measured against. Buffers come on
/// top.
pub const IDLE_CLIENT_BYTES: u64 = 2048;

/// What the session owns of its client.
pub struct Client {
    /// What others see.
    pub shared: Arc<ClientShared>,
    /// RESP2 or RESP3.
    pub proto: Proto,
    /// Has it logged in (or is no password set)?
    pub authenticated: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// READONLY was sent.
    pub readonly: bool,
    /// NO-TOUCH was sent.
    pub no_touch: bool,
    /// The connection closes once the replies so far are out.
    pub close_after_reply: bool,
    /// The peer is on this machine (protected mode).
    pub is_local: bool,
}

impl Client {
    /// A fresh connection.
    pub fn new(shared: Arc<ClientShared>, authenticated: bool, is_local: bool) -> Client {
        Client {
            shared,
            proto: Proto::Resp2,
            authenticated,
            reply_mode: ReplyMode::On,
            readonly: false,
            no_touch: false,
            close_after_reply: false,
            is_local,
        }
    }

    /// Switches the protocol (HELLO).
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
        self.shared.set_flag(client_flag::RESP3, proto == Proto::Resp3);
    }
}
