//! Tables of `kubectl get` that lost their line ends, as on pages of the web: `# kubectl get pods NAME READY ... web-1 1/1 ...`.

/// The names of columns that have two words.
const PAIRS: [[&str; 2]; 2] = [["NOMINATED", "NODE"], ["READINESS", "GATES"]];

/// Columns of which each table of nodes, pods, Services, endpoints and their slices has one.
const COLUMNS: [&str; 6] = ["AGE", "STATUS", "READY", "ENDPOINTS", "CLUSTER-IP", "ADDRESSTYPE"];

/// The lines that a line was joined from: commands, headings and rows. Nothing where it has no table.
pub(super) fn unfolded(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(first) = (0..words.len()).find(|at| heading(&words[*at..]).is_some()) else { return Vec::new() };
    let start = (0..first).rev().find(|at| is_prompt(&words[*at..])).unwrap_or(first);
    let start = if start > 0 && is_prompt(&words[start - 1..]) { start - 1 } else { start };
    let mut lines = Vec::new();
    if start > 0 {
        lines.push(words[..start].join(" "));
    }
    let (mut at, mut columns) = (start, 0);
    while at < words.len() {
        let rest = &words[at..];
        let taken = match (is_prompt(rest), heading(rest)) {
            (true, _) => {
                columns = 0;
                // The command's own word may be the second.
                let end = (2..rest.len()).find(|end| heading(&rest[*end..]).is_some() || is_prompt(&rest[*end..]));
                end.unwrap_or(rest.len())
            }
            (false, Some((length, count))) => {
                columns = count;
                length
            }
            (false, None) if columns > 0 => row(rest, columns),
            (false, None) => 1,
        };
        lines.push(words[at..at + taken].join(" "));
        at += taken;
    }
    lines
}

/// A shell's prompt before a command of kubectl.
fn is_prompt(words: &[&str]) -> bool {
    matches!(words, [prompt, "kubectl" | "k" | "oc", ..] if prompt.ends_with(['#', '$']))
        || matches!(words, ["kubectl" | "oc", "get", ..])
}

/// How many words the heading of a table has, and how many columns.
fn heading(words: &[&str]) -> Option<(usize, usize)> {
    let is_start = matches!(words, ["NAME" | "NAMESPACE", ..]);
    let is_name =
        |word: &&&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || b"-()_/".contains(&byte));
    let length = words.iter().take_while(is_name).count();
    let pairs = words[..length].windows(2).filter(|pair| PAIRS.iter().any(|own| own == pair)).count();
    let has_column = || words[..length].iter().any(|word| COLUMNS.contains(word));
    (is_start && length >= 3 && has_column()).then_some((length, length - pairs))
}

/// How many words a row has: text in brackets, or after a `+`, belongs to the word before.
fn row(words: &[&str], columns: usize) -> usize {
    let (mut at, mut taken) = (0, 0);
    while at < words.len() {
        let is_bracket = words[at].starts_with('(');
        let is_more = words[at] == "+";
        if !is_bracket && !is_more {
            let is_end = taken == columns || at > 0 && (is_prompt(&words[at..]) || heading(&words[at..]).is_some());
            if is_end {
                break;
            }
            taken += 1;
        }
        at += match (is_bracket, is_more) {
            (true, _) => words[at..].iter().position(|word| word.ends_with(')')).map_or(1, |end| end + 1),
            (_, true) => 3.min(words.len() - at),
            _ => 1,
        };
    }
    at.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_on_one_line_have_their_rows_again() {
        let line = "Here: # kubectl get pod -n a -o wide NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES \
            web-1 4/4 Running 0 23h 10.42.0.163 master <none> <none> web-2 1/1 Running 2 (5h ago) 23h 10.42.2.245 worker <none> <none> \
            # kubectl get endpoints -n a NAME ENDPOINTS AGE web 10.42.2.245:80,10.42.2.245:8087 + 1 more... 27h";
        assert_eq!(
            unfolded(line),
            [
                "Here:",
                "# kubectl get pod -n a -o wide",
                "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
                "web-1 4/4 Running 0 23h 10.42.0.163 master <none> <none>",
                "web-2 1/1 Running 2 (5h ago) 23h 10.42.2.245 worker <none> <none>",
                "# kubectl get endpoints -n a",
                "NAME ENDPOINTS AGE",
                "web 10.42.2.245:80,10.42.2.245:8087 + 1 more... 27h",
            ]
        );
        assert_eq!(unfolded("THE NAME OF THE GAME is a song"), Vec::<String>::new());
    }
}
