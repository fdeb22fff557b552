//! `svclab schema`: the JSON Schemas of scenario files and of commands' JSON output.

mod markdown;

use clap::ValueEnum;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Exit;
use super::console::Console;
use svclab::environment::Envelope;
use svclab::{cascade, diff, evidence, explain, lint, mutate, report, scenario, verify};

/// Print the JSON Schema of scenario files (for editors) or of a command's JSON output.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The document whose schema is printed.
    #[arg(value_enum, default_value = "scenario")]
    kind: Kind,
    /// The output format.
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON Schema, draft 2020-12.
    Json,
    /// A reference of all fields, in Markdown.
    Markdown,
}

/// Documents that have a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Scenario files.
    Scenario,
    /// `svclab run --report json=FILE`.
    Run,
    /// `svclab verify --format json`.
    Verify,
    /// `svclab mutate --format json`.
    Mutate,
    /// `svclab explain --format json`.
    Explain,
    /// `svclab cascade --format json`.
    Cascade,
    /// `svclab diff --format json`.
    Diff,
    /// `svclab diff --each-release --format json`.
    DiffReleases,
    /// `svclab dump show --format json`.
    DumpShow,
    /// `svclab dump lint --format json`.
    DumpLint,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let schema = match args.kind {
        Kind::Scenario => scenario::schema(),
        Kind::Run => written::<report::json::Run<'_>>("run"),
        Kind::Verify => written::<verify::json::Document<'_>>("verify"),
        Kind::Mutate => written::<mutate::json::Document<'_>>("mutate"),
        Kind::Explain => written::<explain::Explanation>("explain"),
        Kind::Diff => written::<diff::json::Document<'_>>("diff"),
        Kind::DiffReleases => written::<diff::json::Steps<'_>>("diff --each-release"),
        Kind::Cascade => written::<cascade::json::Document<'_>>("cascade"),
        Kind::DumpShow => plain::<evidence::json::Document<'_>>("dump show"),
        Kind::DumpLint => plain::<lint::json::Document<'_>>("dump lint"),
    };
    match args.format {
        Format::Json => console.text(format_args!("{schema:#}\n")),
        Format::Markdown => console.text(markdown::page(&schema)),
    }
    Exit::Held
}

/// Returns the schema (draft 2020-12) of a command's JSON output: its result in the envelope. Unknown fields are allowed, because fields
/// may be added to both.
fn written<T: JsonSchema>(command: &str) -> Value {
    plain::<Envelope<'_, T>>(command)
}

/// Returns the schema of JSON output without the envelope's environment.
fn plain<T: JsonSchema>(command: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("title".to_owned(), format!("JSON output of svclab {command}").into());
    schema.to_value()
}
