//! As much HTTP as a scrape takes: one request head in, one response out, then the connection
//! ends. Not the socket, and no body is ever read.
//!
//! Invariant: a head is judged only when it is whole, and never longer than `MAX_HEAD_BYTES`.

/// Longest request head, bytes; scrapers send some 300, proxies add a few headers.
pub const MAX_HEAD_BYTES: usize = 8192;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Which page.
    pub page: Page,
    /// HEAD: the answer's body is left out.
    pub head_only: bool,
}

/// The pages there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// `/metrics`.
    Metrics,
    /// `/healthz`.
    Health,
}

/// An answer's first line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// 200.
    Ok,
    /// 400: not HTTP/1.
    BadRequest,
    /// 404: no such page.
    NotFound,
    /// 405: neither GET nor HEAD.
    BadMethod,
    /// 431: the head is too long.
    TooLong,
    /// 503: not ready.
    Unavailable,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::BadMethod => "405 Method Not Allowed",
            Status::TooLong => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// What has come so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// Not whole yet: read on.
    Unfinished,
    /// A request for a page.
    Asks(Request),
    /// Anything else, answered with this.
    Refused(Status),
}

/// Judges the bytes read so far.
pub fn judge(bytes: &[u8]) -> Head {
    let ends_at = |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    let Some(end) = ends_at(b"\r\n\r\n").or_else(|| ends_at(b"\n\n")) else {
        return match bytes.len() < MAX_HEAD_BYTES {
            true => Head::Unfinished,
            false => Head::Refused(Status::TooLong),
        };
    };
    let line = bytes[..end].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, b"HTTP/1.1" | b"HTTP/1.0"] = words[..] else {
        return Head::Refused(Status::BadRequest);
    };
    let head_only = match method {
        b"GET" => false,
        b"HEAD" => true,
        _ => return Head::Refused(Status::BadMethod),
    };
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let page = match path {
        b"/metrics" => Page::Metrics,
        b"/healthz" => Page::Health,
        _ => return Head::Refused(Status::NotFound),
    };
    Head::Asks(Request { page, head_only })
}

/// What the pages are made of.
const PLAIN: &str = "text/plain; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer to a request.
pub fn answer(request: Request, status: Status, body: &str) -> Vec<u8> {
    let kind = match request.page {
        Page::Metrics => EXPOSITION,
        Page::Health => PLAIN,
    };
    let mut bytes = head(status, kind, body.len());
    if !request.head_only {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

/// The answer to what is no request for a page; its body says what there is.
pub fn refusal(status: Status) -> Vec<u8> {
    let body = "GET /metrics or /healthz\n";
    let mut bytes = head(status, PLAIN, body.len());
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

fn head(status: Status, kind: &str, body_bytes: usize) -> Vec<u8> {
    let allow = match status {
        Status::BadMethod => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {body_bytes}\r\n{allow}\
         Connection: close\r\n\r\n",
        status.line()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: Head = Head::Asks(Request { page: Page::Metrics, head_only: false });

    #[test]
    fn heads_are_judged_when_whole() {
        let whole = b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(judge(&whole[..end]), Head::Unfinished, "{end} bytes");
        }
        assert_eq!(judge(whole), METRICS);
    }

    #[test]
    fn requests_and_what_is_none() {
        use Status::{BadMethod, BadRequest, NotFound};
        let health = |head_only| Head::Asks(Request { page: Page::Health, head_only });
        for (line, wanted) in [
            ("GET /metrics HTTP/1.0", METRICS),
            ("GET /metrics?name[]=up HTTP/1.1", METRICS),
            ("HEAD /healthz HTTP/1.1", health(true)),
            ("GET /healthz HTTP/1.1", health(false)),
            ("GET / HTTP/1.1", Head::Refused(NotFound)),
            ("GET /metrics/ HTTP/1.1", Head::Refused(NotFound)),
            ("POST /metrics HTTP/1.1", Head::Refused(BadMethod)),
            ("get /metrics HTTP/1.1", Head::Refused(BadMethod)),
            ("GET /metrics HTTP/2.0", Head::Refused(BadRequest)),
            ("GET  /metrics HTTP/1.1", Head::Refused(BadRequest)),
            ("*1\r\n$4\r\nPING", Head::Refused(BadRequest)),
            ("", Head::Refused(BadRequest)),
        ] {
            assert_eq!(judge(format!("{line}\r\n\r\n").as_bytes()), wanted, "{line:?}");
            assert_eq!(judge(format!("{line}\n\n").as_bytes()), wanted, "{line:?}");
        }
    }

    #[test]
    fn a_head_without_an_end_is_refused_at_its_limit() {
        let mut bytes = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
        bytes.resize(MAX_HEAD_BYTES - 1, b'x');
        assert_eq!(judge(&bytes), Head::Unfinished);
        bytes.push(b'x');
        assert_eq!(judge(&bytes), Head::Refused(Status::TooLong));
    }

    #[test]
    fn answers_say_their_length_and_end_the_connection() {
        let request = Request { page: Page::Health, head_only: false };
        let whole = answer(request, Status::Unavailable, "not ready: x\n");
        let whole = String::from_utf8(whole).expect("ASCII");
        assert_eq!(
            whole,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 13\r\nConnection: close\r\n\r\nnot ready: x\n"
        );
        let head = answer(Request { head_only: true, ..request }, Status::Ok, "ready\n");
        assert!(head.ends_with(b"\r\n\r\n") && head.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let refused = String::from_utf8(refusal(Status::BadMethod)).expect("ASCII");
        assert!(refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    }
}
