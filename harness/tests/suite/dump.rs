//! Evidence as files, folders and archives.

use std::io::{Cursor, Write};
use std::path::Path;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use rstest::rstest;
use serde_json::Value;
use tar::{Builder, EntryType, Header};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const ISSUE: &str = "\
Services do not work.

> $ sudo iptables-save | grep nginx
> -A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-SVC-2CMXP7HKUVJN7L6M
> -A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment --comment \"default/nginx\" -j KUBE-SEP-HUXRPHBUO34UVPEF
> -A KUBE-SEP-HUXRPHBUO34UVPEF -p udp -m comment --comment \"default/nginx\" -m udp -j DNAT --to-destination 10.244.2.2:80

```
NAME    READY   STATUS    RESTARTS   AGE
nginx   1/1     Running   0          25h
a b %
```
";

fn svclab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts")
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path.to_string_lossy().into_owned()
}

#[test]
fn an_issue_is_shown_with_what_was_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = svclab(&["dump", "show", &written(folder.path(), "issue.md", ISSUE.as_bytes()), "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pieces = shown["pieces"].as_array().expect("pieces");
    let of =
        |at: usize| (pieces[at]["format"].as_str(), pieces[at]["firstLine"].as_u64(), pieces[at]["lastLine"].as_u64());
    assert_eq!((of(0), of(1)), ((Some("iptables-save"), Some(4), Some(6)), (Some("kubectl-get"), Some(9), Some(11))));
    assert_eq!((shown["rules"].as_u64(), shown["objects"].as_u64()), (Some(3), Some(1)));
    assert_eq!((shown["unread"][0]["line"].as_u64(), shown["unread"][0]["text"].as_str()), (Some(11), Some("a b %")));
}

#[test]
fn findings_decide_the_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(folder.path(), "issue.md", ISSUE.as_bytes());
    let output = svclab(&["dump", "lint", &file, "--format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), found["findings"][0]["id"].as_str()), (Some(1), Some("dnat-protocol")));
    assert_eq!(found["findings"][0]["place"]["line"], 6);
    // The filter would show the rule that marks the endpoint's connections to itself, too.
    let allowed = ["--allow", "dnat-protocol", "--allow", "missing-rule"];
    assert_eq!(svclab(&[&["dump", "lint", &file][..], &allowed].concat()).status.code(), Some(0));
    assert_eq!(svclab(&["dump", "lint", &file, "--allow", "dnat-protocol"]).status.code(), Some(1));
    assert_eq!(svclab(&["dump", "lint", &file, "--fail-on", "never"]).status.code(), Some(0));
    assert_eq!(svclab(&["dump", "lint", &file, "--allow", "dnat"]).status.code(), Some(2));
}

/// The input is not overwritten by the output.
#[rstest]
#[case::import(&["dump", "import"])]
#[case::minimize(&["dump", "minimize", "--no-lab"])]
#[case::anonymize(&["dump", "anonymize"])]
fn no_output_overwrites_an_input(#[case] command: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let text = "-A KUBE-SEP-X -p tcp -j DNAT --to-destination 10.0.0.1:80\n";
    let file = written(folder.path(), "rules.txt", text.as_bytes());
    let output = svclab(&[command, &[file.as_str(), "--output", file.as_str()]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("would overwrite an input"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_failure_of_no_sender_is_not_minimized() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/bugs/113659-mark-bits.yaml");
    let output = svclab(&["dump", "minimize", "--no-lab", file, "--from", "pod/nope"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`--from pod/nope` selects no packet of the input"), "{said}");
}

fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, bytes) in entries {
        let mut header = Header::new_gnu();
        // The builder itself rejects names that lead out of an archive.
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").expect("a name");
        }
        header.set_cksum();
        builder.append(&header, *bytes).expect("an entry");
    }
    builder.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

#[test]
fn archives_and_folders_are_read_file_by_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries =
        [("networking/iptablessave", EntryType::Regular, ISSUE.as_bytes()), ("binary", EntryType::Regular, &[0, 1, 2])];
    let file = written(folder.path(), "logs.tar.gz", &archive(&entries));
    let shown: Value =
        serde_json::from_slice(&svclab(&["dump", "show", &file, "--format", "json"]).stdout).expect("JSON");
    assert_eq!(shown["pieces"][0]["file"], "networking/iptablessave");
    assert!(shown["unread"].as_array().expect("a list").iter().any(|unread| unread["file"] == "binary"));
    let whole = folder.path().to_string_lossy().into_owned();
    written(folder.path(), "issue.md", ISSUE.as_bytes());
    let shown: Value =
        serde_json::from_slice(&svclab(&["dump", "show", &whole, "--format", "json"]).stdout).expect("JSON");
    assert_eq!(shown["pieces"][0]["file"], "issue.md");
    let files: Vec<&str> =
        shown["pieces"].as_array().expect("a list").iter().filter_map(|piece| piece["file"].as_str()).collect();
    assert!(files.contains(&"logs.tar.gz/networking/iptablessave"), "{files:?}");
    assert!(shown["unread"].as_array().expect("a list").iter().any(|unread| unread["file"] == "logs.tar.gz/binary"));
}

/// PowerShell's `>` writes UTF-16 with a byte order mark.
#[rstest]
#[case::little_endian(u16::to_le_bytes, "issue.md")]
#[case::big_endian(u16::to_be_bytes, "issue.md")]
#[case::in_an_archive(u16::to_le_bytes, "logs.tar.gz")]
fn text_in_utf_16_is_read(#[case] bytes_of: fn(u16) -> [u8; 2], #[case] name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes: Vec<u8> = "\u{feff}".encode_utf16().chain(ISSUE.encode_utf16()).flat_map(bytes_of).collect();
    if name.ends_with("gz") {
        bytes = archive(&[("rules.txt", EntryType::Regular, &bytes)]);
    }
    let output = svclab(&["dump", "show", &written(folder.path(), name, &bytes), "--format", "json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(shown["rules"], 3);
}

/// A folder of archives, as collected on several nodes. One that would write elsewhere is left out as a whole.
#[test]
fn archives_in_a_folder_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let entry = |name| (name, EntryType::Regular, ISSUE.as_bytes());
    written(folder.path(), "a.tar.gz", &archive(&[entry("node-a/iptables.txt")]));
    written(folder.path(), "b.tar.gz", &archive(&[entry("node-b/iptables.txt"), entry("../outside")]));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(ISSUE.as_bytes()).expect("a text");
    written(folder.path(), "c.txt.gz", &encoder.finish().expect("a compressed text"));
    let whole = folder.path().to_string_lossy().into_owned();
    let output = svclab(&["dump", "show", &whole, "--format", "json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let files: std::collections::BTreeSet<&str> =
        shown["pieces"].as_array().expect("pieces").iter().filter_map(|piece| piece["file"].as_str()).collect();
    assert_eq!(files.into_iter().collect::<Vec<_>>(), ["a.tar.gz/node-a/iptables.txt", "c.txt.gz"]);
    let unread = shown["unread"].as_array().expect("a list");
    let reason = unread.iter().find(|unread| unread["file"] == "b.tar.gz").map(|unread| unread["reason"].to_string());
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("escapes the archive")), "{reason:?}");
}

#[rstest]
#[case::above("../outside", EntryType::Regular, "escapes the archive")]
#[case::absolute("/etc/x", EntryType::Regular, "escapes the archive")]
#[case::link("link", EntryType::Symlink, "contains a link")]
#[case::device("device", EntryType::Block, "device or pipe")]
#[case::pipe("pipe", EntryType::Fifo, "device or pipe")]
fn hostile_archives_are_rejected(#[case] name: &str, #[case] kind: EntryType, #[case] message: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(folder.path(), "logs.tar.gz", &archive(&[(name, kind, b"")]));
    let output = svclab(&["dump", "show", &file]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(message) && text.contains("help:"), "{text}");
}

#[test]
fn bombs_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![b'a'; 1 << 20];
    for _ in 0..70 {
        encoder.write_all(&zeros).expect("bytes");
    }
    let file = written(folder.path(), "bomb.gz", &encoder.finish().expect("an archive"));
    let output = svclab(&["dump", "show", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("larger than 64 MiB"));
}

/// A ZIP archive whose entries have these names, Unix modes and contents.
fn zip(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, _, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default().unix_permissions(0o644)).expect("an entry");
        writer.write_all(bytes).expect("bytes");
    }
    let mut bytes = writer.finish().expect("an archive").into_inner();
    // The writer creates only files: the mode is in each entry of the directory, in the upper half of 4 bytes, 38 bytes after the
    // signature.
    let mut at = 0;
    for (_, mode, _) in entries {
        at += bytes[at..].windows(4).position(|four| four == b"PK\x01\x02").expect("an entry") + 4;
        bytes[at + 36..at + 38].copy_from_slice(&u16::try_from(*mode).expect("a mode").to_le_bytes());
    }
    bytes
}

#[test]
fn zip_archives_are_read_file_by_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = zip(&[("node/iptables.txt", 0o100_644, ISSUE.as_bytes()), ("binary", 0, &[0, 1, 2])]);
    let output = svclab(&["dump", "show", &written(folder.path(), "logs.zip", &bytes), "--format", "json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((shown["pieces"][0]["file"].as_str(), shown["rules"].as_u64()), (Some("node/iptables.txt"), Some(3)));
    assert!(shown["unread"].as_array().expect("a list").iter().any(|unread| unread["file"] == "binary"));
}

#[rstest]
#[case::above("../outside", 0o100_644, "escapes the archive")]
#[case::absolute("/etc/x", 0o100_644, "escapes the archive")]
#[case::link("link", 0o120_777, "contains a link")]
#[case::device("device", 0o060_644, "device or pipe")]
#[case::pipe("pipe", 0o010_644, "device or pipe")]
fn hostile_zip_archives_are_rejected(#[case] name: &str, #[case] mode: u32, #[case] message: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = svclab(&["dump", "show", &written(folder.path(), "logs.zip", &zip(&[(name, mode, b"x")]))]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(message) && text.contains("help:"), "{text}");
}

#[test]
fn zip_bombs_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let zeros = vec![0; 60 << 20];
    let entries: Vec<String> = (0..5).map(|number| format!("file-{number}")).collect();
    let entries: Vec<(&str, u32, &[u8])> = entries.iter().map(|name| (name.as_str(), 0, zeros.as_slice())).collect();
    let output = svclab(&["dump", "show", &written(folder.path(), "bomb.zip", &zip(&entries))]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("more than 256 MiB of files"));
    let cut = written(folder.path(), "cut.zip", &zip(&[("a", 0, ISSUE.as_bytes())])[..200]);
    assert_eq!(svclab(&["dump", "show", &cut]).status.code(), Some(2));
}

/// What an archive has after its end, or before its start, is not lost in silence.
#[rstest]
#[case::tar("logs.tar", false, b"-A KUBE-MARK-MASQ -j RETURN\n", "follows the end of the archive")]
#[case::padded_tar("logs.tar", false, &[0; 4096], "")]
#[case::gzip("logs.tgz", true, b"", "")]
#[case::garbage_behind_gzip("logs.tgz", true, b"-A KUBE-MARK-MASQ -j RETURN\n", "follows the end of the archive")]
fn what_follows_an_archive_is_not_read(
    #[case] name: &str,
    #[case] zipped: bool,
    #[case] rest: &[u8],
    #[case] reason: &str,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = archive(&[("iptables.txt", EntryType::Regular, ISSUE.as_bytes())]);
    if !zipped {
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut plain).expect("an archive");
        bytes = plain;
    }
    let file = written(folder.path(), name, &[&bytes, rest].concat());
    is_reported_as_unread(&file, reason);
}

#[test]
fn two_archives_in_one_file_are_not_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = archive(&[("iptables.txt", EntryType::Regular, ISSUE.as_bytes())]);
    is_reported_as_unread(&written(folder.path(), "two.tgz", &bytes.repeat(2)), "follows the end of the archive");
    let bytes = zip(&[("iptables.txt", 0o100_644, ISSUE.as_bytes())]);
    let file = written(folder.path(), "more.zip", &[&*bytes, b"-A KUBE-MARK-MASQ -j RETURN\n"].concat());
    is_reported_as_unread(&file, "follows the end of the archive");
    is_reported_as_unread(&written(folder.path(), "two.zip", &bytes.repeat(2)), "precedes the archive");
    is_reported_as_unread(&written(folder.path(), "one.zip", &bytes), "");
}

/// Fails unless an archive is read, and a part of it is not for a reason; for an empty one, if anything of the whole archive is not read.
fn is_reported_as_unread(file: &str, reason: &str) {
    let output = svclab(&["dump", "show", file, "--format", "json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (shown["pieces"][0]["file"].as_str(), shown["rules"].as_u64()),
        (Some("iptables.txt"), Some(3)),
        "{file}"
    );
    let unread = shown["unread"].as_array().expect("a list").iter().filter(|unread| unread["file"].is_null());
    let reasons: Vec<&str> = unread.filter_map(|unread| unread["reason"].as_str()).collect();
    match reason {
        "" => assert!(reasons.is_empty(), "{file}: {reasons:?}"),
        _ => assert!(reasons.len() == 1 && reasons[0].contains(reason), "{file}: {reasons:?}"),
    }
}

#[test]
fn other_compressed_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(folder.path(), "rules.txt.xz", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F");
    for arguments in [&["dump", "lint", &file][..], &["verify", "--no-lab", &file]] {
        let output = svclab(arguments);
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("compressed with xz") && said.contains("`xz -d`"), "{said}");
    }
    written(folder.path(), "issue.md", ISSUE.as_bytes());
    let output = svclab(&["dump", "show", &folder.path().to_string_lossy()]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("compressed with xz"), "{output:?}");
}
