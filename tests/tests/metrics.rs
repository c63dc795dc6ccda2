//! The metrics port of a running node: what a scraper and a health check get, and what becomes
//! of those that do not behave.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use slot_tests::process::{Node, free_port};
use slot_tests::resp::Value;

/// A node with a metrics port of its own.
fn node(args: &[&str]) -> (Node, SocketAddr) {
    let port = free_port().expect("a free port");
    let own = ["--metrics-port", &port.to_string()];
    let node = Node::start(&[&own, args].concat()).expect("slotd starts");
    (node, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Sends these bytes and reads to the end: status line, headers, body.
fn ask(to: SocketAddr, request: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer and its end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let (status, headers) = head.split_once("\r\n").expect("headers");
    (status.to_owned(), headers.to_owned(), body.to_owned())
}

fn get(to: SocketAddr, path: &str) -> (String, String, String) {
    ask(to, &format!("GET {path} HTTP/1.1\r\nHost: slotd\r\n\r\n"))
}

/// Value of a series as it stands on the page.
fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn a_scrape_tells_what_clients_did() {
    let (node, metrics) = node(&[]);
    let mut client = node.client().expect("a connection");
    for _ in 0..3 {
        assert_eq!(client.say("SET foo 1").expect("a reply"), Value::ok());
    }
    let (status, headers, page) = get(metrics, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(headers.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(headers.contains(&format!("Content-Length: {}", page.len())), "{headers}");
    assert_eq!(value(&page, "slotd_commands_total{command=\"set\"}"), Some(3.0));
    assert_eq!(value(&page, "slotd_keys"), Some(1.0));
    assert_eq!(value(&page, "slotd_slots_owned"), Some(16_384.0));
    assert_eq!(value(&page, "slotd_ready"), Some(1.0));
    for positive in [
        "slotd_uptime_seconds",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "slotd_net_received_bytes_total",
        "slotd_net_sent_bytes_total",
        "slotd_command_seconds_total{command=\"set\"}",
    ] {
        assert!(value(&page, positive).is_some_and(|value| value > 0.0), "{positive} in {page}");
    }
    let (status, _, body) = ask(metrics, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
}

#[test]
fn health_says_why_a_node_is_not_ready() {
    let (node, metrics) = node(&["--cluster-enabled", "yes"]);
    let (status, _, body) = get(metrics, "/healthz");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(body, "not ready: slots without an owner: 16384\n");
    let mut client = node.client().expect("a connection");
    assert_eq!(client.say("CLUSTER ADDSLOTSRANGE 0 16383").expect("a reply"), Value::ok());
    let (status, _, body) = get(metrics, "/healthz");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "ready\n"));
}

#[test]
fn what_is_no_request_for_a_page_is_refused() {
    let (_node, metrics) = node(&[]);
    for (request, wanted) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 405 Method Not Allowed"),
        ("nonsense\r\n\r\n".to_owned(), "HTTP/1.1 400 Bad Request"),
        ("x".repeat(8192), "HTTP/1.1 431 Request Header Fields Too Large"),
    ] {
        assert_eq!(ask(metrics, &request).0, wanted);
    }
}

/// Has the other side closed, within this time?
fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).expect("a time-out");
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn scrapers_that_say_nothing_are_few_and_are_cut() {
    let (_node, metrics) = node(&[]);
    let connect = || TcpStream::connect(metrics).expect("a connection");
    let mut idle: Vec<TcpStream> = (0..16).map(|_| connect()).collect();
    let until = Instant::now() + Duration::from_secs(4);
    // All places are taken once they are accepted: the next is closed at once.
    while !is_closed(&mut connect(), Duration::from_millis(100)) {
        assert!(Instant::now() < until, "a seventeenth connection is kept");
    }
    assert!(idle.iter_mut().all(|stream| is_closed(stream, Duration::from_secs(10))));
    assert_eq!(get(metrics, "/healthz").0, "HTTP/1.1 200 OK");
}

#[test]
fn without_the_option_nothing_listens_and_a_taken_port_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let error = Node::start(&["--metrics-port", &port]).err().expect("it does not start");
    let wanted = format!("cannot listen on 127.0.0.1:{port}: ");
    assert!(error.to_string().contains(&wanted), "{error}");
    // Two nodes without the option do not meet at a port.
    let (_one, _two) = (Node::start(&[]).expect("starts"), Node::start(&[]).expect("starts"));
}
