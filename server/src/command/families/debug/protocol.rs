//! DEBUG PROTOCOL: one example of each reply type, with Redis's values, for client tests.

use crate::command::{Args, CommandError, NodeCx, Outcome};
use crate::resp::Proto;

pub(super) fn protocol(cx: &mut NodeCx<'_>, args: &Args<'_>) -> Outcome {
    let kind = String::from_utf8_lossy(args.at(2)).to_ascii_lowercase();
    let reply = &mut cx.reply;
    match kind.as_str() {
        "string" => reply.bulk(b"Hello World"),
        "integer" => reply.int(12345),
        // What Redis sends; the suite compares it.
        #[allow(clippy::approx_constant, reason = "not meant as pi")]
        "double" => reply.double(3.141),
        "bignum" => reply.big_number("1234567999999999999999999999999999999"),
        "null" => reply.null(),
        "array" => {
            reply.array(3);
            (0..3).for_each(|i| reply.int(i));
        }
        "set" => {
            reply.set(3);
            (0..3).for_each(|i| reply.int(i));
        }
        "map" => {
            reply.map(3);
            for i in 0..3 {
                reply.int(i);
                reply.boolean(i == 1);
            }
        }
        "attrib" => {
            if reply.proto == Proto::Resp3 {
                reply.out.extend_from_slice(b"|1\r\n");
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        "push" => {
            if reply.proto == Proto::Resp2 {
                return Err(CommandError::err("RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        "true" => reply.boolean(true),
        "false" => reply.boolean(false),
        "verbatim" => reply.verbatim("txt", "This is a verbatim\nstring"),
        _ => {
            return Err(CommandError::Static(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
