//! The result of `svclab dump show` for people.

use std::path::Path;

use super::model::{Evidence, Piece};
use crate::page::{BAD, FAINT, Page, STRONG, Settings};
use crate::text::{counted, one_line, printable, shortened};

/// The most unread lines that are listed without `-v`.
const SHOWN: usize = 20;

/// Describes what was recognised, what was repaired and what was left out.
pub fn render(path: &Path, evidence: &Evidence, settings: Settings) -> String {
    let mut page = Page::new(settings);
    for piece in &evidence.pieces {
        let is_one = piece.first == piece.last;
        let lines = if is_one { piece.first.to_string() } else { format!("{}-{}", piece.first, piece.last) };
        let place = match &piece.file {
            Some(file) => format!("{file}:{lines}"),
            None if is_one => format!("line {lines}"),
            None => format!("lines {lines}"),
        };
        let command = piece.command.as_ref().map(|text| format!("  `{}`", one_line(text))).unwrap_or_default();
        let words = page.paint(STRONG, piece.format.words());
        page.line(0, format!("{place}  {words}: {}{command}", contents(piece)));
        for mending in &piece.repairs {
            let lines = counted(mending.lines, "line");
            page.line(2, format!("repaired: {}, {lines}, first line {}", mending.how.words(), mending.first_line));
        }
    }
    if !evidence.unread.is_empty() {
        page.gap();
        page.line(0, format!("not read: {}", counted(evidence.unread.len(), "line")));
        let most = if page.settings.is_verbose() { usize::MAX } else { SHOWN };
        for unread in evidence.unread.iter().take(most) {
            let file = unread.file.as_ref().map(|file| format!("{file}:")).unwrap_or_default();
            let reason = page.paint(BAD, one_line(&unread.reason));
            page.line(2, format!("{file}{}: {reason}", unread.line));
            let text = unread.text.trim();
            let text = if page.settings.is_verbose() { text.into() } else { shortened(text) };
            let text = page.paint(FAINT, one_line(&text));
            page.line(6, text);
        }
        if evidence.unread.len() > most {
            page.line(2, format!("... and {} more; -v lists all, in full", evidence.unread.len() - most));
        }
    }
    page.gap();
    let prose: usize = evidence.prose.iter().map(|prose| prose.last - prose.first + 1).sum();
    let pieces = counted(evidence.pieces.len(), "piece");
    let (rules, objects) = (counted(evidence.rules(), "rule"), counted(evidence.objects(), "object"));
    let (unread, prose) = (counted(evidence.unread.len(), "line"), counted(prose, "line"));
    page.line(0, format!("{}: {pieces}, {rules}, {objects}; {unread} not read, {prose} of prose", printable(path)));
    page.finish()
}

fn contents(piece: &Piece) -> String {
    let contents = &piece.contents;
    let numbers = [
        (contents.rules(), "rule"),
        (contents.elements(), "element"),
        (contents.objects(), "object"),
        (contents.entries(), "record"),
    ];
    let known: Vec<String> =
        numbers.into_iter().filter(|(count, _)| *count > 0).map(|(count, thing)| counted(count, thing)).collect();
    if known.is_empty() { "empty".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::read;

    #[test]
    fn a_long_line_is_abridged() {
        let text = format!("*nat\n-A PREROUTING -m comment --comment {} -j ACCEPT\nCOMMIT\n", "k".repeat(20_000));
        let page = render(Path::new("dump"), &read(&text), Settings::default());
        assert!(page.contains("not read: 1 line") && page.len() < 2_000, "{page}");
    }
    #[test]
    fn a_map_that_is_listed_alone_is_not_empty() {
        let map = |elements: &str| {
            let text = format!(
                "table ip kube-proxy {{\n\tmap service-ips {{\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n{elements}\t}}\n}}\n"
            );
            render(Path::new("dump"), &read(&text), Settings::default())
        };
        let page = map("\t\telements = { 10.96.0.10 . tcp . 80 : goto service-CDGGSHYL-default/web/tcp/http }\n");
        assert!(page.contains("nft list ruleset: 1 element"), "{page}");
        assert!(map("").contains("nft list ruleset: empty"));
    }
}
