//! CLIENT LIST and INFO: a line for each client, fields as Redis 7.2 names them.
//!
//! slotd's buffers belong to its worker threads, so a client's own ones are what it left over:
//! `qbuf` is unfinished input, `obl` unsent output, and `rbs` (a fixed reply buffer) is 0.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::command::client::client_flag;
use crate::command::{Args, ClientShared, CommandError, CommandId, NodeCx, Outcome, registry};
use crate::store::number::parse_i64;

/// A class of clients, as TYPE names it. There are only normal ones until followers and
/// channels exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    Master,
    Replica,
    Pubsub,
}

impl ClientType {
    pub(super) fn parse(word: &[u8]) -> Result<ClientType, CommandError> {
        let all = [
            ("normal", ClientType::Normal),
            ("master", ClientType::Master),
            ("replica", ClientType::Replica),
            ("slave", ClientType::Replica),
            ("pubsub", ClientType::Pubsub),
        ];
        let found = all.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let word = String::from_utf8_lossy(word);
            CommandError::err(format_args!("Unknown client type '{word}'"))
        })
    }
}

/// CLIENT INFO.
pub(super) fn info(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let mut text = String::new();
    write_line(&mut text, cx, &cx.client.shared, args);
    cx.reply.verbatim("txt", text);
    Ok(())
}

/// CLIENT LIST [TYPE type] [ID id...].
pub(super) fn list(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let mut clients = cx.node.clients.all();
    if args.len() == 4 && args.is(2, "TYPE") {
        let wanted = ClientType::parse(args.at(3))?;
        clients.retain(|_| wanted == ClientType::Normal);
    } else if args.len() > 3 && args.is(2, "ID") {
        let ids = args
            .from(3)
            .map(|word| parse_i64(word).ok_or(CommandError::Static("ERR Invalid client ID")));
        let ids = ids.collect::<Result<Vec<i64>, _>>()?;
        let find = |id: &i64| u64::try_from(*id).ok().and_then(|id| cx.node.clients.find(id));
        clients = ids.iter().filter_map(find).collect();
    } else if args.len() != 2 {
        return Err(CommandError::Syntax);
    }
    let mut text = String::new();
    for client in &clients {
        write_line(&mut text, cx, client, args);
    }
    cx.reply.verbatim("txt", text);
    Ok(())
}

/// Letters of CLIENT LIST's flags, in Redis's order.
const LETTERS: [(u32, char); 7] = [
    (client_flag::READONLY, 'r'),
    (client_flag::MULTI, 'x'),
    (client_flag::BLOCKED, 'b'),
    (client_flag::DIRTY, 'd'),
    (client_flag::CLOSING, 'c'),
    (client_flag::NO_EVICT, 'e'),
    (client_flag::NO_TOUCH, 'T'),
];

fn flags_of(client: &ClientShared) -> String {
    let flags = client.flags.load(Ordering::Relaxed);
    let set: String = LETTERS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, c)| *c).collect();
    // A paused client waits as a blocked one does.
    match (set.is_empty(), flags & client_flag::PAUSED != 0) {
        (true, true) => "b".to_owned(),
        (true, false) => "N".to_owned(),
        _ => set,
    }
}

/// Bytes of a request as a client sends it.
fn request_bytes(args: &Args<'_>) -> u64 {
    let digits = |n: usize| n.checked_ilog10().unwrap_or(0) as u64 + 1;
    // `*n` and each `$n` take a letter and two line ends; so does each word behind its length.
    let head = digits(args.len()) + 3;
    head + args.from(0).map(|word| digits(word.len()) + word.len() as u64 + 5).sum::<u64>()
}

fn write_line(text: &mut String, cx: &NodeCx<'_>, client: &Arc<ClientShared>, args: &Args<'_>) {
    let me = client.id == cx.client.shared.id;
    let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    let seconds = |since: u64| cx.now.mono_ns.saturating_sub(since) / 1_000_000_000;
    // The request at hand was taken out of the input before its handler runs.
    let (asking, words) = match me {
        true => (request_bytes(args), args.from(0).map(<[u8]>::len).sum::<usize>() as u64),
        false => (0, 0),
    };
    let input = load(&client.input_bytes) + asking;
    let (output, queue) = (load(&client.output_bytes), load(&client.queue_bytes));
    let in_multi = client.has_flag(client_flag::MULTI);
    let multi = if in_multi { i64::from(client.queued.load(Ordering::Relaxed)) } else { -1 };
    let names = client.names();
    let last = client.last_command.load(Ordering::Relaxed);
    let command = match u16::try_from(last) {
        Ok(id) if last != u32::MAX => registry().entry(CommandId(id)).full_name.as_str(),
        _ => "NULL",
    };
    let events = if output > 0 { "rw" } else { "r" };
    let resp = if client.has_flag(client_flag::RESP3) { 3 } else { 2 };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let _ = writeln!(
        text,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 \
         multi={multi} qbuf={input} qbuf-free=0 argv-mem={words} multi-mem={queue} \
         rbs=0 rbp=0 obl={output} oll=0 omem=0 tot-mem={} events={events} cmd={command} \
         user=default redir=-1 resp={resp} lib-name={} lib-ver={}",
        client.id,
        client.addr,
        client.laddr,
        client.fd,
        lossy(&names.name),
        seconds(client.since_ns),
        seconds(load(&client.active_ns)),
        flags_of(client),
        client.bytes() + asking + words,
        lossy(&names.lib_name),
        lossy(&names.lib_ver),
    );
}
