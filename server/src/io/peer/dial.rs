//! Where links begin: accepted, dialed for the address book, or dialed for one call to a stranger.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slots::Endpoint;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

use super::Inner;
use super::handle::{CallResult, Handle, Talk};
use super::{socket, task};
use crate::io::clock;
use crate::peer::book::{Dial, Target};
use crate::peer::greeting::Side;
use crate::peer::link::{Link, Terms};
use crate::peer::refusal::Refusal;
use crate::peer::{CallError, CallKind};
use crate::vital::vital;

/// Pause after a failed accept (out of descriptors): the listener must not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How long looking a name up and connecting may take: a second SYN gets through.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Accepts for ever.
pub(super) async fn accept_all(inner: Arc<Inner>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some((handle, stream)) = begin(&inner, stream, Opening::accepted()) {
                    tokio::spawn(vital("link", task::run(inner.clone(), handle, stream)));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a node's link failed");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Dials whom the book names, for ever.
pub(super) async fn dial_all(inner: Arc<Inner>) {
    loop {
        let now_ns = clock::now().mono_ns;
        let (dials, next_ns) = inner.state.lock().due(now_ns);
        for due in dials {
            tokio::spawn(vital("dial", dial(inner.clone(), due)));
        }
        tokio::select! {
            () = sleep(Duration::from_nanos(next_ns.saturating_sub(now_ns))) => {}
            () = inner.dial.notified() => {}
        }
    }
}

async fn dial(inner: Arc<Inner>, dial: Dial) {
    let Dial { target, endpoint } = dial;
    let Some(stream) = connect(&inner, &endpoint).await else {
        inner.state.lock().dial_failed(target, clock::now().mono_ns);
        return inner.dial.notify_one();
    };
    if let Some((handle, stream)) = begin(&inner, stream, Opening::dialed(target, endpoint)) {
        task::run(inner, handle, stream).await;
    }
}

async fn connect(inner: &Inner, to: &Endpoint) -> Option<TcpStream> {
    let _permit = inner.dials.acquire().await.ok()?;
    let connecting = TcpStream::connect((to.host.as_str(), to.port));
    match timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%to, %error, "no link");
            None
        }
        Err(_) => {
            tracing::debug!(%to, "no link: connecting took too long");
            None
        }
    }
}

/// How a link comes about.
struct Opening {
    side: Side,
    as_stranger: bool,
    dial: Option<(Target, Endpoint)>,
    on_up: Option<oneshot::Sender<Result<(), CallError>>>,
}

impl Opening {
    fn accepted() -> Opening {
        Opening { side: Side::Acceptor, as_stranger: false, dial: None, on_up: None }
    }

    fn dialed(target: Target, endpoint: Endpoint) -> Opening {
        let dial = Some((target, endpoint));
        Opening { side: Side::Dialer, as_stranger: false, dial, on_up: None }
    }
}

/// Makes a link of a socket and enters it; `None` if the socket is gone already, or we have
/// stopped.
fn begin(inner: &Inner, stream: TcpStream, opening: Opening) -> Option<(Arc<Handle>, TcpStream)> {
    let Opening { side, as_stranger, dial, on_up } = opening;
    socket::prepare(&stream);
    let now_ns = clock::now().mono_ns;
    let Ok(remote) = stream.peer_addr() else {
        if let Some((target, _)) = dial {
            inner.state.lock().dial_failed(target, now_ns);
            inner.dial.notify_one();
        }
        return None;
    };
    let make = |id, hello| {
        let link = Link::new(side, Terms { hello, secret: inner.secret.clone() }, now_ns);
        let talk = Mutex::new(Talk { link, waiting: HashMap::new(), on_up, dial });
        Handle { id, remote, talk, wake: Notify::new() }
    };
    let (handle, oldest) = inner.state.lock().begin(side, as_stranger, make)?;
    if let Some(oldest) = oldest {
        oldest.drop_it("too many links that have not greeted");
    }
    Some((handle, stream))
}

/// Connects, greets as a stranger, calls, and closes.
pub(super) async fn call_stranger(
    inner: Arc<Inner>,
    to: Endpoint,
    kind: CallKind,
    body: Vec<u8>,
    patience: Duration,
) -> CallResult {
    let began_ns = clock::now().mono_ns;
    let stream = timeout(patience, connect(&inner, &to)).await.ok().flatten();
    let stream = stream.ok_or(CallError::NotConnected)?;
    let (on_up, up) = oneshot::channel();
    let opening = Opening { side: Side::Dialer, as_stranger: true, dial: None, on_up: Some(on_up) };
    let begun = begin(&inner, stream, opening);
    let (handle, stream) = begun.ok_or(CallError::NotConnected)?;
    tokio::spawn(vital("link", task::run(inner, handle.clone(), stream)));
    let left = || {
        let past = clock::now().mono_ns.saturating_sub(began_ns);
        patience.saturating_sub(Duration::from_nanos(past))
    };
    let result = match timeout(left(), up).await {
        Ok(Ok(Ok(()))) => handle.call(kind, body, left()).await,
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) | Err(_) => Err(CallError::NotConnected),
    };
    handle.close(Refusal::Leaving);
    result
}
