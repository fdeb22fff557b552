//! Pieces of evidence as values.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;
use svclab_rules::coverage::Coverage;
use svclab_rules::iptables;
use svclab_rules::nftables;
use svclab_rules::profile::Profile;

use super::logged::{Failure, PortEvent};
use super::repairs::{Repair, RepairCount};
use super::unread::Unread;
use crate::text::counted;

/// What a text, or several files, show.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// The pieces, in their order.
    pub pieces: Vec<Piece>,
    /// Lines that are not evidence: sentences, commands, what encloses code.
    pub prose: Vec<Stretch>,
    /// Those of them that are commands of a terminal.
    pub(crate) commands: Vec<Stretch>,
    /// Lines that look like evidence, or are in it, and could not be read.
    pub unread: Vec<Unread>,
    /// Lines in which iptables-nft warns of tables of iptables-legacy.
    pub(crate) legacy_warnings: Vec<Stretch>,
    /// Lines that show nodes in IPVS mode, the first one of each text.
    pub(crate) ipvs: Vec<Stretch>,
    /// Releases of Kubernetes that lines name.
    pub(crate) releases: Vec<Release>,
    /// Machines that lines name.
    pub(crate) hosts: Vec<HostName>,
}

/// Lines in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The file among several.
    pub file: Option<Arc<str>>,
    /// The first line, from 1.
    pub first: usize,
    /// The last line.
    pub last: usize,
}

/// A release that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    /// The file among several.
    pub(crate) file: Option<Arc<str>>,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The release.
    pub(crate) version: Profile,
    /// The node whose it is; of the whole cluster where none is named.
    pub(crate) node: Option<String>,
}

/// The name of a machine in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostName {
    /// The file among several.
    pub(crate) file: Option<Arc<str>>,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The name.
    pub(crate) name: String,
}

/// Lines of one format.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The file among several.
    pub file: Option<Arc<str>>,
    /// The format.
    pub format: Format,
    /// The first line, from 1.
    pub first: usize,
    /// The last line.
    pub last: usize,
    /// The command that printed it, where it is shown.
    pub command: Option<String>,
    /// The machine that the prompt before the command names.
    pub(crate) host: Option<String>,
    /// The machine that the last heading in prose names.
    pub(crate) heading: Option<String>,
    /// What the lines say.
    pub(crate) contents: Contents,
    /// How lines were changed to be read.
    pub(crate) repairs: Vec<RepairCount>,
    /// The line of kube-proxy's log that shows these rules because they could not be loaded.
    pub(crate) failed_to_load: Option<usize>,
}

/// What a piece says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Contents {
    /// Rules of iptables of one family.
    Iptables {
        /// The rules.
        rules: iptables::Parsed,
        /// How many were read.
        count: usize,
        /// The tables and chains that are shown whole.
        coverage: Coverage,
        /// The fewest digits of a probability whose threshold does not follow from them.
        rounded_digits: Option<usize>,
        /// The first line that is cut off.
        cut: Option<usize>,
    },
    /// Tables of nftables.
    Nftables {
        /// The tables.
        rules: nftables::Parsed,
        /// How many rules were read, those of other tables included.
        count: usize,
        /// The tables, chains, sets and maps that are shown whole.
        coverage: Coverage,
        /// The first line that is cut off.
        cut: Option<usize>,
    },
    /// Kubernetes objects, as the API has them; those of a table have the fields that it shows.
    Objects(Vec<Value>),
    /// Entries of the connection table.
    Connections(Vec<Connection>),
    /// The addresses of a machine, and how many entries show them.
    Addresses(Vec<IpAddr>, usize),
    /// The routes of a machine.
    Routes(Vec<Route>),
    /// Settings of the kernel.
    Settings(Vec<Setting>),
    /// Lines of a log.
    Log {
        /// How many there are.
        entries: usize,
        /// The settings of the kernel that they say were made.
        settings: Vec<Setting>,
        /// What they say kube-proxy could not do.
        failures: Vec<Failure>,
        /// What they say of Services and endpoints.
        services: Vec<PortEvent>,
    },
    /// This many entries, of which no more is used.
    Entries(usize),
}

/// A setting of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The line, from 1.
    pub(crate) line: usize,
    /// Its name, with dots.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The line's text.
    pub(crate) text: String,
    /// `unicast`, `blackhole` and so on.
    pub(crate) kind: String,
    /// The destination; `None` for all.
    pub(crate) to: Option<IpNet>,
    /// The next router.
    pub(crate) via: Option<IpAddr>,
    /// The interface.
    pub(crate) device: Option<String>,
    /// The preferred source.
    pub(crate) source: Option<IpAddr>,
}

/// An entry of the connection table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The line, from 1.
    pub(crate) line: usize,
    /// `tcp`, `udp` and so on.
    pub(crate) protocol: String,
    /// The state of TCP or SCTP.
    pub(crate) state: Option<String>,
    /// Whether no reply was seen.
    pub(crate) is_unreplied: bool,
    /// Whether the table has it: not so if `conntrack -E` reports that it is destroyed, or reports it again later.
    pub(crate) is_current: bool,
    /// The packet that opened it.
    pub(crate) original: Tuple,
    /// The reply that is expected.
    pub(crate) reply: Tuple,
}

/// Addresses and ports of a direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    /// The source.
    pub(crate) source: IpAddr,
    /// The destination.
    pub(crate) destination: IpAddr,
    /// The source port.
    pub(crate) source_port: Option<u16>,
    /// The destination port.
    pub(crate) destination_port: Option<u16>,
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $words:literal;)*) => {
        /// A format of evidence.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format { $($(#[$doc])* $name,)* }

        impl Format {
            /// The name for programs, which stays the same.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What prints it.
            pub fn words(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }
        }
    };
}

formats! {
    /// Whole tables, or lines of them.
    IptablesSave = "iptables-save", "iptables-save";
    /// `iptables -S`.
    IptablesRules = "iptables-S", "iptables -S";
    /// `iptables -L`.
    IptablesList = "iptables-L", "iptables -L";
    /// `nft list ruleset`.
    Nft = "nft", "nft list ruleset";
    /// `nft -j list ruleset`.
    NftJson = "nft-json", "nft -j list ruleset";
    /// Tables of iptables-nft, as `nft list ruleset` prints them.
    IptablesNft = "iptables-nft", "nft list ruleset of iptables-nft";
    /// `kubectl get`, as a table.
    KubectlTable = "kubectl-get", "kubectl get";
    /// `kubectl describe`.
    KubectlDescribe = "kubectl-describe", "kubectl describe";
    /// Objects in YAML.
    Yaml = "yaml", "kubectl get -o yaml";
    /// Objects in JSON.
    Json = "json", "kubectl get -o json";
    /// A kube-proxy configuration.
    ProxyConfig = "kube-proxy-config", "a KubeProxyConfiguration";
    /// A log of kube-proxy, or one that does not say which component's it is.
    ProxyLog = "kube-proxy-log", "kube-proxy's log";
    /// A log of another component.
    OtherLog = "log", "another component's log";
    /// `conntrack -L`, `-E`, `/proc/net/nf_conntrack`.
    Conntrack = "conntrack", "conntrack -L";
    /// `ip addr`.
    IpAddr = "ip-addr", "ip addr";
    /// `ip route`.
    IpRoute = "ip-route", "ip route";
    /// `ip rule`.
    IpRule = "ip-rule", "ip rule";
    /// `ip -j`.
    IpJson = "ip-json", "ip -j";
    /// `ifconfig`.
    Ifconfig = "ifconfig", "ifconfig";
    /// `ipset save`.
    Ipset = "ipset-save", "ipset save";
    /// `tcpdump`.
    Tcpdump = "tcpdump", "tcpdump";
    /// `sysctl -a`.
    Sysctl = "sysctl", "sysctl -a";
}

impl Contents {
    /// How many rules it has.
    pub(crate) fn rules(&self) -> usize {
        match self {
            Self::Iptables { count, .. } | Self::Nftables { count, .. } => *count,
            _ => 0,
        }
    }

    /// How many elements its sets and maps have.
    pub(crate) fn elements(&self) -> usize {
        let Self::Nftables { rules, .. } = self else { return 0 };
        rules.rules.tables.iter().flat_map(|table| &table.sets).map(|set| set.elements.len()).sum()
    }

    /// How many Kubernetes objects it has.
    pub(crate) fn objects(&self) -> usize {
        if let Self::Objects(objects) = self { objects.len() } else { 0 }
    }

    /// How many entries it has that are neither.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Self::Connections(entries) => entries.len(),
            Self::Settings(entries) => entries.len(),
            Self::Routes(routes) => routes.len(),
            Self::Entries(count) | Self::Addresses(_, count) | Self::Log { entries: count, .. } => *count,
            _ => 0,
        }
    }

    /// The settings of the kernel that it shows.
    pub(crate) fn settings(&self) -> &[Setting] {
        match self {
            Self::Settings(settings) | Self::Log { settings, .. } => settings,
            _ => &[],
        }
    }
}

/// What is wrong with rules of iptables in nft's text, and how to get them.
pub(crate) const OF_IPTABLES_NFT: [&str; 2] = [
    "these tables are iptables' own, as nft shows them: kube-proxy runs in iptables mode here",
    "Save them with `iptables-save` on the same node, which prints the same rules with their comments: nft's text leaves out \
     what it does not know of iptables' matches.",
];

impl Evidence {
    /// Whether there is a command of a terminal.
    pub fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// The formats of the pieces, in words.
    pub(crate) fn formats(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for piece in &self.pieces {
            if !words.contains(&piece.format.words()) {
                words.push(piece.format.words());
            }
        }
        words.join(", ")
    }

    /// The piece with tables of iptables-nft, where nft shows them.
    pub(crate) fn iptables_nft_piece(&self) -> Option<&Piece> {
        let is_own = |piece: &&Piece| match &piece.contents {
            Contents::Nftables { rules, .. } => rules
                .others
                .iter()
                .any(|table| table.family.starts_with("ip") && table.name == "nat" && table.rules > 0),
            _ => false,
        };
        self.pieces.iter().find(is_own)
    }

    /// Returns the rules that kube-proxy failed to load, if there are no others: of those, nothing is known of the node's.
    pub(crate) fn rules_not_loaded(&self) -> Option<&Piece> {
        let mut all = self.pieces.iter().filter(|piece| piece.contents.rules() > 0).peekable();
        let first = all.peek().copied();
        all.all(|piece| piece.failed_to_load.is_some()).then_some(first)?
    }

    /// How many rules all pieces have.
    pub fn rules(&self) -> usize {
        self.pieces.iter().map(|piece| piece.contents.rules()).sum()
    }

    /// How many objects all pieces have.
    pub fn objects(&self) -> usize {
        self.pieces.iter().map(|piece| piece.contents.objects()).sum()
    }

    /// What nft does not print of rules of iptables, and is assumed, in words, if there is anything.
    pub(crate) fn not_printed(&self) -> Option<String> {
        let own = self.pieces.iter().filter(|piece| self.original(piece).is_none()).flat_map(|piece| {
            let repairs = piece.repairs.iter().filter(|repair| repair.how == Repair::NotPrinted);
            repairs.map(|repair| (piece.file.as_deref(), repair))
        });
        let own: Vec<(Option<&str>, &RepairCount)> = own.collect();
        let (file, first) = own.first()?;
        let file = file.map(|file| format!("{file}:")).unwrap_or_default();
        let rules = counted(own.iter().map(|(_, repair)| repair.lines).sum::<usize>(), "rule");
        Some(format!(
            "options of {rules}, which nft does not print, first {file}{}: as kube-proxy writes them, with its default affinity timeout of \
             10800 s",
            first.first_line
        ))
    }

    /// What is assumed of rules whose order is not shown, in words, if there are any.
    pub(crate) fn order_not_shown(&self) -> Option<String> {
        let is_sorted = |piece: &&Piece| piece.repairs.iter().any(|repair| repair.how == Repair::Sorted);
        let first = self.pieces.iter().find(is_sorted)?;
        let file = first.file.as_ref().map(|file| format!("{file}:")).unwrap_or_default();
        Some(format!(
            "the rules from {file}{} on are sorted, so their order and tables are unknown: as kube-proxy writes them",
            first.first
        ))
    }
}
