//! Who may connect, for how long, and with how much: limits that a client meets on its socket.
//!
//! Limits of memory that requests spend are in `protocol`.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use slot_tests::figures::rss_bytes;
use slot_tests::process::Node;
use slot_tests::resp::{Client, Value};

const MIB: usize = 1 << 20;

fn pong() -> Value {
    Value::Simple("PONG".into())
}

/// The number of clients, once it is `wanted`.
fn wait_for_clients(client: &mut Client, wanted: usize) {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let info = client.say("INFO clients").unwrap();
        let line = format!("connected_clients:{wanted}\r\n");
        if info.text().is_some_and(|text| text.contains(&line)) {
            return;
        }
        assert!(Instant::now() < until, "{info:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_client_too_many_is_told_so_and_closed() {
    let node = Node::start(&["--maxclients", "3"]).unwrap();
    let mut clients = vec![node.client().unwrap()];
    wait_for_clients(&mut clients[0], 1);
    clients.extend((0..2).map(|_| node.client().unwrap()));
    clients.iter_mut().for_each(|client| assert_eq!(client.say("PING").unwrap(), pong()));
    let told = node.client().unwrap().read_to_close().unwrap();
    assert_eq!(told, b"-ERR max number of clients reached\r\n");
    let info = clients[0].say("INFO stats").unwrap();
    assert!(info.text().unwrap().contains("rejected_connections:1\r\n"), "{info:?}");
    // Room for one again; and the limit moves.
    clients.pop();
    wait_for_clients(&mut clients[0], 2);
    assert_eq!(node.client().unwrap().say("PING").unwrap(), pong());
    wait_for_clients(&mut clients[0], 2);
    assert_eq!(clients[0].say("CONFIG SET maxclients 100").unwrap(), Value::ok());
    clients.extend((0..20).map(|_| node.client().unwrap()));
    clients.iter_mut().for_each(|client| assert_eq!(client.say("PING").unwrap(), pong()));
}

/// This machine's address towards others, if it has one.
fn outside_address() -> Option<String> {
    // Nothing is sent: connecting a datagram socket only looks up the route.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn protected_mode_serves_this_machine_only_until_there_is_a_password() {
    let Some(outside) = outside_address() else {
        println!("skipped: this machine has only its loopback address");
        return;
    };
    let node = Node::start(&["--bind", "0.0.0.0"]).unwrap();
    let port = node.address().port();
    let stranger = || Client::connect((outside.as_str(), port)).unwrap();
    let told = stranger().read_to_close().unwrap();
    let text = String::from_utf8(told).unwrap();
    assert!(text.starts_with("-DENIED ") && text.ends_with("\r\n"), "{text:?}");
    let mut local = node.client().unwrap();
    assert_eq!(local.say("PING").unwrap(), pong());
    assert_eq!(local.say("CONFIG SET requirepass secret").unwrap(), Value::ok());
    let mut client = stranger();
    assert!(client.say("PING").unwrap().is_error("NOAUTH "));
    assert_eq!(client.say("AUTH secret").unwrap(), Value::ok());
    assert_eq!(client.say("PING").unwrap(), pong());
    let Value::Array(_) = local.say("CONFIG GET bind").unwrap() else { panic!("still served") };
    assert_eq!(local.call(&["CONFIG", "SET", "requirepass", ""]).unwrap(), Value::ok());
    assert!(stranger().read_to_close().unwrap().starts_with(b"-DENIED "));
    assert_eq!(local.say("CONFIG SET protected-mode no").unwrap(), Value::ok());
    assert_eq!(stranger().say("PING").unwrap(), pong());
}

#[test]
fn an_idle_client_is_closed_and_a_waiting_or_busy_one_is_not() {
    let node = Node::start(&["--timeout", "1"]).unwrap();
    let (mut idle, mut busy) = (node.client().unwrap(), node.client().unwrap());
    let mut waiting = node.client().unwrap();
    assert_eq!(idle.say("PING").unwrap(), pong());
    waiting.send(&["BLPOP", "{k}list", "0"]).unwrap();
    let begun = Instant::now();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(busy.say("PING").unwrap(), pong());
    }
    assert_eq!(idle.read_to_close().unwrap(), b"");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(busy.say("RPUSH {k}list v").unwrap(), Value::Int(1));
    let served = Value::Array(vec![Value::bulk("{k}list"), Value::bulk("v")]);
    assert_eq!(waiting.read().unwrap(), served);
    // Switched off while clients are idle: they stay.
    let mut stays = node.client().unwrap();
    assert_eq!(stays.say("PING").unwrap(), pong());
    assert_eq!(busy.say("CONFIG SET timeout 0").unwrap(), Value::ok());
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(stays.say("PING").unwrap(), pong());
    assert_eq!(busy.say("PING").unwrap(), pong());
}

#[test]
fn too_much_of_an_unfinished_request_cuts_the_client() {
    let node = Node::start(&["--client-query-buffer-limit", "1mb"]).unwrap();
    let mut other = node.client().unwrap();
    let before = rss_bytes(node.pid()).unwrap();
    let mut client = node.client().unwrap();
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 100 * MIB);
    client.send_raw(head.as_bytes()).unwrap();
    let piece = vec![b'x'; MIB];
    let cut = (0..100).any(|_| client.send_raw(&piece).is_err());
    assert!(cut || client.read_to_close().is_ok_and(|told| told.is_empty()));
    let grown = rss_bytes(node.pid()).unwrap().saturating_sub(before);
    assert!(grown < 8 * MIB as u64, "{grown} bytes");
    // Whole requests of any number are no unfinished one.
    let mut many = node.client().unwrap();
    many.send_raw(&b"PING\r\n".repeat(400_000)).unwrap();
    assert!(many.read_many(400_000).unwrap().iter().all(|reply| *reply == pong()));
    assert_eq!(other.say("EXISTS k").unwrap(), Value::Int(0));
}
