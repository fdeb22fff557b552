//! Detection of `sh` operators that the prompt does not support: pipes, sequences and redirections, which would become arguments of a
//! program.

/// Returns the first unquoted operator of `sh` in a line.
pub(super) fn operator(line: &str) -> Option<&str> {
    let (mut quote, mut is_escaped, mut starts_word) = (None, false, true);
    for (at, letter) in line.char_indices() {
        let operator = &line[at..at + letter.len_utf8()];
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(mark), _) if letter == mark => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '#') if starts_word => return None,
            (None, '|' | ';') => return Some(operator),
            // Within a word they may be part of a URL or an arrow.
            (None, '&' | '<' | '>') if starts_word => return Some(operator),
            (None, _) => {}
        }
        starts_word = letter.is_whitespace() || starts_word && letter == '2';
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::operator;

    #[rstest]
    #[case::pipe("pod/client curl nginx | head", Some("|"))]
    #[case::pipe_without_spaces("pod/client curl nginx|head", Some("|"))]
    #[case::sequence("pod/client echo a; echo b", Some(";"))]
    #[case::both("pod/client true && show", Some("&"))]
    #[case::output("show > file", Some(">"))]
    #[case::errors("show 2>file", Some(">"))]
    #[case::in_background("pod/client sleep 9 &", Some("&"))]
    #[case::url("pod/client curl http://nginx/?a=1&b=2", None)]
    #[case::quoted("pod/client sh -c 'a | b; c > d' \"e && f\"", None)]
    #[case::escaped("pod/client echo \\| \\;", None)]
    #[case::comment("show # a | b", None)]
    fn an_operator_is_found(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(operator(line), expected);
    }
}
