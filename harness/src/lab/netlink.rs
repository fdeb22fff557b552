//! A netlink connection into one namespace, with many requests under way at once.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use nix::errno::Errno;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage, State};

use super::LabError;
use super::namespaces::Namespace;

/// How many requests may wait for their acknowledgement: as many as surely fit into the socket's buffer.
const WINDOW: usize = 100;

type Answers = Pin<Box<dyn Stream<Item = NetlinkMessage<RouteNetlinkMessage>>>>;

/// Requests to one namespace, carried out in their order.
pub(super) struct Netlink {
    space: String,
    handle: rtnetlink::Handle,
    pending: VecDeque<(String, Answers)>,
}

impl Netlink {
    /// Connects to a namespace. Must be called inside of the lab's runtime.
    pub(super) fn connect(namespace: &Namespace) -> Result<Self, LabError> {
        let space = namespace.name().to_owned();
        let connected = namespace.run(rtnetlink::new_connection)?;
        let (connection, handle, _) =
            connected.map_err(|source| LabError::Socket { space: space.clone(), what: "opening netlink", source })?;
        tokio::spawn(connection);
        Ok(Self { space, handle, pending: VecDeque::new() })
    }

    /// Sends a request that creates something; `operation` says what, for the error.
    pub(super) async fn create(&mut self, operation: String, message: RouteNetlinkMessage) -> Result<(), LabError> {
        self.send(operation, message, NLM_F_CREATE | NLM_F_EXCL).await
    }

    /// Sends a request that changes something.
    pub(super) async fn change(&mut self, operation: String, message: RouteNetlinkMessage) -> Result<(), LabError> {
        self.send(operation, message, 0).await
    }

    /// Sends a request that creates something or replaces what stands there.
    pub(super) async fn replace(&mut self, operation: String, message: RouteNetlinkMessage) -> Result<(), LabError> {
        self.send(operation, message, NLM_F_CREATE | NLM_F_REPLACE).await
    }

    async fn send(&mut self, operation: String, message: RouteNetlinkMessage, flags: u16) -> Result<(), LabError> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let answers = self.handle.request(request).map_err(|error| self.broken(&error))?;
        self.pending.push_back((operation, Box::pin(answers)));
        if self.pending.len() > WINDOW { self.settle(WINDOW / 2).await } else { Ok(()) }
    }

    /// Waits until all requests are acknowledged.
    ///
    /// # Errors
    ///
    /// The first request that the kernel refused.
    pub(super) async fn finish(&mut self) -> Result<(), LabError> {
        self.settle(0).await
    }

    async fn settle(&mut self, left: usize) -> Result<(), LabError> {
        while self.pending.len() > left {
            let Some((operation, mut answers)) = self.pending.pop_front() else { break };
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload
                    && let Some(code) = error.code
                {
                    let errno = Errno::from_raw(code.get().abs());
                    return Err(LabError::Netlink { space: self.space.clone(), operation, errno });
                }
            }
        }
        Ok(())
    }

    /// True when every interface with one of these indices is up, as the kernel sees it (RFC 2863).
    ///
    /// They are asked for one by one: then kernels from 6.8 on finish at once what is pending for them (`linkwatch_sync_dev`
    /// in net/core/rtnetlink.c).
    pub(super) async fn all_up(&mut self, indices: &[u32]) -> Result<bool, LabError> {
        let mut up = 0;
        for some in indices.chunks(WINDOW) {
            let asked = some.iter().map(|index| self.ask_for_link(*index)).collect::<Result<Vec<_>, _>>()?;
            for mut answers in asked {
                while let Some(answer) = answers.next().await {
                    if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = answer.payload {
                        up += usize::from(link.attributes.contains(&LinkAttribute::OperState(State::Up)));
                    }
                }
            }
        }
        Ok(up == indices.len())
    }

    fn ask_for_link(&mut self, index: u32) -> Result<Answers, LabError> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
        request.header.flags = NLM_F_REQUEST;
        let answers = self.handle.request(request).map_err(|error| self.broken(&error))?;
        Ok(Box::pin(answers))
    }

    /// The name of the namespace.
    pub(super) fn space(&self) -> &str {
        &self.space
    }

    /// An error of the connection itself.
    pub(super) fn broken(&self, error: &dyn std::fmt::Display) -> LabError {
        LabError::Connection { space: self.space.clone(), what: error.to_string() }
    }
}
