//! Completion of words.

use clap::{Arg, CommandFactory};

use super::line::Typed;
use super::names::{Names, is_place};
use super::reply::Completion;

/// The possible values of an argument, by its name in the help.
fn values(names: &Names, argument: &Arg) -> Completion {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        return words(possible.iter().map(|value| value.get_name().to_owned()));
    }
    let name = argument.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    match name.unwrap_or_default() {
        "FROM" => words(names.places.iter().cloned().chain(names.nodes.iter().map(|node| format!("localhost@{node}")))),
        "PLACE" => words(names.places.iter().cloned()),
        "TO" => words(names.destinations.iter().cloned()),
        "node/NAME" => words(names.nodes.iter().map(|node| format!("node/{node}"))),
        "proxy[@NODE]" => {
            words(std::iter::once("proxy".to_owned()).chain(names.nodes.iter().map(|node| format!("proxy@{node}"))))
        }
        "NODE" => words(names.nodes.iter().cloned()),
        "[diff] [NODE]" => words(names.nodes.iter().cloned().chain(["diff".to_owned()])),
        "TEST" => words(names.tests.iter().map(|test| crate::text::shell_word(test))),
        "PROTOCOL" => words(["tcp", "udp", "sctp"].map(str::to_owned)),
        "FAMILY" => words(["ipv4", "ipv6"].map(str::to_owned)),
        "FILE" => Completion { is_file: true, ..Completion::default() },
        _ => Completion::default(),
    }
}

fn words(words: impl IntoIterator<Item = String>) -> Completion {
    Completion { words: words.into_iter().collect(), ..Completion::default() }
}

/// The completions of the word at the end of a line.
pub(super) fn complete(line: &str, names: &Names) -> Completion {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let current = &line[start..];
    let before: Vec<&str> = line[..start].split_whitespace().collect();
    let mut completion = candidates(&before, current, names);
    completion.words.retain(|word| word.starts_with(current) && word != current);
    Completion { start, ..completion }
}

fn candidates(before: &[&str], current: &str, names: &Names) -> Completion {
    let typed = Typed::command();
    let Some((first, rest)) = before.split_first() else {
        let commands = typed.get_subcommands().map(|command| command.get_name().to_owned());
        return words(commands.chain(["help".to_owned()]).chain(names.places.iter().cloned()));
    };
    if is_place(first) {
        return Completion { is_program: rest.is_empty(), is_file: !rest.is_empty(), ..Completion::default() };
    }
    if *first == "help" {
        return words(typed.get_subcommands().map(|command| command.get_name().to_owned()));
    }
    let Some(command) = typed.find_subcommand(first) else { return Completion::default() };
    let is_visible = |arg: &&Arg| !arg.is_hide_set();
    let option =
        |word: &str| command.get_opts().find(|arg| arg.get_long().is_some_and(|long| word == format!("--{long}")));
    if current.starts_with('-') {
        let longs = command.get_arguments().filter(is_visible).filter_map(Arg::get_long);
        return words(longs.map(|long| format!("--{long}")));
    }
    if let Some(option) = rest.last().and_then(|last| option(last)) {
        return values(names, option);
    }
    // An option and its value are not positional arguments.
    let mut position = 0;
    let mut is_value = false;
    for word in rest {
        position += usize::from(!is_value && !word.starts_with('-'));
        is_value = !is_value && option(word).is_some();
    }
    let positionals: Vec<&Arg> = command.get_positionals().collect();
    let many = positionals.last().filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1));
    positionals.get(position).or(many).map(|arg| values(names, arg)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("pr", &["probe"])]
    #[case("pod/c", &["pod/client"])]
    #[case("help ex", &["explain", "exit"])]
    #[case("probe no", &["node/worker"])]
    #[case("probe pod/client service/", &["service/nginx:80"])]
    #[case("probe --protocol tcp pod/client s", &["service/nginx:80"])]
    #[case("probe pod/client service/nginx:80 --fam", &["--family"])]
    #[case("probe pod/client service/nginx:80 --family ", &["ipv4", "ipv6"])]
    #[case("explain pod/client service/nginx:80 --format m", &["mermaid"])]
    #[case("rules ", &["worker", "diff"])]
    #[case("rules diff w", &["worker"])]
    #[case("test ", &["'a test'"])]
    #[case("link pod/c", &["pod/client"])]
    #[case("link pod/client ", &["down", "up"])]
    #[case("link pod/client --lo", &["--loss"])]
    #[case("link pod/client --loss 10% d", &["down"])]
    #[case("down ", &["node/worker"])]
    #[case("restart proxy@", &["proxy@worker"])]
    #[case("graph pod/client s", &["service/nginx:80"])]
    #[case("graph --format d", &["dot"])]
    #[case("unknown ", &[])]
    fn words_are_completed(#[case] line: &str, #[case] expected: &[&str]) {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let names = Names {
            places: list(&["node/worker", "pod/client"]),
            nodes: list(&["worker"]),
            destinations: list(&["service/nginx:80"]),
            tests: list(&["a test"]),
        };
        assert_eq!(complete(line, &names).words, expected);
    }

    #[rstest]
    #[case("apply s", true, false)]
    #[case("graph --write s", true, false)]
    #[case("pod/client c", false, true)]
    #[case("pod/client cat f", true, false)]
    fn files_and_programs_are_the_front_ends(#[case] line: &str, #[case] is_file: bool, #[case] is_program: bool) {
        let found = complete(line, &Names::default());
        assert_eq!((found.is_file, found.is_program), (is_file, is_program));
    }
}
