//! Name server of the peer (RFC 1035): names that end in `.test` are the peer's own, and no others are there.

use super::IP;

const HEADER: usize = 12;
/// Seconds.
const LIFE: u32 = 60;
/// Kind and class of a question for an IPv4 address.
const ADDRESS: [u8; 4] = [0, 1, 0, 1];
const NO_SUCH_NAME: u8 = 3;
/// The name of the question, by its place.
const SAME_NAME: [u8; 2] = [0xc0, HEADER as u8];

/// The answer to one question.
pub fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let header = query.first_chunk::<HEADER>()?;
    let is_question = header[2] & 0xf8 == 0 && header[4..6] == [0, 1];
    let (name, rest) = is_question.then(|| name(&query[HEADER..])).flatten()?;
    let kind = query.get(query.len() - rest..)?.first_chunk::<4>()?;
    let question = &query[HEADER..query.len() - rest + 4];
    let is_own = name.ends_with(".test") || name == "test";
    let found = is_own && *kind == ADDRESS;
    let code = if is_own { 0 } else { NO_SUCH_NAME };
    let wanted = header[2] & 1;
    let fixed = [header[0], header[1], 0x84 | wanted, 0x80 | code, 0, 1, 0, u8::from(found), 0, 0, 0, 0];
    let mut all = [&fixed[..], question].concat();
    if found {
        all.extend([&SAME_NAME[..], &ADDRESS, &LIFE.to_be_bytes(), &[0, 4], &IP.octets()].concat());
    }
    Some(all)
}

/// The name at the beginning, in small letters, and the number of bytes behind it.
fn name(mut bytes: &[u8]) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let (length, rest) = bytes.split_first()?;
        if *length == 0 {
            return Some((labels.join("."), rest.len()));
        }
        // A pointer has its high bits set: a question has none.
        let (label, rest) = rest.split_at_checked(usize::from(*length)).filter(|_| *length < 64)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u8) -> Vec<u8> {
        let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
        [7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0].into_iter().chain(labels).chain([0, 0, kind, 0, 1]).collect()
    }

    #[test]
    fn own_names_have_an_address_and_others_are_not_there() {
        let own = answer(&query("Peer.test", 1)).unwrap();
        assert_eq!(own[..12], [7, 9, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert!(own.ends_with(&IP.octets()));
        let no_address = answer(&query("peer.test", 28)).unwrap();
        assert_eq!((no_address[3], no_address[7]), (0x80, 0));
        let other = answer(&query("latest", 1)).unwrap();
        assert_eq!((other[3], other[7]), (0x83, 0));
    }

    #[test]
    fn garbage_has_no_answer() {
        let whole = query("a.test", 1);
        assert!((0..whole.len()).all(|end| answer(&whole[..end]).is_none()));
        let mut pointer = whole.clone();
        pointer[12] = 0xc0;
        assert!(answer(&pointer).is_none());
        let mut response = whole;
        response[2] |= 0x80;
        assert!(answer(&response).is_none());
    }
}
