//! The greeting's frames: Hello, Proof, Welcome, Refused, byte by byte.
//!
//! Not their order (`link`) nor what they are judged by (`judge`). Each payload ends with room for
//! later versions: what follows the known fields is skipped. A Hello's fields never change place,
//! so that any two versions can tell each other that they do not understand each other.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use slots::{Boot, ClusterId, Endpoint, MAX_HOST_BYTES, MAX_NAME_BYTES, NodeId, Nonce, StoreId};

use super::identity::Identity;
use super::refusal::{MAX_REFUSAL_TEXT_BYTES, Refusal, RefusalCode};
use super::wire::{Malformed, Reader, put_text};

/// The versions of the protocol that this build speaks. A release speaks its own and the one
/// before, so that a cluster is upgraded node by node.
pub const PROTOCOL_VERSIONS: Versions = Versions { min: 1, max: 1 };
/// Longest server version in a Hello, bytes: a release with a commit's hash fits.
pub const MAX_SERVER_VERSION_BYTES: usize = 64;
/// Most addresses in one Welcome or Addresses frame; with the longest hosts they fit a frame.
/// Larger clusters are learned from several members, and from the table.
pub const MAX_TOLD_ADDRESSES: usize = 200;

const HAS_SECRET: u8 = 1;
const IS_STRANGER: u8 = 2;

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl Versions {
    /// The newest version that both speak.
    pub fn common(self, other: Versions) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Versions { min, max } = self;
        if min == max { write!(f, "version {max}") } else { write!(f, "versions {min}-{max}") }
    }
}

/// Who is here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Versions it speaks.
    pub versions: Versions,
    /// It has a secret, and the other side must prove that it has the same.
    pub has_secret: bool,
    /// The dialer wants a stranger's link: only `CallKind::Meet` will travel on it.
    pub as_stranger: bool,
    /// Its cluster.
    pub cluster: Option<ClusterId>,
    /// The cluster's generation.
    pub generation: u64,
    /// Table version it has applied.
    pub table_version: u64,
    /// Who it is.
    pub identity: Identity,
    /// 32 random bytes, other ones on each link.
    pub challenge: [u8; 32],
    /// Its name.
    pub name: String,
    /// Its server version.
    pub server_version: String,
    /// Where nodes reach it; an empty host means where this link comes from.
    pub bus: Endpoint,
    /// Where clients reach it.
    pub client: Endpoint,
}

impl Hello {
    /// Its payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&self.versions.min.to_le_bytes());
        out.extend_from_slice(&self.versions.max.to_le_bytes());
        let secret = if self.has_secret { HAS_SECRET } else { 0 };
        out.push(secret | if self.as_stranger { IS_STRANGER } else { 0 });
        out.extend_from_slice(&self.cluster.map_or([0; 20], |id| *id.bytes()));
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.table_version.to_le_bytes());
        out.extend_from_slice(self.identity.node.bytes());
        out.extend_from_slice(self.identity.store.bytes());
        out.extend_from_slice(&self.identity.boot.0.to_le_bytes());
        out.extend_from_slice(self.identity.nonce.bytes());
        out.extend_from_slice(&self.challenge);
        put_text(&mut out, &self.name, MAX_NAME_BYTES);
        put_text(&mut out, &self.server_version, MAX_SERVER_VERSION_BYTES);
        put_endpoint(&mut out, &self.bus);
        put_endpoint(&mut out, &self.client);
        out
    }

    /// Reads a payload; what follows the known fields is skipped.
    pub fn decode(payload: &[u8]) -> Result<Hello, Malformed> {
        let mut from = Reader::new(payload);
        let versions = Versions { min: from.u16("version")?, max: from.u16("version")? };
        let flags = from.u8("flags")?;
        let cluster = from.array::<20>("cluster id")?;
        Ok(Hello {
            versions,
            has_secret: flags & HAS_SECRET != 0,
            as_stranger: flags & IS_STRANGER != 0,
            cluster: (cluster != [0; 20]).then(|| ClusterId::from_bytes(cluster)),
            generation: from.u64("generation")?,
            table_version: from.u64("table version")?,
            identity: Identity {
                node: NodeId::from_bytes(from.array("node id")?),
                store: StoreId::from_bytes(from.array("store id")?),
                boot: Boot(from.u64("boot")?),
                nonce: Nonce::from_bytes(from.array("nonce")?),
            },
            challenge: from.array("challenge")?,
            name: from.text(MAX_NAME_BYTES, "name")?.to_owned(),
            server_version: from.text(MAX_SERVER_VERSION_BYTES, "server version")?.to_owned(),
            bus: read_endpoint(&mut from)?,
            client: read_endpoint(&mut from)?,
        })
    }
}

fn put_endpoint(out: &mut Vec<u8>, endpoint: &Endpoint) {
    put_text(out, &endpoint.host, MAX_HOST_BYTES);
    out.extend_from_slice(&endpoint.port.to_le_bytes());
}

fn read_endpoint(from: &mut Reader<'_>) -> Result<Endpoint, Malformed> {
    let host = from.text(MAX_HOST_BYTES, "host")?;
    if host.contains(' ') {
        return Err(Malformed("host"));
    }
    Ok(Endpoint::new(host, from.u16("port")?))
}

/// A member and where nodes reach it.
pub type Address = (NodeId, Endpoint);

/// The payload of an Addresses frame, and the second half of a Welcome: a count, then id and
/// endpoint each. The first `MAX_TOLD_ADDRESSES` are told.
pub fn encode_addresses(out: &mut Vec<u8>, addresses: &[Address]) {
    let told = &addresses[..addresses.len().min(MAX_TOLD_ADDRESSES)];
    out.extend_from_slice(&(told.len() as u16).to_le_bytes());
    for (node, endpoint) in told {
        out.extend_from_slice(node.bytes());
        put_endpoint(out, endpoint);
    }
}

/// Reads them. A count beyond `MAX_TOLD_ADDRESSES` is malformed.
pub fn decode_addresses(from: &mut Reader<'_>) -> Result<Vec<Address>, Malformed> {
    let count = usize::from(from.u16("count of addresses")?);
    if count > MAX_TOLD_ADDRESSES {
        return Err(Malformed("count of addresses"));
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        let node = NodeId::from_bytes(from.array("node id")?);
        addresses.push((node, read_endpoint(from)?));
    }
    Ok(addresses)
}

/// The cluster's shared secret. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// The secret of these bytes; none if there are none.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        (!bytes.is_empty()).then(|| Secret(Arc::from(bytes)))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Which side made a proof: one side's is no use as the other's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Side {
    /// Who connected.
    Dialer = 1,
    /// Who was listening.
    Acceptor = 2,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::Dialer => Side::Acceptor,
            Side::Acceptor => Side::Dialer,
        }
    }
}

/// Both Hellos as they were sent: what a proof is about.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The dialer's payload.
    pub dialer: &'a [u8],
    /// The acceptor's.
    pub acceptor: &'a [u8],
}

impl Exchange<'_> {
    fn mac(&self, secret: &Secret, side: Side) -> Option<Hmac<Sha256>> {
        // HMAC takes a key of any length.
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&secret.0).ok()?;
        mac.update(b"slotd greeting 1");
        mac.update(&[side as u8]);
        for hello in [self.dialer, self.acceptor] {
            mac.update(&(hello.len() as u32).to_le_bytes());
            mac.update(hello);
        }
        Some(mac)
    }

    /// The proof that `side` knows the secret.
    pub fn prove(&self, secret: &Secret, side: Side) -> Vec<u8> {
        let mac = self.mac(secret, side);
        mac.map_or_else(Vec::new, |mac| mac.finalize().into_bytes().to_vec())
    }

    /// Is this the proof of `side`? Compared in constant time.
    pub fn is_proven(&self, secret: &Secret, side: Side, proof: &[u8]) -> bool {
        self.mac(secret, side).is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

/// A refusal as it came: its text is the other side's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedBy {
    /// Why.
    pub code: RefusalCode,
    /// See `Refusal::detail`.
    pub detail: u64,
    /// One line.
    pub text: String,
}

impl RefusedBy {
    /// The payload of a Refused frame.
    pub fn encode(refusal: &Refusal) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&(refusal.code() as u16).to_le_bytes());
        out.extend_from_slice(&refusal.detail().to_le_bytes());
        put_text(&mut out, &refusal.to_string(), MAX_REFUSAL_TEXT_BYTES);
        out
    }

    /// Reads it.
    pub fn decode(payload: &[u8]) -> Result<RefusedBy, Malformed> {
        let mut from = Reader::new(payload);
        Ok(RefusedBy {
            code: RefusalCode::from_wire(from.u16("refusal code")?),
            detail: from.u64("refusal detail")?,
            text: from.text(MAX_REFUSAL_TEXT_BYTES, "refusal text")?.to_owned(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::peer::frame::{MAX_GREETING_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES};
    use proptest::prelude::*;

    /// A node's Hello whose ids are made of `n`.
    pub(in crate::peer) fn hello(n: u8) -> Hello {
        Hello {
            versions: PROTOCOL_VERSIONS,
            has_secret: false,
            as_stranger: false,
            cluster: Some(ClusterId::from_bytes([9; 20])),
            generation: 1,
            table_version: 10,
            identity: Identity {
                node: NodeId::from_bytes([n; 20]),
                store: StoreId::from_bytes([n; 16]),
                boot: Boot(3),
                nonce: Nonce::from_bytes([n; 8]),
            },
            challenge: [n; 32],
            name: format!("node-{n}"),
            server_version: "0.1.0".to_owned(),
            bus: Endpoint::new("127.0.0.1", 17_000 + u16::from(n)),
            client: Endpoint::new("127.0.0.1", 7000 + u16::from(n)),
        }
    }

    #[test]
    fn a_hello_comes_back_and_later_fields_are_skipped() {
        let mut sent = hello(1);
        sent.cluster = None;
        sent.has_secret = true;
        let mut bytes = sent.encode();
        assert_eq!(Hello::decode(&bytes), Ok(sent.clone()));
        bytes.extend_from_slice(b"of version 2");
        assert_eq!(Hello::decode(&bytes), Ok(sent));
        for cut in 0..bytes.len() - 12 {
            assert!(Hello::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn the_longest_greetings_fit_their_frames() {
        let mut long = hello(1);
        long.name = "n".repeat(1000);
        long.server_version = "v".repeat(1000);
        long.bus.host = "h".repeat(1000);
        long.client.host = "h".repeat(1000);
        let bytes = long.encode();
        assert!(bytes.len() <= MAX_GREETING_PAYLOAD_BYTES / 3, "{}", bytes.len());
        assert!(Hello::decode(&bytes).is_ok());
        let mut told = Vec::new();
        encode_addresses(&mut told, &vec![(long.identity.node, long.bus); 1000]);
        assert!(told.len() < MAX_PAYLOAD_BYTES, "{}", told.len());
        let read = decode_addresses(&mut Reader::new(&told)).expect("addresses");
        assert_eq!(read.len(), MAX_TOLD_ADDRESSES);
    }

    #[test]
    fn a_proof_is_good_for_its_side_its_secret_and_its_hellos_only() {
        let (a, b) = (hello(1).encode(), hello(2).encode());
        let exchange = Exchange { dialer: &a, acceptor: &b };
        let secret = Secret::new(b"secret").expect("a secret");
        assert_eq!((Secret::new(b""), format!("{secret:?}")), (None, "Secret(..)".to_owned()));
        let proof = exchange.prove(&secret, Side::Dialer);
        assert_eq!(proof.len(), 32);
        assert!(exchange.is_proven(&secret, Side::Dialer, &proof));
        assert!(!exchange.is_proven(&secret, Side::Acceptor, &proof));
        let longer = Secret::new(b"secrets").expect("a secret");
        assert!(!exchange.is_proven(&longer, Side::Dialer, &proof));
        assert!(!exchange.is_proven(&secret, Side::Dialer, &proof[..31]));
        assert!(!exchange.is_proven(&secret, Side::Dialer, &[]));
        let other = Exchange { dialer: &b, acceptor: &a };
        assert!(!other.is_proven(&secret, Side::Dialer, &proof));
    }

    #[test]
    fn versions_meet_at_the_newest_both_speak() {
        let of = |min, max| Versions { min, max };
        assert_eq!(of(1, 2).common(of(2, 3)), Some(2));
        assert_eq!(of(1, 3).common(of(2, 2)), Some(2));
        assert_eq!(of(1, 1).common(of(2, 3)), None);
        assert_eq!(of(4, 5).common(of(2, 3)), None);
        assert_eq!(
            (of(1, 1).to_string(), of(1, 2).to_string()),
            ("version 1".into(), "versions 1-2".into())
        );
    }

    proptest! {
        #[test]
        fn any_payload_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Hello::decode(&bytes);
            let _ = RefusedBy::decode(&bytes);
            let _ = decode_addresses(&mut Reader::new(&bytes));
        }
    }
}
