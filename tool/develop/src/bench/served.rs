//! Servers, measured from outside: a client on the host asks for documents through a network card. The plugin counts
//! what the whole machine executes meanwhile (`bench/plugin/events.c`).
//!
//! The card is one of QEMU's network `user`, which leads a port of the host's loopback to it. What the client executes
//! does not count. The machine's clock is that of the host: the counting clock runs while the machine waits.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use chitin::failure::{Context, Failure, Result};
use chitin::qemu::{Forward, Link, NetworkCard, Transport};

use super::report::Figure;

/// Connections, which are kept. Each has one request at a time.
const CLIENTS: usize = 8;
/// Samples, bytes of documents of a sample, and requests of one.
const SAMPLES: usize = 11;
const BYTES: usize = 6 << 20;
const REQUESTS: core::ops::RangeInclusive<usize> = 80..=400;
/// How long one answer may take, and how long the client waits before it tries again.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// A network card, and the port of the host that leads to its port 80.
///
/// # Errors
/// When no port is free.
pub fn card() -> Result<(u16, NetworkCard)> {
    const WHAT: &str = "a free port of the host";
    let place = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(WHAT)?.local_addr().context(WHAT)?;
    let forward = Forward { transport: Transport::Stream, address: Ipv4Addr::LOCALHOST, host: place.port(), guest: 80 };
    let address = [0x52, 0x54, 0, 0, 0, 1];
    Ok((place.port(), NetworkCard { link: Link::User, address, packets: None, forwards: vec![forward] }))
}

/// Asks the server behind a port, which may still be coming up, for each of its documents: a figure each, of that name.
/// Each sample is a stretch in what the plugin writes to `out`; the figures have none of the numbers yet.
///
/// # Errors
/// When it does not answer in time, or with anything but a document.
pub fn measure(port: u16, documents: &[String], out: &Path, deadline: Instant) -> Result<Vec<Figure>> {
    let mut stretches = 0;
    let figure = |name: &String| measure_one((port, name), out, deadline, &mut stretches);
    documents.iter().map(figure).collect()
}

fn measure_one((port, name): (u16, &String), out: &Path, deadline: Instant, number: &mut u64) -> Result<Figure> {
    let mut clients = (0..CLIENTS).map(|_| Client::connect(port, name, deadline)).collect::<Result<Vec<_>>>()?;
    let requests = (BYTES / clients[0].length).clamp(*REQUESTS.start(), *REQUESTS.end()) / CLIENTS * CLIENTS;
    let mut file = out.as_os_str().to_owned();
    file.push(".window");
    let window = File::options().write(true).open(&file).context("the plugin's file")?;
    let mut want = |odd: bool| {
        *number += 2 - (*number + u64::from(odd)) % 2;
        window.write_all_at(&number.to_le_bytes(), 0).context("the plugin's file")
    };
    ask(&mut clients, requests)?;
    for _ in 0..SAMPLES {
        want(true)?;
        ask(&mut clients, requests)?;
    }
    want(false)?;
    // A machine that executes nothing does not see where the last stretch ends.
    ask(&mut clients, CLIENTS)?;
    let samples = vec![0; SAMPLES];
    let operations = requests as u64;
    Ok(Figure { name: name.clone(), operations, samples, is_from_outside: true, ..Figure::default() })
}

/// All clients send a request each, then take their answers, over and over.
fn ask(clients: &mut [Client], requests: usize) -> Result<()> {
    for _ in 0..requests / CLIENTS {
        clients.iter_mut().try_for_each(Client::send)?;
        clients.iter_mut().try_for_each(Client::take)?;
    }
    Ok(())
}

struct Client {
    stream: TcpStream,
    request: String,
    /// Bytes of a whole answer.
    length: usize,
}

impl Client {
    /// A connection that has had its first answer. QEMU takes connections for a machine that does not serve yet.
    fn connect(port: u16, name: &str, deadline: Instant) -> Result<Self> {
        loop {
            match Self::try_connect(port, name) {
                Err(failure) if Instant::now() > deadline => return Err(failure),
                Err(_) => thread::sleep(PAUSE),
                done => return done,
            }
        }
    }

    fn try_connect(port: u16, name: &str) -> Result<Self> {
        const WHAT: &str = "a connection to the server";
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&place, PATIENCE).context(WHAT)?;
        stream.set_nodelay(true).context(WHAT)?;
        stream.set_read_timeout(Some(PATIENCE)).context(WHAT)?;
        let request = format!("GET /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n");
        let mut client = Self { stream, request, length: 0 };
        client.send()?;
        let mut answer = Vec::new();
        while client.length == 0 || answer.len() < client.length {
            let mut some = [0; 4096];
            let count = client.stream.read(&mut some).context(WHAT)?;
            answer.extend_from_slice(&some[..count]);
            if count == 0 || answer.len() >= 12 && !answer.starts_with(b"HTTP/1.1 200") {
                return Err(Failure::new("the server has no document"));
            }
            client.length = whole(&answer);
        }
        Ok(client)
    }

    fn send(&mut self) -> Result<()> {
        self.stream.write_all(self.request.as_bytes()).context("a request")
    }

    fn take(&mut self) -> Result<()> {
        let mut answer = vec![0; self.length];
        self.stream.read_exact(&mut answer).context("an answer")?;
        if whole(&answer) == self.length {
            return Ok(());
        }
        Err(ErrorKind::InvalidData).context("an answer")
    }
}

/// Bytes of an answer whose head is there: the head and what it says of the document. 0: it is not.
fn whole(answer: &[u8]) -> usize {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return 0 };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    end + 4 + length.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server on the host that gives each request of each connection this answer.
    fn server(answer: Vec<u8>) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = answer.clone();
                thread::spawn(move || serve(stream, &answer));
            }
        });
        port
    }

    fn serve(mut stream: TcpStream, answer: &[u8]) {
        let mut request = [0; 512];
        while stream.read(&mut request).is_ok_and(|count| request[..count].starts_with(b"GET /a HTTP/1.1\r\n")) {
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }

    fn measured(answer: Vec<u8>) -> (Result<Vec<Figure>>, u64) {
        let folder = chitin::scratch::folder().unwrap();
        let out = folder.path().join("events");
        std::fs::write(folder.path().join("events.window"), [0; 8]).unwrap();
        let figures = measure(server(answer), &["a".into(), "a".into()], &out, Instant::now());
        let number = std::fs::read(folder.path().join("events.window")).unwrap();
        (figures, u64::from_le_bytes(number.try_into().unwrap()))
    }

    #[test]
    fn a_server_is_asked_in_stretches() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n";
        let (figures, number) = measured([&head[..], &[b'd'; 40000]].concat());
        let figures = figures.unwrap();
        assert_eq!(figures.iter().map(|figure| figure.operations).collect::<Vec<_>>(), [152, 152]);
        assert!(figures.iter().all(|figure| figure.samples.len() == SAMPLES && figure.name == "a"));
        // Odd numbers begin a stretch each, and an even one ends a figure.
        assert_eq!(number, 2 * (2 * SAMPLES as u64));
    }

    #[test]
    fn a_server_without_the_document_is_told_of() {
        let (figures, number) = measured(b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec());
        assert!(figures.unwrap_err().to_string().contains("no document"));
        assert_eq!(number, 0);
    }
}
