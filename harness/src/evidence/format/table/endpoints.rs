//! The cell of a table that lists endpoints: `10.42.2.245:80,10.42.2.245:8087 + 1 more...`.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// The endpoints of a cell.
pub(super) struct EndpointList {
    /// Those that are listed, in their order: for each port, all addresses.
    listed: Vec<SocketAddr>,
    /// How many more there are.
    pub(super) hidden: usize,
}

impl EndpointList {
    pub(super) fn of(text: &str) -> Self {
        let (listed, rest) = text.split_once(" + ").unwrap_or((text, ""));
        let count = rest.split(' ').next().and_then(|count| count.parse().ok());
        let hidden = count.unwrap_or(usize::from(text.ends_with("...")));
        Self { listed: listed.split(',').filter_map(|one| one.trim().parse().ok()).collect(), hidden }
    }

    /// The endpoints by port, as the API has them. The table does not show protocols.
    pub(super) fn subsets(&self) -> Vec<Value> {
        let mut ports: Vec<u16> = self.listed.iter().map(SocketAddr::port).collect();
        ports.sort_unstable();
        ports.dedup();
        let of = |port: &u16| {
            let mut ips: Vec<String> = Vec::new();
            for one in self.listed.iter().filter(|one| one.port() == *port) {
                let ip = one.ip().to_string();
                if !ips.contains(&ip) {
                    ips.push(ip);
                }
            }
            let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            json!({"addresses": addresses, "ports": [{"port": port, "protocol": "TCP"}]})
        };
        ports.iter().map(of).collect()
    }

    /// The addresses, the ports that are listed, and the number of all ports, if the list repeats its addresses for another port: then they
    /// are all that there are, although the list is cut.
    pub(super) fn grid(&self) -> Option<Value> {
        let first = self.listed.first()?;
        let again = self.listed.iter().skip(1).position(|one| one.ip() == first.ip())?;
        let count = again + 1;
        let all = self.listed.len() + self.hidden;
        let is_of_grid = |(at, one): (usize, &SocketAddr)| {
            one.ip() == self.listed[at % count].ip() && one.port() == self.listed[at / count * count].port()
        };
        if !all.is_multiple_of(count) || !self.listed.iter().enumerate().all(is_of_grid) {
            return None;
        }
        let addresses: Vec<String> = self.listed[..count].iter().map(|one| one.ip().to_string()).collect();
        let ports: Vec<u16> = self.listed.iter().step_by(count).map(SocketAddr::port).collect();
        Some(json!({"addresses": addresses, "ports": ports, "count": all / count}))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::cut("10.0.0.3:53,10.0.0.4:53,10.0.0.3:53 + 3 more...", Some(json!({"addresses": ["10.0.0.3", "10.0.0.4"], "ports": [53, 53], "count": 3})))]
    #[case::whole("10.0.0.3:53,10.0.0.3:9153", Some(json!({"addresses": ["10.0.0.3"], "ports": [53, 9153], "count": 2})))]
    #[case::unknown_addresses("10.0.0.3:80,10.0.0.4:80,10.0.0.5:80 + 1 more...", None)]
    #[case::uneven("10.0.0.3:80,10.0.0.4:80,10.0.0.3:81 + 2 more...", None)]
    #[case::none("", None)]
    fn addresses_are_known_once_they_repeat(#[case] text: &str, #[case] expected: Option<Value>) {
        assert_eq!(EndpointList::of(text).grid(), expected);
    }
}
