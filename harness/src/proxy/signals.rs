//! The signals of a kube-proxy: `/healthz` and `/metrics`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::configuration::{HEALTH, METRICS};

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum size of a response in bytes. The metrics of a kube-proxy take some 100 KiB.
const MAX: u64 = 8 << 20;

/// When a sync last finished, in seconds since 1970, by family if the release distinguishes them.
const SYNCED: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
/// When a sync was last queued by a change.
const QUEUED: &str = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds";
/// The number of finished syncs: after the time above a kube-proxy still deletes connections.
const ENDED: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count";
/// How often iptables-restore or nft rejected the rules; the first metric in old releases, then one per mode.
const FAILURES: [&str; 2] = [
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
];

/// The signals of a kube-proxy at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Signals {
    /// Whether `/healthz` reports success.
    pub(super) is_healthy: bool,
    /// When a sync last finished and was last queued, by the labels of the metric.
    times: BTreeMap<String, Times>,
    /// How often rules were rejected.
    pub(super) failures: u64,
    /// The number of syncs that have finished completely; `None` if the program does not count them.
    ended: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Times {
    synced: f64,
    queued: f64,
}

impl Signals {
    /// Queries the kube-proxy in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If it does not listen yet, or does not answer.
    pub(super) fn ask() -> io::Result<Self> {
        let (health, _) = get(HEALTH, "/healthz")?;
        let (status, text) = get(METRICS, "/metrics")?;
        let signals = if status == 200 { Self::read(&text) } else { Self::default() };
        Ok(Self { is_healthy: health == 200, ..signals })
    }

    pub(super) fn read(text: &str) -> Self {
        let mut signals = Self::default();
        for line in text.lines().filter(|line| line.starts_with("kubeproxy_sync_")) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let times = || labels.to_owned();
            match name {
                SYNCED => signals.times.entry(times()).or_default().synced = value,
                QUEUED => signals.times.entry(times()).or_default().queued = value,
                ENDED => *signals.ended.get_or_insert_default() += value as u64,
                name if FAILURES.contains(&name) => signals.failures += value as u64,
                _ => {}
            }
        }
        signals
    }

    /// Whether the last sync is newer than the last change.
    pub(super) fn is_current(&self) -> bool {
        !self.times.is_empty() && self.times.values().all(|times| times.synced > 0.0 && times.synced >= times.queued)
    }

    /// When the last sync wrote its rules, in seconds since 1970, if that was after a time.
    pub(super) fn synced_since(&self, time: f64) -> Option<f64> {
        self.times.values().map(|times| times.synced).filter(|synced| *synced >= time).max_by(f64::total_cmp)
    }

    /// The number of finished syncs to wait for, so that all syncs that have written rules since earlier signals have finished.
    pub(super) fn owed(&self, earlier: &Self) -> u64 {
        let is_new = |(labels, times): &(&String, &Times)| {
            times.synced > earlier.times.get(*labels).map_or(0.0, |earlier| earlier.synced)
        };
        earlier.ended.unwrap_or_default() + self.times.iter().filter(is_new).count() as u64
    }

    /// Whether this number of syncs has finished.
    pub(super) fn have_ended(&self, number: u64) -> bool {
        self.ended.is_none_or(|ended| ended >= number)
    }
}

/// The status and body of a response. HTTP/1.0 has no chunks, and the body ends with the connection.
fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::never("kubeproxy_sync_proxy_rules_last_timestamp_seconds 0", false)]
    #[case::no_change_yet("kubeproxy_sync_proxy_rules_last_timestamp_seconds 1.7e+09", true)]
    #[case::queued(
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds 1.7e+09\nkubeproxy_sync_proxy_rules_last_queued_timestamp_seconds 1.8e+09",
        false
    )]
    #[case::one_family(
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} 1.8e+09\n\
         kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv6\"} 1.6e+09\n\
         kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv4\"} 1.7e+09\n\
         kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv6\"} 1.7e+09",
        false
    )]
    #[case::nothing("go_goroutines 70\n", false)]
    fn a_sync_is_current_when_it_is_newer_than_the_change(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(Signals::read(text).is_current(), expected);
    }

    #[test]
    fn failures_are_counted() {
        let text = "kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family=\"IPv4\"} 2\n\
                    kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family=\"IPv6\"} 1\n";
        assert_eq!(Signals::read(text).failures, 3);
    }
}
