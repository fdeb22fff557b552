//! All integration tests of the harness, in one program: it is linked once, and its tests share all CPUs.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails where something is missing"
)]

mod affinity;
mod anonymize;
mod as_a_library;
mod assumed_services;
mod assumed_settings;
mod book;
mod bounds;
mod bugs;
mod check;
mod collect;
mod command_line;
mod commands_agree;
mod counting;
mod diagnosis;
mod diff;
mod doctor;
mod dump;
mod dump_import;
mod dump_machines;
mod example_proxy;
mod excerpts;
mod explain;
mod few_threads;
mod graph;
mod help;
mod hidden_interfaces;
mod in_ci;
mod invalid;
mod kernel_log;
mod kernels;
mod kill;
mod left_out_rules;
mod lost_rules;
mod mangled;
mod minimize;
mod mutate;
mod mutations;
mod netem;
mod nft_loads;
mod nodes_of_dumps;
mod objects_alone;
mod objects_as_pasted;
mod objects_of_dumps;
mod other_rules;
mod other_times;
mod outside;
mod outward_rules;
mod pages;
mod pasted;
mod proxy_programs;
mod readiness;
mod rules;
mod rules_load;
mod saved_rules;
mod scenarios;
mod schema;
mod set_apart;
mod several_listings;
mod shell;
mod starting;
mod tables_beside_rules;
mod verify;
mod watch;
mod without_ipv6;
mod written_by_hand;

#[path = "../../../rules/tests/suite/each_file.rs"]
mod each_file;
#[path = "../../../rules/tests/suite/golden_support/mod.rs"]
#[expect(dead_code, reason = "shared with the tests of the generator")]
mod golden_support;

/// The assumptions for an input, in words.
fn assumptions(assumed: &svclab::infer::Assumed) -> Vec<String> {
    assumed.assumptions.iter().map(ToString::to_string).collect()
}

/// Output with the lines that were wrapped to fit the page joined again.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
