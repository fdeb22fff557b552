//! An HTTP client, for hosts without curl.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::namespaces::PlaceNamespaces;
use super::reply::Printed;
use crate::text::reason;

/// The timeout of the connection, and then of each read.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of bytes of a response that are shown.
const MOST: u64 = 1 << 20;
/// The exit code of curl if it cannot connect.
const NOT_CONNECTED: u8 = 7;
/// The exit code of `curl --fail` if the server reports an error.
const FAILED: u8 = 22;

impl PlaceNamespaces {
    /// Gets a page from inside the place.
    pub fn get(&self, url: &str) -> Printed {
        let Some(page) = Page::of(url) else {
            let help = "Write it as `http://NAME:PORT/PATH`; only NAME is required.";
            return Printed::wrong(format_args!("`{url}` is not an HTTP URL"), help);
        };
        match self.run_inside(|| page.get()) {
            Ok(response) => {
                let Response { status, body } = Response::of(&response);
                let text = if body.is_empty() || body.ends_with('\n') { body.to_owned() } else { format!("{body}\n") };
                match status.split_once(' ') {
                    Some((_, status)) if status.starts_with(['4', '5']) => {
                        Printed { text, errors: format!("HTTP status {status}\n"), code: FAILED, ..Printed::default() }
                    }
                    _ => Printed::text(text),
                }
            }
            Err(error) => {
                let errors = format!("{} is not reachable: {}\n", page.authority, reason(error));
                Printed { errors, code: NOT_CONNECTED, ..Printed::default() }
            }
        }
    }
}

/// A page of a server.
#[derive(Debug, PartialEq, Eq)]
struct Page<'u> {
    /// The value of the `Host` header: the name or address, and the port if it is given.
    authority: &'u str,
    path: &'u str,
}

impl<'u> Page<'u> {
    fn of(url: &'u str) -> Option<Self> {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |text: &str| text.chars().all(|letter| letter.is_ascii_graphic());
        let is_page = !authority.is_empty() && !authority.ends_with(':') && is_plain(rest);
        is_page.then_some(Self { authority, path: if path.is_empty() { "/" } else { path } })
    }

    /// The addresses of the server.
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        const HTTP: u16 = 80;
        let is_name = |text: &str| !text.ends_with(']') && text.rsplit_once(':').is_some();
        if is_name(self.authority) {
            return Ok(self.authority.to_socket_addrs()?.collect());
        }
        let name = self.authority.trim_start_matches('[').trim_end_matches(']');
        Ok((name, HTTP).to_socket_addrs()?.collect())
    }

    fn get(&self) -> io::Result<String> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for address in self.addresses()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return self.read(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn read(&self, mut stream: TcpStream) -> io::Result<String> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let Self { authority, path } = self;
        // For this version, servers do not use chunks.
        let head = format!("GET {path} HTTP/1.0\r\nhost: {authority}\r\nuser-agent: svclab\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut response = Vec::new();
        stream.take(MOST).read_to_end(&mut response)?;
        Ok(String::from_utf8_lossy(&response).into_owned())
    }
}

/// The response of a server.
#[derive(Debug, PartialEq, Eq)]
struct Response<'r> {
    /// `HTTP/1.0 200 OK`; empty if the response is not HTTP.
    status: &'r str,
    body: &'r str,
}

impl<'r> Response<'r> {
    fn of(text: &'r str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.lines().next().unwrap_or_default();
        if status.starts_with("HTTP/") { Self { status, body } } else { Self { status: "", body: text } }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Page, Response};

    #[rstest]
    #[case::found("HTTP/1.0 200 OK\r\nserver: x\r\n\r\nhello\r\n\r\n", "HTTP/1.0 200 OK", "hello\r\n\r\n")]
    #[case::error("HTTP/1.1 503 Service Unavailable\r\n\r\n", "HTTP/1.1 503 Service Unavailable", "")]
    #[case::no_http("SSH-2.0\r\n", "", "SSH-2.0\r\n")]
    fn a_response_is_read(#[case] text: &str, #[case] status: &str, #[case] body: &str) {
        assert_eq!(Response::of(text), Response { status, body });
    }

    #[rstest]
    #[case("http://nginx", Some(("nginx", "/")))]
    #[case("nginx:8080/a?b", Some(("nginx:8080", "/a?b")))]
    #[case("http://[fd00::1]:80/", Some(("[fd00::1]:80", "/")))]
    #[case("https://nginx", None)]
    #[case("http://", None)]
    #[case("nginx\r\nhost: other", None)]
    fn a_page_is_named_by_its_url(#[case] url: &str, #[case] expected: Option<(&str, &str)>) {
        assert_eq!(Page::of(url), expected.map(|(authority, path)| Page { authority, path }));
    }
}
