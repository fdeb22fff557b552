//! A netlink connection to one namespace that sends requests in batches.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use nix::errno::Errno;
use rtnetlink::packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage, State};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use rtnetlink::proto::{self, ConnectionHandle};
use rtnetlink::sys::{SocketAddr, protocols::NETLINK_ROUTE};

use super::LabError;
use super::namespaces::Namespace;
use crate::kernel::patience;

/// The number of requests in one message, small enough for all acknowledgements to fit into the socket's buffer.
const BATCH: usize = 100;
/// The number of queries in one message: their answers are larger.
const QUESTIONS: usize = 25;
/// The time after which a reply counts as lost. The kernel answers a message before it takes the next, but first waits for the RTNL lock,
/// which all namespaces share: on a busy machine, the removal of other namespaces may hold it for many seconds.
const PATIENCE: Duration = Duration::from_secs(60);

type Message = NetlinkMessage<RouteNetlinkMessage>;
type Answers = Pin<Box<dyn Stream<Item = Message>>>;

/// Requests to one namespace, executed in order.
pub(super) struct Netlink {
    netns: String,
    handle: ConnectionHandle<RouteNetlinkMessage>,
    /// The requests that are not sent yet.
    requests: Vec<Message>,
    /// What each request does, for errors.
    operations: Vec<String>,
}

impl Netlink {
    /// Connects to a namespace. Must be called inside the lab's runtime.
    pub(super) fn connect(namespace: &Namespace) -> Result<Self, LabError> {
        let netns = namespace.name().to_owned();
        let connected = namespace.run(|| proto::new_connection(NETLINK_ROUTE))?;
        let (mut connection, handle, _) = connected.map_err(LabError::socket(&netns, "opening netlink"))?;
        // Otherwise a connection that closes looks like a request that was acknowledged.
        connection.set_forward_ack(true);
        tokio::spawn(connection);
        Ok(Self { netns, handle, requests: Vec::new(), operations: Vec::new() })
    }

    /// Adds a request that creates something; `operation` says what, for the error.
    pub(super) async fn create(&mut self, operation: String, message: RouteNetlinkMessage) -> Result<(), LabError> {
        self.add(operation, message, NLM_F_CREATE | NLM_F_EXCL).await
    }

    /// Adds a request that changes or deletes something.
    pub(super) async fn change(&mut self, operation: String, message: RouteNetlinkMessage) -> Result<(), LabError> {
        self.add(operation, message, 0).await
    }

    /// Adds a request that creates something or replaces what exists.
    pub(super) async fn replace(&mut self, operation: String, message: RouteNetlinkMessage) -> Result<(), LabError> {
        self.add(operation, message, NLM_F_CREATE | NLM_F_REPLACE).await
    }

    async fn add(&mut self, operation: String, message: RouteNetlinkMessage, flags: u16) -> Result<(), LabError> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        self.requests.push(request);
        self.operations.push(operation);
        if self.requests.len() == BATCH { self.finish().await } else { Ok(()) }
    }

    /// Sends the pending requests and waits until all of them are acknowledged.
    ///
    /// # Errors
    ///
    /// The first request that the kernel rejected or did not answer.
    pub(super) async fn finish(&mut self) -> Result<(), LabError> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let (requests, operations) = (std::mem::take(&mut self.requests), std::mem::take(&mut self.operations));
        let answers = self.send(requests)?;
        self.acknowledged(operations, answers, patience(PATIENCE)).await
    }

    /// Waits for the acknowledgement of each operation.
    async fn acknowledged(
        &self,
        operations: Vec<String>,
        mut answers: Answers,
        patience: Duration,
    ) -> Result<(), LabError> {
        for operation in operations {
            match next(&mut answers, patience).await {
                Some(NetlinkPayload::Error(answer)) => self.judge(&answer, operation)?,
                _ => return Err(self.broken(&format_args!("no acknowledgement of {operation}"))),
            }
        }
        Ok(())
    }

    /// Returns how many of the interfaces with these indices are operationally up (RFC 2863).
    ///
    /// They are queried one by one, because kernels from 6.8 on then process an interface's pending link events at once
    /// (`linkwatch_sync_dev` in net/core/rtnetlink.c).
    pub(super) async fn count_up(&mut self, indices: &[u32]) -> Result<usize, LabError> {
        let mut up = 0;
        for some in indices.chunks(QUESTIONS) {
            let mut answers = self.send(some.iter().map(|index| question(*index)).collect())?;
            for index in some {
                let operation = format!("querying interface {index}");
                match next(&mut answers, patience(PATIENCE)).await {
                    Some(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link))) => {
                        up += usize::from(link.attributes.contains(&LinkAttribute::OperState(State::Up)));
                    }
                    Some(NetlinkPayload::Error(answer)) => self.judge(&answer, operation)?,
                    _ => return Err(self.broken(&format_args!("no answer to {operation}"))),
                }
            }
        }
        Ok(up)
    }

    /// Returns the number of packets in the queueing disciplines of the interfaces with these indices.
    pub(super) async fn count_queued(&mut self, indices: &[u32]) -> Result<u64, LabError> {
        let mut queued = 0;
        for some in indices.chunks(QUESTIONS) {
            let mut answers = self.send(some.iter().map(|index| question_of_queue(*index)).collect())?;
            for index in some {
                let operation = format!("querying the queue of interface {index}");
                match next(&mut answers, patience(PATIENCE)).await {
                    Some(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(qdisc))) => {
                        let length = queue_length(&qdisc)
                            .ok_or_else(|| self.broken(&format_args!("no answer to {operation}")))?;
                        queued += u64::from(length);
                    }
                    Some(NetlinkPayload::Error(answer)) => self.judge(&answer, operation)?,
                    _ => return Err(self.broken(&format_args!("no answer to {operation}"))),
                }
            }
        }
        Ok(queued)
    }

    /// Sends requests as one message; the answers arrive in the same order.
    fn send(&self, messages: Vec<Message>) -> Result<Answers, LabError> {
        let kernel = SocketAddr::new(0, 0);
        let answers = self.handle.request_batch(messages, kernel).map_err(|error| self.broken(&error))?;
        Ok(Box::pin(answers))
    }

    /// An error message without a code is an acknowledgement.
    fn judge(&self, answer: &ErrorMessage, operation: String) -> Result<(), LabError> {
        match answer.code {
            None => Ok(()),
            Some(code) => {
                let errno = Errno::from_raw(code.get().abs());
                Err(LabError::Netlink { netns: self.netns.clone(), operation, errno })
            }
        }
    }

    /// The name of the namespace.
    pub(super) fn netns(&self) -> &str {
        &self.netns
    }

    /// An error of the connection itself.
    pub(super) fn broken(&self, error: &dyn std::fmt::Display) -> LabError {
        LabError::Connection { netns: self.netns.clone(), what: error.to_string() }
    }
}

/// The next answer; `None` if none arrives in time or the connection is closed.
async fn next(answers: &mut Answers, patience: Duration) -> Option<NetlinkPayload<RouteNetlinkMessage>> {
    let answer = tokio::time::timeout(patience, answers.next()).await.ok()??;
    Some(answer.payload)
}

/// Asks for the root queueing discipline of an interface, with its statistics.
fn question_of_queue(index: u32) -> Message {
    let mut qdisc = TcMessage::default();
    qdisc.header.index = i32::try_from(index).unwrap_or_default();
    qdisc.header.parent = TcHandle::ROOT;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetQueueDiscipline(qdisc));
    // Without NLM_F_ECHO only the listeners for changes get the answer (`qdisc_get_notify`).
    request.header.flags = NLM_F_REQUEST | NLM_F_ECHO;
    request
}

fn queue_length(qdisc: &TcMessage) -> Option<u32> {
    let statistics = qdisc.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Stats2(statistics) => Some(statistics),
        _ => None,
    })?;
    statistics.iter().find_map(|one| match one {
        TcStats2::Queue(queue) => Some(queue.qlen),
        _ => None,
    })
}

fn question(index: u32) -> Message {
    let mut link = LinkMessage::default();
    link.header.index = index;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
    request.header.flags = NLM_F_REQUEST;
    request
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroI32;

    use futures_util::stream;

    use super::*;

    /// A connection without a peer.
    fn unserved() -> (Netlink, impl Sized) {
        let (connection, handle, _) = proto::new_connection(NETLINK_ROUTE).expect("a netlink socket");
        (Netlink { netns: "here".to_owned(), handle, requests: Vec::new(), operations: Vec::new() }, connection)
    }

    fn answers(codes: &[i32]) -> Answers {
        let answer = |code: &i32| {
            let mut error = ErrorMessage::default();
            error.code = NonZeroI32::new(*code);
            NetlinkMessage::new(Default::default(), NetlinkPayload::Error(error))
        };
        Box::pin(stream::iter(codes.iter().map(answer).collect::<Vec<_>>()))
    }

    #[rstest::rstest]
    #[case::all_acknowledged(answers(&[0, 0]), "")]
    #[case::the_second_rejected(answers(&[0, -17]), "second in here: file exists")]
    #[case::the_second_lost(answers(&[0]), "netlink in here: no acknowledgement of second")]
    #[case::silence(Box::pin(stream::pending()), "netlink in here: no acknowledgement of first")]
    #[tokio::test]
    async fn every_request_is_acknowledged(#[case] answers: Answers, #[case] expected: &str) {
        let (netlink, _connection) = unserved();
        let operations = vec!["first".to_owned(), "second".to_owned()];
        let acknowledged = netlink.acknowledged(operations, answers, Duration::from_millis(1)).await;
        assert_eq!(acknowledged.err().map_or_else(String::new, |error| error.to_string()), expected);
    }

    #[tokio::test]
    async fn a_connection_that_ends_acknowledges_nothing() {
        let (mut netlink, connection) = unserved();
        let up = RouteNetlinkMessage::SetLink(LinkMessage::default());
        netlink.change("bringing lo up".to_owned(), up).await.expect("there is room for it");
        let (finished, ()) = tokio::join!(netlink.finish(), async { drop(connection) });
        let error = finished.expect_err("the request was lost");
        assert_eq!(error.to_string(), "netlink in here: no acknowledgement of bringing lo up");
    }
}
