//! From nodes that run to a cluster that serves: waits until all have joined, gives a new
//! cluster's slots out evenly, waits until every node says that it serves.
//!
//! Speaks the same commands as an operator with redis-cli: CLUSTER NODES, ADDSLOTSRANGE, INFO.
//! Invariant: slots are given out only where no node has any; what is there stays as it is.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// How long the nodes may take to find each other and agree.
const FORM_DEADLINE: Duration = Duration::from_secs(30);
/// Pause between two questions.
const POLL: Duration = Duration::from_millis(50);
/// How long one answer may take.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Longest answer that is read: CLUSTER NODES of far more nodes than there are here.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// The slots of each port, as the cluster tells them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Formed(BTreeMap<u16, String>);

impl Formed {
    /// The slots of the node at a port, `none` if it has none.
    pub fn slots_of(&self, port: u16) -> &str {
        self.0.get(&port).filter(|slots| !slots.is_empty()).map_or("none", String::as_str)
    }
}

/// Forms the cluster of the nodes at these ports. The error is one line.
pub(super) async fn form(ports: &[u16], password: &str) -> Result<Formed, String> {
    let until = Instant::now() + FORM_DEADLINE;
    let told = wait(until, "find each other", || all_know_all(ports, password)).await?;
    if told.0.values().all(String::is_empty) {
        let parts = slots::even_split(ports.len());
        for (port, part) in ports.iter().zip(parts) {
            let mut words = "CLUSTER ADDSLOTSRANGE".to_owned();
            for range in part.ranges() {
                words.push_str(&format!(" {} {}", range.first(), range.last()));
            }
            let answer = ask(*port, password, &words).await;
            let answer = answer.map_err(|error| format!("port {port}: {words}: {error}"))?;
            if answer != "OK" {
                return Err(format!("port {port}: {words}: {answer}"));
            }
        }
    }
    wait(until, "serve", || all_serve(ports, password)).await
}

/// Asks until it is so.
async fn wait<F>(
    until: Instant,
    what: &str,
    mut question: impl FnMut() -> F,
) -> Result<Formed, String>
where
    F: Future<Output = Result<Formed, String>>,
{
    loop {
        let error = match question().await {
            Ok(formed) => return Ok(formed),
            Err(error) => error,
        };
        if Instant::now() > until {
            let seconds = FORM_DEADLINE.as_secs();
            return Err(format!("the nodes did not {what} within {seconds} s: {error}"));
        }
        sleep(POLL).await;
    }
}

/// Every node lists every port; what the first one says of their slots.
async fn all_know_all(ports: &[u16], password: &str) -> Result<Formed, String> {
    let mut first = None;
    for port in ports {
        let listed = slots_by_port(&nodes(*port, password).await?);
        if let Some(missing) = ports.iter().find(|port| !listed.0.contains_key(port)) {
            return Err(format!("port {port} does not know port {missing} yet"));
        }
        first.get_or_insert(listed);
    }
    first.ok_or_else(|| "there are no nodes".to_owned())
}

/// Every node serves, and all say the same of the slots.
async fn all_serve(ports: &[u16], password: &str) -> Result<Formed, String> {
    let formed = all_know_all(ports, password).await?;
    for port in ports {
        let info = ask(*port, password, "CLUSTER INFO").await;
        let info = info.map_err(|error| format!("port {port}: {error}"))?;
        let state = info.lines().find_map(|line| line.strip_prefix("cluster_state:"));
        if state != Some("ok") {
            return Err(format!("port {port} says cluster_state {}", state.unwrap_or("nothing")));
        }
        if slots_by_port(&nodes(*port, password).await?) != formed {
            return Err(format!("port {port} has another table yet"));
        }
    }
    Ok(formed)
}

async fn nodes(port: u16, password: &str) -> Result<String, String> {
    let answer = ask(port, password, "CLUSTER NODES").await;
    answer.map_err(|error| format!("port {port}: {error}"))
}

/// Reads CLUSTER NODES: the client port of each line and its slots.
fn slots_by_port(nodes: &str) -> Formed {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let address = words.nth(1)?.split('@').next()?;
        let port = address.rsplit_once(':')?.1.parse().ok()?;
        let slots: Vec<&str> = words.skip(6).filter(|word| !word.starts_with('[')).collect();
        Some((port, slots.join(",")))
    };
    Formed(nodes.lines().filter_map(line).collect())
}

/// Sends one inline command on a connection of its own and reads the answer's text.
async fn ask(port: u16, password: &str, command: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
        if !password.is_empty() {
            let login = ["AUTH", password].map(|word| format!("${}\r\n{word}\r\n", word.len()));
            stream.write_all(format!("*2\r\n{}", login.concat()).as_bytes()).await?;
            read_answer(&mut stream).await?;
        }
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        read_answer(&mut stream).await
    };
    timeout(ANSWER_DEADLINE, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut head = String::new();
    (&mut *stream).take(MAX_ANSWER_BYTES).read_line(&mut head).await?;
    let head = head.trim_end();
    let other = |rest: &str| io::Error::other(rest.to_owned());
    match head.split_at_checked(1) {
        Some(("+" | ":", rest)) => Ok(rest.to_owned()),
        Some(("-", rest)) => Err(other(rest)),
        Some(("$", length)) => {
            let length: u64 = length.parse().map_err(|_| other(head))?;
            if length > MAX_ANSWER_BYTES {
                return Err(other("the answer is too long"));
            }
            let mut body = Vec::new();
            (&mut *stream).take(length + 2).read_to_end(&mut body).await?;
            Ok(String::from_utf8_lossy(&body).trim_end().to_owned())
        }
        _ => Err(other("the connection was closed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_from_the_lines_of_cluster_nodes() {
        let id = "07c37dfeb235213a872192d90877d0cd55635b91";
        let nodes = format!(
            "{id} 127.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-448 450-5460\n\
             {id} 127.0.0.1:7002@17002,host master - 0 1 4 connected 449 [3-<-{id}]\n\
             {id} ::1:7003@17003 master - 0 1 0 connected\n"
        );
        let formed = slots_by_port(&nodes);
        assert_eq!(formed.slots_of(7001), "0-448,450-5460");
        assert_eq!(formed.slots_of(7002), "449");
        assert_eq!(formed.slots_of(7003), "none");
        assert_eq!(formed.0.len(), 3);
    }
}
