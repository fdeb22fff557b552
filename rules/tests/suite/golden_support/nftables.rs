//! The normal form of the output of `nft list ruleset`.

/// Sorts sets, maps, chains and the elements of sets and maps within each table; rules keep their order.
pub(super) fn normalize(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut blocks: Vec<Vec<String>> = Vec::new();
    for line in joined_lines(text) {
        match line.trim_end() {
            "}" => {
                blocks.sort();
                out.extend(std::mem::take(&mut blocks).into_iter().flatten());
            }
            "" => {}
            line if line.starts_with("table ") => out.push(line.to_owned()),
            line if line.starts_with("\t\telements = ") => {
                let inner = line.trim_start_matches("\t\telements = { ").trim_end_matches(" }");
                let mut elements: Vec<String> = inner.split(", ").map(|element| format!("\t\t  {element}")).collect();
                elements.sort();
                blocks.last_mut().unwrap().extend(elements);
            }
            line if line.starts_with("\t\t") || line == "\t}" => blocks.last_mut().unwrap().push(line.to_owned()),
            line => blocks.push(vec![line.to_owned()]),
        }
    }
    out
}

/// Returns the lines, with the lines of elements joined.
fn joined_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("\t\t\t     "), lines.last_mut()) {
            (Some(more), Some(last)) => *last = format!("{last} {more}"),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}
