//! The metrics port: a socket for scrapers and health checks, apart from that of clients.
//!
//! Not what is told (`command/scrape`) nor what is asked (`metrics/http`).
//!
//! Invariant: a connection holds at most one head, ends after one answer and lives no longer
//! than `TIME_LIMIT`; there are never more than `MAX_SCRAPERS` of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::command::NodeState;
use crate::command::scrape::{scrape, unready};
use crate::config::Config;
use crate::io::{clock, listen};
use crate::metrics::MetricsSource;
use crate::metrics::http::{self, Head, MAX_HEAD_BYTES, Page, Request, Status};

/// Connections at once: a few scrapers and health checks, each a page of some 50 KiB.
const MAX_SCRAPERS: usize = 16;
/// A connection's whole life: scrapers give up after 10 s.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept (out of descriptors): the listener must not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Scrapers waiting to be accepted.
const BACKLOG: u32 = 16;

/// Where the figures come from.
struct Scraped {
    node: Arc<NodeState>,
    source: Option<Arc<dyn MetricsSource>>,
}

/// Listens if `metrics-port` says so. Fails if an address cannot be listened on.
pub fn start(
    config: &Config,
    node: &Arc<NodeState>,
    source: Option<Arc<dyn MetricsSource>>,
) -> io::Result<()> {
    let port = config.number("metrics-port") as u16;
    if port == 0 {
        return Ok(());
    }
    let bind = match config.text("metrics-bind") {
        none if none.is_empty() => config.text("bind"),
        own => own,
    };
    let hosts: Vec<String> = bind.split_ascii_whitespace().map(str::to_owned).collect();
    let scraped = Arc::new(Scraped { node: node.clone(), source });
    let places = Arc::new(Semaphore::new(MAX_SCRAPERS));
    for (address, listener) in listen::bind_all(&hosts, port, BACKLOG)? {
        tracing::info!(%address, "serving metrics");
        tokio::spawn(accept_all(listener, scraped.clone(), places.clone()));
    }
    Ok(())
}

async fn accept_all(listener: TcpListener, scraped: Arc<Scraped>, places: Arc<Semaphore>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // One too many is closed at once, unanswered.
                let Ok(place) = places.clone().try_acquire_owned() else { continue };
                let scraped = scraped.clone();
                tokio::spawn(async move {
                    // An error or the end of its time is the scraper's own affair.
                    let _ = tokio::time::timeout(TIME_LIMIT, serve(stream, &scraped)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept of a scraper failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve(mut stream: TcpStream, scraped: &Scraped) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    let answer = loop {
        match http::judge(&bytes) {
            Head::Unfinished => {}
            Head::Asks(request) => break scraped.answer(request),
            Head::Refused(status) => break http::refusal(status),
        }
        let room = piece.len().min(MAX_HEAD_BYTES - bytes.len());
        match stream.read(&mut piece[..room]).await? {
            0 => return Ok(()),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    };
    stream.write_all(&answer).await?;
    stream.shutdown().await
}

impl Scraped {
    fn answer(&self, request: Request) -> Vec<u8> {
        let source = self.source.as_deref();
        match request.page {
            Page::Metrics => {
                let page = scrape(&self.node, clock::now(), source);
                http::answer(request, Status::Ok, &page)
            }
            Page::Health => match unready(&self.node, source) {
                None => http::answer(request, Status::Ok, "ready\n"),
                Some(why) => {
                    http::answer(request, Status::Unavailable, &format!("not ready: {why}\n"))
                }
            },
        }
    }
}
