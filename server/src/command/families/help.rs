//! The HELP subcommands: one way to print them.

use crate::resp::Reply;

/// Writes a container's help: each line a status reply, as Redis does. `lines` alternate between
/// a grammar and an indented explanation.
pub fn write(reply: &mut Reply<'_>, container: &str, lines: &[&str]) {
    reply.array(lines.len() + 3);
    let head = "<subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
    reply.simple(format!("{container} {head}"));
    for line in lines {
        reply.simple(line);
    }
    reply.simple("HELP");
    reply.simple("    Print this help.");
}
