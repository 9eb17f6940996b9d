//! HTTP/1.1 (RFC 9112) for one page: which answer a request gets, and whether the connection stays.

use alloc::format;
use alloc::vec::Vec;

/// Bytes of the page, and of the longest head of a request.
const PAGE: usize = 1024;
pub(crate) const HEAD: usize = 8 << 10;

/// Places in [`answers`]: four of each kind, by whether the connection closes, and whether the body is left out.
const FOUND: usize = 0;
const MISSING: usize = 4;
const METHOD: usize = 8;
const BAD: usize = 12;
pub(crate) const CLOSES: usize = 1;
const BARE: usize = 2;

/// All answers, whole.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    let mut page = Vec::from(&b"<!doctype html><title>Chitin</title><p>TCP is a library here.\n"[..]);
    page.resize(PAGE, b' ');
    let kinds = [
        ("200 OK", &page[..]),
        ("404 Not Found", b"no such page\n"),
        ("405 Method Not Allowed", b""),
        ("400 Bad Request", b""),
    ];
    let whole = |(status, body): (&str, &[u8]), form: usize| {
        let connection = if form & CLOSES == 0 { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\nConnection: {connection}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), if form & BARE == 0 { body } else { b"" }].concat()
    };
    kinds.into_iter().flat_map(|kind| [0, 1, 2, 3].map(|form| whole(kind, form))).collect()
}

/// Takes the first request out of what has come, and gives the place of its answer; `None`: it is not whole.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<usize> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return (bytes.len() > HEAD).then(|| bad(bytes));
    };
    let head: Vec<u8> = bytes.drain(..end + 4).take(end).collect();
    Some(core::str::from_utf8(&head).ok().and_then(answer).unwrap_or_else(|| bad(bytes)))
}

fn bad(bytes: &mut Vec<u8>) -> usize {
    bytes.clear();
    BAD + CLOSES
}

/// The place of the answer to a head; `None` where it is wrong, or the request has a body.
fn answer(head: &str) -> Option<usize> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let fields: Option<Vec<(&str, &str)>> = lines.map(|line| line.split_once(':')).collect();
    let fields = fields?;
    let field =
        |name: &str| fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim());
    let has_body = field("content-length").is_some_and(|length| length != "0") || field("transfer-encoding").is_some();
    let is_old = version == "HTTP/1.0";
    if words.next().is_some() || has_body || !is_old && (version != "HTTP/1.1" || field("host").is_none()) {
        return None;
    }
    let wanted = field("connection").unwrap_or_default();
    let closes = wanted.eq_ignore_ascii_case("close") || is_old && !wanted.eq_ignore_ascii_case("keep-alive");
    let place = match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/" | "/index.html")) => FOUND,
        ("GET" | "HEAD", _) => MISSING,
        _ => METHOD,
    };
    Some(place + usize::from(closes) * CLOSES + usize::from(method == "HEAD") * BARE)
}
