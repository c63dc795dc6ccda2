//! The file with a fixed table: a line a node, `id name client-endpoint bus-port slots`, where
//! slots is a range list or `-`. `slotd local` writes it for its children.

use slots::{Addresses, Endpoint, NodeId, SlotRanges};

use crate::control::fixed::FoundingNode;

/// Reads the file. The error names the line.
pub fn parse(text: &str) -> Result<Vec<FoundingNode>, String> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    let nodes = lines
        .map(|(i, line)| parse_line(line).map_err(|e| format!("static table, line {}: {e}", i + 1)))
        .collect::<Result<Vec<_>, _>>()?;
    if nodes.is_empty() {
        return Err("static table: no nodes".to_owned());
    }
    Ok(nodes)
}

fn parse_line(line: &str) -> Result<FoundingNode, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, name, client, bus_port, owned] = words[..] else {
        return Err(format!("expected 5 words, got {}", words.len()));
    };
    let id: NodeId = id.parse().map_err(|e| format!("id: {e}"))?;
    let client: Endpoint = client.parse().map_err(|e| format!("endpoint: {e}"))?;
    let bus_port: u16 = bus_port.parse().map_err(|_| format!("bad bus port '{bus_port}'"))?;
    let slots: SlotRanges = match owned {
        "-" => SlotRanges::new(),
        ranges => ranges.parse().map_err(|e| format!("slots: {e}"))?,
    };
    let bus = Endpoint::new(client.host.clone(), bus_port);
    let addresses = Addresses { client, bus, hostname: None };
    Ok(FoundingNode { id, name: name.to_owned(), addresses, slots })
}

/// Writes the file.
pub fn render(nodes: &[FoundingNode]) -> String {
    let mut text = String::from("# id name client-endpoint bus-port slots\n");
    for n in nodes {
        let slots = if n.slots.is_empty() { "-".to_owned() } else { n.slots.to_string() };
        let a = &n.addresses;
        text.push_str(&format!("{} {} {} {} {slots}\n", n.id, n.name, a.client, a.bus.port));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let nodes: Vec<FoundingNode> = slots::even_split(3)
            .into_iter()
            .enumerate()
            .map(|(i, slots)| FoundingNode {
                id: NodeId::from_bytes([i as u8; 20]),
                name: format!("node-{i}"),
                addresses: Addresses {
                    client: Endpoint::new("127.0.0.1", 7001 + i as u16),
                    bus: Endpoint::new("127.0.0.1", 17001 + i as u16),
                    hostname: None,
                },
                slots,
            })
            .collect();
        assert_eq!(parse(&render(&nodes)), Ok(nodes));
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(
            parse("# x\n\nabc\n").unwrap_err(),
            "static table, line 3: expected 5 words, got 1"
        );
        assert!(parse("").is_err());
    }
}
