//! Names of target extensions, and the options that they require.

use crate::iptables::text::Options;

/// Returns whether a name is that of an extension which is not modelled, rather than of a chain.
pub(in crate::iptables) fn is_known_extension(name: &str) -> bool {
    const NAMES: [&str; 30] = [
        "AUDIT",
        "CHECKSUM",
        "CLASSIFY",
        "CLUSTERIP",
        "CONNMARK",
        "CONNSECMARK",
        "CT",
        "DNPT",
        "DSCP",
        "ECN",
        "HL",
        "HMARK",
        "IDLETIMER",
        "LED",
        "LOG",
        "MARK",
        "NETMAP",
        "NFLOG",
        "NFQUEUE",
        "QUEUE",
        "RATEEST",
        "REJECT",
        "SECMARK",
        "SET",
        "SNPT",
        "SYNPROXY",
        "TCPMSS",
        "TEE",
        "TPROXY",
        "TTL",
    ];
    NAMES.contains(&name)
}

/// Options of which a target requires one; iptables rejects it without.
const REQUIRED: [(&str, &[&str]); 22] = [
    ("AUDIT", &["--type"]),
    ("CHECKSUM", &["--checksum-fill"]),
    ("CLASSIFY", &["--set-class"]),
    (
        "CONNMARK",
        &["--set-xmark", "--set-mark", "--save-mark", "--restore-mark", "--and-mark", "--or-mark", "--xor-mark"],
    ),
    ("CONNSECMARK", &["--save", "--restore"]),
    ("DNAT", &["--to-destination"]),
    ("DNPT", &["--src-pfx"]),
    ("DSCP", &["--set-dscp", "--set-dscp-class"]),
    ("ECN", &["--ecn-tcp-remove", "--ecn-tcp-cwr", "--ecn-tcp-ece", "--ecn-ip-ect"]),
    ("HL", &["--hl-set", "--hl-dec", "--hl-inc"]),
    ("HMARK", &["--hmark-mod"]),
    ("IDLETIMER", &["--timeout"]),
    ("MARK", &["--set-xmark", "--set-mark", "--and-mark", "--or-mark", "--xor-mark"]),
    ("NETMAP", &["--to"]),
    ("SECMARK", &["--selctx"]),
    ("SET", &["--add-set", "--del-set", "--map-set"]),
    ("SNAT", &["--to-source"]),
    ("SNPT", &["--src-pfx"]),
    ("TCPMSS", &["--set-mss", "--clamp-mss-to-pmtu"]),
    ("TEE", &["--gateway"]),
    ("TPROXY", &["--on-port"]),
    ("TTL", &["--ttl-set", "--ttl-dec", "--ttl-inc"]),
];

/// Returns the options of which a target requires one, if any.
pub(super) fn required(name: &str) -> Option<&'static [&'static str]> {
    REQUIRED.iter().find(|(target, _)| *target == name).map(|(_, options)| *options)
}

/// Returns the required options, if the target has none of them.
pub(in crate::iptables) fn lacking(name: &str, options: &Options<'_>) -> Option<&'static [&'static str]> {
    let required = required(name)?;
    // iptables accepts abbreviated options, and values after `=`.
    let is_short = |name: &str, long: &str| name.len() > 2 && long.starts_with(name.split('=').next().unwrap_or(name));
    let given = |long: &str| options.iter().any(|option| is_short(option.name, long));
    (!required.iter().any(|long| given(long))).then_some(required)
}
