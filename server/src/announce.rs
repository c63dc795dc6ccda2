//! Where a node says it is reached, by audience: clients get one address, other nodes may get
//! another (NAT, Docker).
//!
//! Not the table that carries it to the others, and no socket. Invariant: what `cluster-announce-`
//! options say overrules what the node sees of itself, each for its own part; an option that says
//! nothing leaves its part alone.

use slots::{Addresses, Endpoint, NodeId, SlotTable, TableChange};

use crate::config::{Live, Start};

/// Where a node is reached as far as it knows itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnAddress {
    host: String,
    port: u16,
    bus_port: u16,
}

impl OwnAddress {
    /// The first address listened on that is a real one, else the one that leads to other
    /// machines (`outward`), else 127.0.0.1; and the ports.
    pub fn of(start: &Start, outward: impl FnOnce() -> Option<String>) -> OwnAddress {
        let bound = start.bind.iter().map(|b| b.trim_start_matches('-'));
        let mut real = bound.filter(|b| !matches!(*b, "0.0.0.0" | "::" | "*" | "::*"));
        let real = real.next().map(str::to_owned);
        let host = real.or_else(outward).unwrap_or_else(|| "127.0.0.1".to_owned());
        OwnAddress { host, port: start.port, bus_port: start.cluster_port }
    }

    /// What the others are told, as the options say now.
    pub fn announced(&self, live: &Live) -> Addresses {
        let text = |option: &crate::config::live::SharedText| {
            Some(option.load().to_string()).filter(|text| !text.is_empty())
        };
        let port = |announced: u64, own: u16| match u16::try_from(announced) {
            Ok(port @ 1..) => port,
            _ => own,
        };
        let host = text(&live.cluster_announce_ip).unwrap_or_else(|| self.host.clone());
        let bus_host = text(&live.cluster_announce_bus_ip).unwrap_or_else(|| host.clone());
        let bus_port = port(live.cluster_announce_bus_port.load(), self.bus_port);
        Addresses {
            client: Endpoint::new(host, port(live.cluster_announce_port.load(), self.port)),
            bus: Endpoint::new(bus_host, bus_port),
            hostname: text(&live.cluster_announce_hostname),
        }
    }

    /// The change to propose so that the table says of `me` what is announced now; `None` if it
    /// does, or does not know the node.
    pub fn change(&self, me: NodeId, table: &SlotTable, live: &Live) -> Option<TableChange> {
        let addresses = self.announced(live);
        let row = table.node(me)?;
        (row.addresses != addresses).then_some(TableChange::SetAddress { node: me, addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::testing::TestNode;

    /// `client bus hostname` as announced with these arguments.
    fn told(args: &str) -> String {
        let words = args.split_ascii_whitespace().map(str::to_owned);
        let start = Config::from_args(words, |_| Err(std::io::ErrorKind::NotFound.into()))
            .unwrap_or_else(|e| panic!("{e}"));
        let addresses =
            OwnAddress::of(&start, || Some("10.0.0.9".into())).announced(start.config.live());
        let hostname = addresses.hostname.as_deref().unwrap_or("-");
        format!("{} {} {hostname}", addresses.client, addresses.bus)
    }

    #[test]
    fn a_node_that_announces_nothing_tells_where_it_listens() {
        for (args, wanted) in [
            ("--port 7001", "127.0.0.1:7001 127.0.0.1:17001 -"),
            ("--port 7001 --bind 0.0.0.0", "10.0.0.9:7001 10.0.0.9:17001 -"),
            ("--port 7001 --bind 0.0.0.0 10.0.0.1", "10.0.0.1:7001 10.0.0.1:17001 -"),
            ("--port 7001 --bind -::1 10.0.0.1", "::1:7001 ::1:17001 -"),
            ("--port 7001 --cluster-port 9", "127.0.0.1:7001 127.0.0.1:9 -"),
        ] {
            assert_eq!(told(args), wanted, "{args}");
        }
    }

    #[test]
    fn each_option_overrules_its_own_part() {
        let ip = "--port 7001 --cluster-announce-ip 10.9.8.7";
        for (args, wanted) in [
            (ip.to_owned(), "10.9.8.7:7001 10.9.8.7:17001 -"),
            (format!("{ip} --cluster-announce-port 7777"), "10.9.8.7:7777 10.9.8.7:17001 -"),
            (format!("{ip} --cluster-announce-bus-port 8888"), "10.9.8.7:7001 10.9.8.7:8888 -"),
            (format!("{ip} --cluster-announce-hostname a.b"), "10.9.8.7:7001 10.9.8.7:17001 a.b"),
            (format!("{ip} --cluster-announce-bus-ip slotd-1"), "10.9.8.7:7001 slotd-1:17001 -"),
            (
                "--port 7001 --cluster-announce-bus-ip 172.17.0.2".to_owned(),
                "127.0.0.1:7001 172.17.0.2:17001 -",
            ),
            (
                "--port 7001 --cluster-announce-ip 2001:db8::1 --cluster-announce-bus-ip fd00::2"
                    .to_owned(),
                "2001:db8::1:7001 fd00::2:17001 -",
            ),
        ] {
            assert_eq!(told(&args), wanted, "{args}");
        }
    }

    #[test]
    fn the_table_is_told_only_of_what_it_does_not_say() {
        let node = TestNode::new(&["--port", "7001", "--cluster-announce-bus-ip", "slotd-1"]);
        let own = OwnAddress { host: "127.0.0.1".into(), port: 7001, bus_port: 17001 };
        let (topology, live) = (node.node.topology(), node.node.config.live());
        let change = own.change(topology.me, &topology.table, live);
        let Some(TableChange::SetAddress { node: of, addresses }) = change else {
            panic!("the table does not have the bus address: {change:?}")
        };
        assert_eq!((of, addresses.bus.host.as_str()), (topology.me, "slotd-1"));
        let plain = TestNode::new(&["--port", "7001"]);
        let (topology, live) = (plain.node.topology(), plain.node.config.live());
        assert_eq!(own.change(topology.me, &topology.table, live), None);
        assert_eq!(own.change(NodeId::from_bytes([9; 20]), &topology.table, live), None);
    }

    #[test]
    fn hosts_that_no_table_takes_are_refused_at_the_door() {
        let mut node = TestNode::new(&[]);
        for option in ["cluster-announce-ip", "cluster-announce-bus-ip"] {
            for bad in ["[::1]", "a b", "\"\"", "a,b", "a@b", "?", &"h".repeat(256)] {
                let set = [b"config", b"set".as_slice(), option.as_bytes(), bad.as_bytes()];
                let reply = String::from_utf8(node.call(1, &set)).expect("ASCII");
                assert!(reply.starts_with("-ERR CONFIG SET failed"), "{option} {bad}: {reply}");
            }
            for good in ["10.0.0.1", "::1", "slotd-1", "a.example", ""] {
                let set = [b"config", b"set".as_slice(), option.as_bytes(), good.as_bytes()];
                assert_eq!(node.call(1, &set), b"+OK\r\n", "{option} {good}");
            }
        }
    }
}
