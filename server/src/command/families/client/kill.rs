//! CLIENT KILL, in its old form (one address) and its new one (filters).

use std::sync::Arc;

use super::list::ClientType;
use crate::command::{Args, ClientShared, CommandError, NodeCx, Outcome};
use crate::store::number::parse_i64;

/// Who is killed: every filter that is set must hold.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    kind: Option<ClientType>,
    /// Connected for at least so many seconds.
    min_age_s: Option<u64>,
    spare_me: bool,
}

impl Filter<'_> {
    fn fits(&self, client: &ClientShared, now_ns: u64) -> bool {
        let age_s = now_ns.saturating_sub(client.since_ns) / 1_000_000_000;
        self.id.is_none_or(|id| client.id == id)
            && self.addr.is_none_or(|addr| client.addr.as_bytes() == addr)
            && self.laddr.is_none_or(|laddr| client.laddr.as_bytes() == laddr)
            && self.kind.is_none_or(|kind| kind == ClientType::Normal)
            && self.min_age_s.is_none_or(|min| age_s >= min)
    }
}

fn parse<'a>(args: &Args<'a>) -> Result<Filter<'a>, CommandError> {
    let mut filter = Filter { spare_me: true, ..Filter::default() };
    let mut at = 2;
    while at < args.len() {
        let value = args.opt(at + 1).ok_or(CommandError::Syntax)?;
        if args.is(at, "ID") {
            let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            filter.id =
                Some(id.ok_or(CommandError::Static("ERR client-id should be greater than 0"))?);
        } else if args.is(at, "TYPE") {
            filter.kind = Some(ClientType::parse(value)?);
        } else if args.is(at, "ADDR") {
            filter.addr = Some(value);
        } else if args.is(at, "LADDR") {
            filter.laddr = Some(value);
        } else if args.is(at, "USER") {
            if value != b"default" {
                let user = String::from_utf8_lossy(value);
                return Err(CommandError::err(format_args!("No such user '{user}'")));
            }
        } else if args.is(at, "MAXAGE") {
            let age = parse_i64(value)
                .ok_or(CommandError::Static("ERR maxage is not an integer or out of range"))?;
            let positive = u64::try_from(age).ok().filter(|age| *age > 0);
            filter.min_age_s =
                Some(positive.ok_or(CommandError::Static("ERR maxage should be greater than 0"))?);
        } else if args.is(at, "SKIPME") {
            filter.spare_me = match value {
                v if v.eq_ignore_ascii_case(b"yes") => true,
                v if v.eq_ignore_ascii_case(b"no") => false,
                _ => return Err(CommandError::Syntax),
            };
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    Ok(filter)
}

/// CLIENT KILL.
pub(super) fn kill(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let old_form = args.len() == 3;
    let filter = match old_form {
        true => Filter { addr: Some(args.at(2)), ..Filter::default() },
        false => parse(args)?,
    };
    let me = cx.client.shared.id;
    let victims: Vec<Arc<ClientShared>> = cx
        .node
        .clients
        .all()
        .into_iter()
        .filter(|c| filter.fits(c, cx.now.mono_ns) && !(filter.spare_me && c.id == me))
        .collect();
    for victim in &victims {
        if victim.id == me {
            // Its own answer still goes out, and while the gate holds it the client must be found.
            cx.client.close_after_reply = true;
            continue;
        }
        victim.kill();
        // Gone for CLIENT LIST and INFO from now on, whenever its task gets to see it.
        cx.node.clients.remove(victim.id);
    }
    match (old_form, victims.is_empty()) {
        (true, true) => return Err(CommandError::Static("ERR No such client")),
        (true, false) => cx.reply.ok(),
        (false, _) => cx.reply.int(victims.len() as i64),
    }
    Ok(())
}
