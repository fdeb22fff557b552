//! `svclab dump anonymize`: a dump with other names and addresses.

use std::io;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::inputs::source;
use svclab::anonymize::{Anonymized, Behaviour, Proof, Text, anonymize};
use svclab::text::{counted, grouped, one_line};

/// Replace names and addresses, so that an input can be published.
///
/// Every word that does not belong to the vocabulary of Kubernetes, netfilter or ordinary English is consistently replaced by another one of
/// the same length; addresses keep their common prefixes, private ranges and families; hashes in chain names are recomputed. Ports,
/// numbers, times and the lengths of names are kept. A file becomes a file; a folder or archive becomes one archive (tar.gz). The result
/// is parsed again: exits with 1 if a block is not parsed as before, or if the rules handle a packet differently.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file, folder or archive (tar, tar.gz, zip); `-` for standard input.
    input: PathBuf,
    /// The file to write; `-` for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Derive the replacements from this text, so that the result can be reproduced. Anyone who has it can recover names [default: random]
    #[arg(long, value_name = "TEXT")]
    seed: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    super::keeps_inputs(&args.output, std::slice::from_ref(&args.input))?;
    let source = source(&args.input)?;
    let anonymized =
        anonymize(source, args.seed.as_deref()).map_err(|error| Failure::new(error.to_string(), error.help))?;
    let Anonymized { texts, replaced, left_out, proof } = anonymized;
    if !proof.left.is_empty() {
        let some: Vec<String> = proof.left.iter().take(3).map(|part| format!("`{}`", one_line(part))).collect();
        let what = "are left in the result, which is not written: this is a defect of svclab";
        console.complain(format!("parts of the input, such as {}, {what}", some.join(", ")));
        console.complain("help: Try another `--seed`, and report this without the parts that identify anyone.");
        return Ok(Exit::Internal);
    }
    match texts.as_slice() {
        [Text { text, .. }] if text.trim().is_empty() => {
            return Err(Failure::new("the input is empty", "Pass what `svclab dump show` reads."));
        }
        [] => {
            let (name, why) = left_out.first().map(|(name, why)| (one_line(name), one_line(why))).unzip();
            let why = why.map(|why| format!(": {} {why}", name.unwrap_or_default())).unwrap_or_default();
            return Err(Failure::new(format!("the input has no text{why}"), "Pass what `svclab dump show` reads."));
        }
        [Text { name: None, text }] => super::write(&args.output, text.as_bytes(), console)?,
        _ if super::is_standard_output(&args.output) => {
            let help = "Name an archive to write with `--output FILE.tar.gz`.";
            return Err(Failure::new("the input has several files", help));
        }
        texts => {
            let bytes = archive(texts).map_err(|error| Failure::new(error.to_string(), "Free some memory."))?;
            super::write(&args.output, &bytes, console)?;
        }
    }
    left_out.iter().for_each(|(name, reason)| console.complain(format!("left out: {}: {reason}", one_line(name))));
    if !console.quiet {
        let [words, addresses] = replaced;
        console.complain(format!("{} and {} replaced", counted(words, "word"), counted(addresses, "address")));
    }
    Ok(if show(&proof, console) { Exit::Held } else { Exit::Failed })
}

/// Prints how the result was checked; returns whether everything is unchanged.
fn show(proof: &Proof, console: &Console) -> bool {
    let inform = |text: String| {
        if !console.quiet {
            console.complain(text)
        }
    };
    if proof.differing.is_empty() {
        inform(format!("{} read as before", counted(proof.pieces, "piece")));
    } else {
        let places: Vec<_> = proof.differing.iter().take(10).map(|place| one_line(place)).collect();
        console.complain(format!(
            "parsed differently from the original, because names are cut or wrapped: {}",
            places.join(", ")
        ));
    }
    if proof.kept_hashes > 0 {
        let kept = counted(proof.kept_hashes, "chain hash");
        inform(format!(
            "{kept} kept: what they are hashes of identifies no one (for example default/kubernetes:https)"
        ));
    }
    let is_same = match &proof.behaviour {
        Behaviour::Same { classes, is_cut } => {
            let more = if *is_cut { ", and there are more" } else { "" };
            inform(format!("every packet is handled as before: {} classes compared{more}", grouped(*classes as u64)));
            true
        }
        Behaviour::Differs(packet) => {
            console.complain(format!("the rules handle a packet differently: {}", one_line(packet)));
            false
        }
        Behaviour::NotCompared(reason) => {
            inform(format!("packet handling was not compared: {}", one_line(reason)));
            true
        }
        _ => true,
    };
    proof.differing.is_empty() && is_same
}

fn archive(texts: &[Text]) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for Text { name, text } in texts {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name.as_deref().unwrap_or("input.txt"), text.as_bytes())?;
    }
    builder.into_inner()?.finish()
}
