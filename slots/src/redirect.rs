//! Redirects as text: what a node answers for a slot it does not serve, and how a client reads it.
//!
//! Not the decision whom to redirect (`slot/` in the server) and not the protocol's framing: texts
//! here have no leading `-` and no line end.
//!
//! Invariant: what is written here is read back here to the same slot, host and port.

use crate::node::split_endpoint;
use crate::slot::SlotId;
use std::fmt;

/// A slot nobody owns.
pub const CLUSTERDOWN_UNBOUND: &str = "CLUSTERDOWN Hash slot not served";
/// A node that may not serve now.
pub const CLUSTERDOWN: &str = "CLUSTERDOWN The cluster is down";
/// Some keys are here and some are not, or a hand-over took too long: try again, nothing ran.
pub const TRYAGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
/// Keys of several slots in one command, transaction or script.
pub const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// Which redirect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RedirectKind {
    /// The slot is served there, for good: correct the map.
    Moved,
    /// Ask there this once, after `ASKING`. slotd never sends it; other servers do.
    Ask,
}

/// Whom a redirect names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RedirectHost<'a> {
    /// This host: a name or an IP address without brackets.
    Named(&'a str),
    /// The host the client is connected to (an empty host).
    Same,
    /// `?`: the server does not know. Do not connect; ask another node for the map.
    Unknown,
}

/// A redirect read from an error's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Redirect<'a> {
    /// MOVED or ASK.
    pub kind: RedirectKind,
    /// The slot the server means.
    pub slot: SlotId,
    /// The host it names.
    pub host: RedirectHost<'a>,
    /// The port it names.
    pub port: u16,
}

impl<'a> Redirect<'a> {
    /// Reads `MOVED 449 10.9.8.7:7777` or `ASK ...`. `None` for every other text. The address is
    /// split at its last colon, so IPv6 comes without brackets; words after the address are
    /// passed over, as other servers may add some.
    pub fn parse(text: &'a str) -> Option<Redirect<'a>> {
        let mut words = text.split(' ');
        let kind = match words.next()? {
            "MOVED" => RedirectKind::Moved,
            "ASK" => RedirectKind::Ask,
            _ => return None,
        };
        let slot = words.next().filter(|word| word.bytes().all(|b| b.is_ascii_digit()))?;
        let slot = slot.parse().ok().and_then(SlotId::new)?;
        let address = words.next()?;
        if let Some(port) = address.strip_prefix('?') {
            let (_, port) = split_endpoint(port).filter(|(rest, _)| rest.is_empty())?;
            return Some(Redirect { kind, slot, host: RedirectHost::Unknown, port });
        }
        let (host, port) = split_endpoint(address)?;
        let host = if host.is_empty() { RedirectHost::Same } else { RedirectHost::Named(host) };
        Some(Redirect { kind, slot, host, port })
    }
}

impl fmt::Display for Redirect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RedirectKind::Moved => "MOVED",
            RedirectKind::Ask => "ASK",
        };
        let host = match self.host {
            RedirectHost::Named(host) => host,
            RedirectHost::Same => "",
            RedirectHost::Unknown => "?",
        };
        write!(f, "{kind} {} {host}:{}", self.slot, self.port)
    }
}

/// The text `MOVED <slot> <host>:<port>`. `host` as `Addresses::client_host` gives it: possibly
/// empty or `?`.
pub fn moved(slot: SlotId, host: &str, port: u16) -> impl fmt::Display + '_ {
    let host = match host {
        "" => RedirectHost::Same,
        "?" => RedirectHost::Unknown,
        host => RedirectHost::Named(host),
    };
    Redirect { kind: RedirectKind::Moved, slot, host, port }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, kind: RedirectKind, slot: u16, host: RedirectHost<'_>, port: u16) {
        let slot = SlotId::new(slot).expect("a slot");
        let redirect = Redirect { kind, slot, host, port };
        assert_eq!(Redirect::parse(text), Some(redirect), "{text}");
        assert_eq!(redirect.to_string(), text);
    }

    #[test]
    fn hosts_of_every_form() {
        use RedirectHost::{Named, Same, Unknown};
        use RedirectKind::{Ask, Moved};
        check("MOVED 449 10.9.8.7:7777", Moved, 449, Named("10.9.8.7"), 7777);
        check("ASK 449 10.9.8.7:7777", Ask, 449, Named("10.9.8.7"), 7777);
        check("MOVED 449 ::1:7001", Moved, 449, Named("::1"), 7001);
        check("MOVED 449 fe80::1%eth0:7001", Moved, 449, Named("fe80::1%eth0"), 7001);
        check("MOVED 449 :7777", Moved, 449, Same, 7777);
        check("MOVED 449 ?:7777", Moved, 449, Unknown, 7777);
        check("MOVED 0 node-a.example:1", Moved, 0, Named("node-a.example"), 1);
    }

    #[test]
    fn extra_words_and_brackets_are_understood() {
        let redirect = Redirect::parse("MOVED 16383 [::1]:7001 extra").expect("a redirect");
        assert_eq!(redirect.host, RedirectHost::Named("::1"));
        assert_eq!(redirect.slot, SlotId::LAST);
    }

    #[test]
    fn other_texts_are_no_redirects() {
        for text in [
            "",
            "MOVED",
            "MOVED 449",
            "MOVED 16384 a:1",
            "MOVED -1 a:1",
            "MOVED +1 a:1",
            "MOVED x a:1",
            "MOVED 449 a",
            "MOVED 449 a:0",
            "MOVED 449 a:99999",
            "MOVED 449 ?a:1",
            "MOVED  449 a:1",
            "moved 449 a:1",
            "MOVEDX 449 a:1",
            CLUSTERDOWN,
            TRYAGAIN,
            CROSSSLOT,
        ] {
            assert_eq!(Redirect::parse(text), None, "{text}");
        }
    }

    #[test]
    fn moved_writes_what_clients_expect() {
        let slot = SlotId::new(12_182).expect("a slot");
        assert_eq!(moved(slot, "127.0.0.1", 7003).to_string(), "MOVED 12182 127.0.0.1:7003");
        assert_eq!(moved(slot, "", 7003).to_string(), "MOVED 12182 :7003");
        assert_eq!(moved(slot, "?", 7003).to_string(), "MOVED 12182 ?:7003");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_not(text in "(MOVED|ASK) [0-9]{0,6} [a-f0-9:?.\\[\\] ]{0,20}") {
            if let Some(redirect) = Redirect::parse(&text) {
                let written = redirect.to_string();
                prop_assert_eq!(Redirect::parse(&written), Some(redirect));
            }
        }
    }
}
