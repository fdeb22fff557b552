//! A command line of a shell, as pipes of programs.

/// The words of each program of each pipe. A pattern in quotes may have a `|` of its own.
pub(super) fn pipes(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut all: Vec<Vec<Vec<String>>> = vec![vec![Vec::new()]];
    let (mut word, mut quote, mut is_escaped): (Option<String>, Option<char>, bool) = (None, None, false);
    let end = |all: &mut Vec<Vec<Vec<String>>>, word: &mut Option<String>| {
        all.last_mut().and_then(|pipe| pipe.last_mut()).into_iter().for_each(|own| own.extend(word.take()));
    };
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            _ if is_escaped => {
                word.get_or_insert_default().push(letter);
                is_escaped = false;
            }
            ('\\', None) => is_escaped = true,
            (_, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            // `2>&1` is not an end.
            ('&', None) if word.as_ref().is_some_and(|word| word.ends_with('>')) => {
                word.get_or_insert_default().push('&')
            }
            (';' | '&', None) => {
                end(&mut all, &mut word);
                letters.next_if_eq(&'&');
                all.push(vec![Vec::new()]);
            }
            ('|', None) => {
                end(&mut all, &mut word);
                all.last_mut().into_iter().for_each(|pipe| pipe.push(Vec::new()));
            }
            (letter, None) if letter.is_whitespace() => end(&mut all, &mut word),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    end(&mut all, &mut word);
    all.retain(|pipe| pipe.iter().any(|words| !words.is_empty()));
    all
}
