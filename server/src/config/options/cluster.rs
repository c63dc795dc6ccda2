//! Options: this node's place among others.
//!
//! Not the slot table, which no option changes.

use super::INT_MAX;
use crate::config::declaration::Declaration;
use crate::config::special::Special;
use crate::config::start::CLUSTER_PORT_OFFSET;
use crate::config::value::{Kind, Value};
use slots::Endpoint;

const PORT: Kind = Kind::Integer { min: 0, max: 65535 };

/// Where a node of `join` listens for nodes.
pub fn seed(text: &str) -> Option<Endpoint> {
    let (client, bus) = match text.split_once('@') {
        Some((client, bus)) => (client, Some(bus.parse::<u16>().ok().filter(|port| *port != 0)?)),
        None => (text, None),
    };
    let client: Endpoint = client.parse().ok().filter(|e: &Endpoint| !e.host.is_empty())?;
    let port = bus.or_else(|| client.port.checked_add(CLUSTER_PORT_OFFSET))?;
    Some(Endpoint::new(client.host, port))
}

const NO_REPLICAS: &str = "there are no replicas yet.";

/// Longest node name, in bytes: it stands in tables and log lines.
const MAX_NAME_BYTES: usize = 64;

/// A host must fit the slot table, where it stands in lines beside ports: no brackets, quotes,
/// blanks, commas or `@`.
fn check_host(value: &Value) -> Result<(), &'static str> {
    let host = &value.text;
    let is_plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".:-_%".contains(&b));
    match is_plain && format!("{host}:1").parse::<slots::Endpoint>().is_ok() {
        true => Ok(()),
        false => Err("must be an IP address without brackets, or a host name"),
    }
}

/// Longest cluster secret, in bytes: a key file's content fits.
const MAX_SECRET_BYTES: usize = 1024;

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new(
        "cluster-enabled",
        Kind::Flag,
        "no",
        "'yes' starts a node without slots, to be given some; 'no' one that owns all of them. \
         Both speak the cluster protocol.",
    )
    .startup(),
    Declaration::new("name", Kind::Text, "", "Name of the node; by default made from its port.")
        .startup()
        .check(|v| {
            let fits = v.text.len() <= MAX_NAME_BYTES;
            match fits && v.text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
                true => Ok(()),
                false => Err("must be up to 64 letters, digits, '-', '_' and '.'"),
            }
        }),
    Declaration::new(
        "join",
        Kind::Text,
        "",
        "Nodes of a cluster to join, HOST:PORT of their client ports (HOST:PORT@BUSPORT where the \
         port for nodes is not PORT + 10000), separated by blanks. Later starts use them to find \
         the cluster again.",
    )
    .startup()
    .check(|v| match v.text.split_ascii_whitespace().all(|s| seed(s).is_some()) {
        true => Ok(()),
        false => Err("must be HOST:PORT or HOST:PORT@BUSPORT, several separated by blanks"),
    }),
    Declaration::new(
        "restored",
        Kind::Flag,
        "no",
        "'yes' for a data directory that comes from a backup: the node takes a new boot number.",
    )
    .startup(),
    Declaration::new(
        "cluster-port",
        PORT,
        "0",
        "Port for other nodes; 0 = port + 10000, which must be a port.",
    )
    .startup(),
    Declaration::new(
        "cluster-secret",
        Kind::Text,
        "",
        "Secret that all nodes of a cluster share: a node without it is not let in; empty = none.",
    )
    .startup()
    .secret()
    .check(|v| match v.text.len() <= MAX_SECRET_BYTES {
        true => Ok(()),
        false => Err("must be up to 1024 bytes"),
    }),
    Declaration::new(
        "cluster-announce-ip",
        Kind::Text,
        "",
        "Address or name clients are told to use; empty = the one the node listens on.",
    )
    .check(check_host)
    .live(|l, v| l.cluster_announce_ip.put(v)),
    Declaration::new(
        "cluster-announce-port",
        PORT,
        "0",
        "Port clients are told to use; 0 = the real one.",
    )
    .live(|l, v| l.cluster_announce_port.put(v)),
    Declaration::new(
        "cluster-announce-bus-port",
        PORT,
        "0",
        "Port other nodes are told to use; clients see it in CLUSTER NODES. 0 = the real one.",
    )
    .live(|l, v| l.cluster_announce_bus_port.put(v)),
    Declaration::new(
        "cluster-announce-bus-ip",
        Kind::Text,
        "",
        "Address or name other nodes are told to use, where it differs from the clients' (NAT, \
         Docker); empty = cluster-announce-ip.",
    )
    .check(check_host)
    .live(|l, v| l.cluster_announce_bus_ip.put(v)),
    Declaration::new(
        "cluster-announce-hostname",
        Kind::Special(Special::Hostname),
        "",
        "Host name clients are told.",
    )
    .live(|l, v| l.cluster_announce_hostname.put(v)),
    Declaration::new(
        "cluster-preferred-endpoint-type",
        Kind::Choice(&["ip", "hostname", "unknown-endpoint"]),
        "ip",
        "What redirects and CLUSTER SLOTS name: the address, the host name or nothing.",
    )
    .live(|l, v| l.put_endpoint_type(v)),
    Declaration::new(
        "cluster-require-full-coverage",
        Kind::Flag,
        "yes",
        "Refuse all commands while a slot has no owner.",
    )
    .live(|l, v| l.cluster_require_full_coverage.put(v)),
    Declaration::new(
        "cluster-allow-reads-when-down",
        Kind::Flag,
        "no",
        "Serve reads while commands are refused for lack of coverage.",
    )
    .live(|l, v| l.cluster_allow_reads_when_down.put(v)),
    Declaration::new(
        "cluster-node-timeout",
        Kind::Integer { min: 0, max: i64::MAX },
        "15000",
        "Milliseconds after which Redis takes a silent node for failed.",
    )
    .compat("slotd has its own timings; tools that plan by this number may read it.")
    .live(|l, v| l.cluster_node_timeout_ms.put(v)),
    Declaration::new("cluster-announce-tls-port", PORT, "0", "TLS port clients are told to use.")
        .compat("there is no TLS yet."),
    Declaration::new(
        "cluster-config-file",
        Kind::Text,
        "nodes.conf",
        "File in which Redis keeps what it knows of other nodes.",
    )
    .startup()
    .compat("the slot table is kept elsewhere."),
    Declaration::new(
        "cluster-replica-no-failover",
        Kind::Flag,
        "no",
        "Keep this node from taking over slots.",
    )
    .alias(&["cluster-slave-no-failover"])
    .compat(NO_REPLICAS),
    Declaration::new(
        "cluster-replica-validity-factor",
        Kind::Integer { min: 0, max: INT_MAX },
        "10",
        "How old a replica's data may be for it to take over.",
    )
    .alias(&["cluster-slave-validity-factor"])
    .compat(NO_REPLICAS),
    Declaration::new(
        "cluster-migration-barrier",
        Kind::Integer { min: 0, max: INT_MAX },
        "1",
        "Replicas a node keeps before one may go to another.",
    )
    .compat(NO_REPLICAS),
    Declaration::new(
        "cluster-allow-replica-migration",
        Kind::Flag,
        "yes",
        "Let replicas go to nodes that have none.",
    )
    .compat(NO_REPLICAS),
    Declaration::new(
        "cluster-allow-pubsubshard-when-down",
        Kind::Flag,
        "yes",
        "Serve sharded channels while the cluster is down.",
    )
    .compat("there are no channels yet."),
    Declaration::new(
        "cluster-link-sendbuf-limit",
        Kind::Memory { min: 0, max: u64::MAX },
        "0",
        "Most bytes waiting on a link between nodes.",
    )
    .compat("links between nodes have limits of their own."),
];
