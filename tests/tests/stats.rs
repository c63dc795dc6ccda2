//! What INFO says of commands that are not timed one by one.

use slot_tests::process::Node;

/// `usec` of a command in INFO commandstats.
fn micros(info: &str, command: &str) -> u64 {
    let line = info.lines().find(|l| l.starts_with(&format!("cmdstat_{command}:")));
    let fields = line.unwrap_or_else(|| panic!("no {command} in {info}"));
    let usec = fields.split(',').find_map(|f| f.strip_prefix("usec="));
    usec.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no usec in {fields}"))
}

#[test]
fn constant_time_commands_get_their_share_of_the_batch() {
    let node = Node::start(&[]).unwrap();
    let mut client = node.client().unwrap();
    let pipeline = b"SET k v\r\nGET k\r\n".repeat(5_000);
    client.send_raw(&pipeline).unwrap();
    assert_eq!(client.read_many(10_000).unwrap().len(), 10_000);
    let info = client.say("INFO commandstats").unwrap();
    let info = info.text().expect("a text");
    let (get, set) = (micros(info, "get"), micros(info, "set"));
    // 5,000 of each take some ms; their shares are alike, as they alternate in every batch.
    assert!(get > 100 && set > 100, "get {get} us, set {set} us");
    assert!(get < 2 * set + 100 && set < 2 * get + 100, "get {get} us, set {set} us");
}
