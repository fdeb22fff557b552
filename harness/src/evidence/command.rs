//! Commands that a terminal shows, with or without a prompt.

use svclab_rules::iptables::TableName;

use super::model::Format;
use super::pipes::pipes;

/// A command whose output may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// Its text without the prompt.
    pub(super) text: String,
    /// The machine that the prompt names.
    pub(super) host: Option<String>,
}

/// Programs that people run where Services fail.
const PROGRAMS: [&str; 37] = [
    "iptables",
    "ip6tables",
    "iptables-save",
    "ip6tables-save",
    "iptables-nft",
    "iptables-legacy",
    "iptables-nft-save",
    "iptables-legacy-save",
    "ip6tables-nft-save",
    "ip6tables-legacy-save",
    "nft",
    "kubectl",
    "k",
    "oc",
    "conntrack",
    "ip",
    "ipset",
    "ipvsadm",
    "tcpdump",
    "sysctl",
    "ifconfig",
    "route",
    "journalctl",
    "crictl",
    "docker",
    "podman",
    "nerdctl",
    "cat",
    "grep",
    "curl",
    "wget",
    "nc",
    "dig",
    "nslookup",
    "ssh",
    "minikube",
    "ping",
];

/// The longest command that is looked for, in bytes: a `grep` for the names of many chains is long, a page on one line is longer.
const LONGEST: usize = 8_000;

/// The longest prompt with its mark, in bytes.
const LONGEST_PROMPT: usize = 100;

/// The command of a line: after a prompt, or with arguments as the whole line.
pub(super) fn command(line: &str) -> Option<Command> {
    let text = line.trim();
    let is_long = text.len() > LONGEST;
    let first = *text.as_bytes().first()?;
    // Most lines of dumps start like this.
    if is_long || matches!(first, b'-' | b':' | b'*') || (first.is_ascii_uppercase() && text.starts_with("KUBE")) {
        return None;
    }
    // Looking for each prompt in each line of a dump takes long.
    let is_mark = |byte: u8| matches!(byte, b'$' | b'#' | b'%' | b'>') || !byte.is_ascii();
    let may_have_prompt = text.bytes().take(LONGEST_PROMPT).any(is_mark);
    let (rest, has_prompt) = match may_have_prompt.then(|| after_prompt(text)).flatten() {
        Some(rest) => (rest, true),
        // `iptables-save:` is how people head its output.
        None => (text.strip_suffix(':').filter(|rest| !rest.contains('|')).unwrap_or(text), false),
    };
    let host = has_prompt.then(|| host_of(&text[..text.len() - rest.len()])).flatten();
    let mut words =
        rest.split_whitespace().skip_while(|word| matches!(*word, "sudo" | "-E" | "exec") || word.contains('='));
    let program = words.next()?;
    let program = after_path(program);
    let is_known = PROGRAMS.contains(&program);
    let argument = words.next();
    let has_arguments = match (program, argument) {
        ("ip", Some(word)) => [
            "a", "addr", "address", "r", "ro", "route", "rule", "link", "l", "neigh", "-4", "-6", "-j", "-d", "-o",
            "netns",
        ]
        .contains(&word),
        ("kubectl" | "k" | "oc", Some(word)) => {
            // A terminal may have cut `--rcheck --seconds` after the `c`.
            word.starts_with('-') && (program != "k" || ["-n", "-A", "--namespace", "--context"].contains(&word))
                || [
                    "get",
                    "describe",
                    "logs",
                    "exec",
                    "debug",
                    "run",
                    "expose",
                    "apply",
                    "create",
                    "delete",
                    "edit",
                    "version",
                    "cluster-info",
                ]
                .contains(&word)
        }
        ("nft" | "ipset", Some(word)) => word.starts_with('-') || ["list", "save", "monitor"].contains(&word),
        (_, Some(word)) => word.starts_with(['-', '|', '>', '/']),
        (name, None) => name.ends_with("-save") || name == "ifconfig",
    };
    let is_command =
        if has_prompt { is_known || text.contains('@') || first == b'$' } else { is_known && has_arguments };
    let host = machine_of(program, rest).or(host);
    is_command.then(|| Command { text: rest.to_owned(), host })
}

/// The machine that a command runs another one on: `docker exec -it NAME iptables-save`, `ssh root@NAME ...`, `kubectl debug node/NAME ...`.
fn machine_of(program: &str, text: &str) -> Option<String> {
    let mut words = text.split_whitespace().skip_while(|word| after_path(word) != program).skip(1).peekable();
    let options: &[&str] = match program {
        "docker" | "podman" | "nerdctl" => {
            words.find(|word| *word == "exec")?;
            &["-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file"]
        }
        "ssh" => &["-i", "-p", "-l", "-o", "-J", "-F"],
        "kubectl" | "oc" => {
            words.find(|word| *word == "debug")?;
            return words.find_map(|word| word.strip_prefix("node/").map(str::to_owned));
        }
        _ => return None,
    };
    let mut name = words.next()?;
    while name.starts_with('-') {
        if options.contains(&name) {
            words.next();
        }
        name = words.next()?;
    }
    // Without a command, what follows is the output of a shell.
    words.peek()?;
    let name = name.rsplit('@').next().unwrap_or(name);
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_identifier = name.len() >= 12 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_machine = name.bytes().all(is_of_name) && name.parse::<std::net::IpAddr>().is_err();
    (is_machine && !is_identifier && !name.starts_with("k8s_")).then(|| name.to_owned())
}

/// The text after a shell's prompt: `$ `, `# `, `root@node:~# `, `[root@node ~]# `, `/ # `, `>> `.
fn after_prompt(text: &str) -> Option<&str> {
    if let Some(rest) = after_windows_prompt(text).or_else(|| after_arrow(text)) {
        return Some(rest);
    }
    for mark in ["$> ", "$ ", "# ", "% ", ">> ", "> ", "❯ ", "➜ "] {
        let start = &text[..text.floor_char_boundary(LONGEST_PROMPT)];
        let Some(at) = start.find(mark) else { continue };
        let (before, rest) = (text[..at].trim(), &text[at + mark.len()..]);
        let is_prompt = before.is_empty()
            || matches!(before, "/" | "~" | "bash" | "sh")
            || before.ends_with(['~', ']', '/'])
            || (before.contains('@') && !before.contains(' '))
            || (before.starts_with('[') && before.contains('@'))
            || before.starts_with("bash-")
            || before.starts_with("sh-")
            || is_host(before) && is_program(rest);
        if is_prompt && !rest.trim().is_empty() && !rest.starts_with("Generated by") {
            return Some(rest.trim());
        }
    }
    None
}

/// The text after `PS C:\>` or `C:\Users\x>`.
fn after_windows_prompt(text: &str) -> Option<&str> {
    let (before, rest) = text.strip_prefix("PS ").unwrap_or(text).split_once('>')?;
    let is_folder = matches!(before.as_bytes(), [drive, b':', b'\\', ..] if drive.is_ascii_alphabetic());
    Some(rest.trim()).filter(|rest| is_folder && !rest.is_empty())
}

/// The program after an arrow and a folder, `➜  ~ kubectl ...`: nothing marks its start.
fn after_arrow(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('➜')?;
    let is_start = |word: &&str| *word == "sudo" || PROGRAMS.contains(word);
    let program = rest.split_whitespace().take(MOST_WORDS).find(is_start)?;
    Some(rest[rest.find(program)?..].trim())
}

/// The most words of such a prompt: the folder, and the branch that is checked out there.
const MOST_WORDS: usize = 4;

/// Whether what is before a mark is a machine's name alone, `worker-3 # ` or `node1:~# `, with a folder or without.
fn is_host(before: &str) -> bool {
    let name =
        before.split_once(':').map_or(before, |(name, folder)| if folder.starts_with(['~', '/']) { name } else { "" });
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(is_of_name)
}

/// Whether a text starts with a program that people run where Services fail.
fn is_program(text: &str) -> bool {
    let program = text.split_whitespace().find(|word| !matches!(*word, "sudo" | "-E" | "exec")).unwrap_or_default();
    PROGRAMS.contains(&after_path(program))
}

/// Names in prompts that are shells, not machines.
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "ash"];

/// Whether a name says nothing of the machine: that of its loopback address, and the one that macOS shows where it does not know its own.
fn is_of_any_machine(name: &str) -> bool {
    let is_address = name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let first = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    is_address || matches!(&*first, "localhost" | "localhost4" | "localhost6" | "ip6-localhost" | "bogon")
}

/// The machine in a prompt: `root@node:~# `, `[root@node ~]# `, `worker-3 # `.
fn host_of(prompt: &str) -> Option<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    if prompt.contains('\\') {
        return None;
    }
    let text = prompt.trim().trim_start_matches('[').trim_end_matches(['#', '$', '%', '>']).trim_end();
    let rest = match text.split_once('@') {
        Some((_, rest)) => rest,
        None => Some(text).filter(|text| is_host(text))?,
    };
    let name: String = rest.chars().take_while(|letter| is_of_name(*letter)).collect();
    let shell = name.split('-').next().unwrap_or_default();
    (!name.is_empty() && !SHELLS.contains(&shell) && !is_of_any_machine(&name)).then_some(name)
}

impl Command {
    /// Whether it may print a format: `kubectl get` prints no rules, but a program in a pod may.
    pub(super) fn may_print(&self, format: Format) -> bool {
        let is_of_rules = matches!(
            format,
            Format::IptablesSave
                | Format::IptablesRules
                | Format::IptablesList
                | Format::Nft
                | Format::NftJson
                | Format::IptablesNft
        );
        let mut words = self.text.split_whitespace().skip_while(|word| *word == "sudo");
        let is_kubectl = words.next().is_some_and(|program| matches!(program, "kubectl" | "k" | "oc"));
        !(is_of_rules && is_kubectl && words.any(|word| matches!(word, "get" | "describe")))
    }

    /// The table that a command of iptables prints; that of the program's default where it names none.
    pub(super) fn table(&self) -> Option<TableName> {
        // Several commands on a line print several tables.
        let pipes = pipes(&self.text);
        let [pipe] = pipes.as_slice() else { return None };
        // A shell's command may be in quotes: `sh -c 'iptables -t nat -S'`.
        let words = pipe.iter().map(|words| words.iter().flat_map(|word| word.split_whitespace()).collect::<Vec<_>>());
        let words = words.into_iter().find(|words| words.iter().any(|word| is_iptables(after_path(word))))?;
        if words.iter().any(|word| word.contains([';', '&'])) {
            return None;
        }
        let is_save = words.iter().any(|word| after_path(word).ends_with("-save"));
        match value_of_table(&words) {
            Some(name) => TableName::ALL.into_iter().find(|table| table.as_str() == name),
            None => (!is_save).then_some(TableName::Filter),
        }
    }

    /// The chain of kube-proxy's that a command of iptables lists alone: `iptables -t nat -nL KUBE-SERVICES`.
    pub(super) fn listed_chain(&self) -> Option<&str> {
        let [pipe] = pipes(&self.text).try_into().ok()?;
        let words: &Vec<String> = pipe.first()?;
        // `-L`, also among other letters: `-nvL`.
        let is_list =
            |word: &str| word == "--list" || word.starts_with('-') && !word.starts_with("--") && word.ends_with('L');
        let chain = words.windows(2).find(|pair| is_list(&pair[0])).map(|pair| &pair[1])?;
        self.text.split_whitespace().find(|word| *word == chain.as_str() && chain.starts_with("KUBE-"))
    }
}

/// The value of the option `-t` of iptables, in one of its spellings.
fn value_of_table<'w>(words: &[&'w str]) -> Option<&'w str> {
    // `iptables -nvL -t nat`, and options that end in a `t`: `-vnt nat`.
    let takes_next =
        |word: &str| word == "--table" || word.starts_with('-') && !word.starts_with("--") && word.ends_with('t');
    let next = words.windows(2).find(|pair| takes_next(pair[0])).map(|pair| pair[1]);
    let attached = |word: &&'w str| {
        let value = word.strip_prefix("--table=").or(word.strip_prefix("-t"))?;
        (!value.is_empty()).then_some(value)
    };
    next.or_else(|| words.iter().find_map(attached))
}

/// The name of a program without its path.
fn after_path(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

fn is_iptables(name: &str) -> bool {
    matches!(name, "iptables" | "ip6tables" | "iptables-nft" | "iptables-legacy" | "ip6tables-nft" | "ip6tables-legacy")
        || name.ends_with("tables-save")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::dollar("$ kubectl get svc", Some("kubectl get svc"))]
    #[case::root("root@node:~# iptables-save | grep x", Some("iptables-save | grep x"))]
    #[case::brackets(
        "[root@worker1 ~]# kubectl get pods -o wide | grep FOO",
        Some("kubectl get pods -o wide | grep FOO")
    )]
    #[case::arrows(">> iptables -t nat -L", Some("iptables -t nat -L"))]
    #[case::user("ubuntu@VM-0-42-ubuntu:~$ sudo iptables-save |grep 1", Some("sudo iptables-save |grep 1"))]
    #[case::bare("iptables -t nat -nL", Some("iptables -t nat -nL"))]
    #[case::machine("worker-3 # iptables-save", Some("iptables-save"))]
    #[case::machine_and_folder("node1:/var/log$ sudo nft list ruleset", Some("sudo nft list ruleset"))]
    #[case::shell("bash-5.1# iptables-save", Some("iptables-save"))]
    #[case::older_shell("sh-4.4$ kubectl get svc", Some("kubectl get svc"))]
    #[case::container("/ # ip route", Some("ip route"))]
    #[case::arrow("➜  ~ kubectl get svc", Some("kubectl get svc"))]
    #[case::power_shell(r"PS C:\> kubectl get svc", Some("kubectl get svc"))]
    #[case::windows(r"C:\Users\x>kubectl get svc", Some("kubectl get svc"))]
    #[case::named_comment("x=1 # see above", None)]
    #[case::label("iptables-save:", Some("iptables-save"))]
    #[case::filtered_label("iptables-save | grep web:", Some("iptables-save | grep web:"))]
    #[case::prose("iptables is a program", None)]
    #[case::comment("# Generated by iptables-save v1.8.9 on Thu", None)]
    #[case::heading("# Setup", None)]
    #[case::alias("k -n kube-system get pods", Some("k -n kube-system get pods"))]
    #[case::rest("k --seconds 10800 --reap --name KUBE-SEP-B6FDGXYZGXXUNZEJ", None)]
    #[case::rule("-A KUBE-SERVICES -j X", None)]
    fn commands_are_recognised(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(command(line).map(|command| command.text), expected.map(str::to_owned));
    }

    #[rstest]
    #[case("root@worker-1:~# iptables-save", Some("worker-1"))]
    #[case("[root@worker1 ~]# iptables -t nat -nL", Some("worker1"))]
    #[case("$ iptables-save", None)]
    #[case("[root@localhost ~]# iptables-save", None)]
    #[case("root@localhost.localdomain:~# iptables-save", None)]
    #[case("root@localhost-1:~# iptables-save", Some("localhost-1"))]
    #[case("worker-3 # iptables-save", Some("worker-3"))]
    #[case("node1:~# iptables-save", Some("node1"))]
    #[case("worker-3:~ # iptables-save", Some("worker-3"))]
    #[case("root@ip-10-0-1-5:/home/x$ sudo iptables-save", Some("ip-10-0-1-5"))]
    #[case("bash-5.1# iptables-save", None)]
    #[case("sh-4.4$ iptables-save", None)]
    #[case("/ # iptables-save", None)]
    #[case("$ docker exec kind-worker iptables-save", Some("kind-worker"))]
    #[case("me@laptop:~$ docker exec -it -u root kind-worker sh -c 'iptables-save'", Some("kind-worker"))]
    #[case("$ sudo docker exec 4f66ad9a0b2e iptables-save", None)]
    #[case("me@laptop:~$ docker ps", Some("laptop"))]
    #[case("$ ssh -p 22 root@worker-3 iptables-save", Some("worker-3"))]
    #[case("$ ssh root@172.18.0.3 iptables-save", None)]
    #[case("$ ssh worker-3", None)]
    #[case("$ kubectl debug node/worker-3 -it --image=busybox -- chroot /host iptables-save", Some("worker-3"))]
    #[case("$ kubectl exec -n kube-system kube-proxy-x -- iptables-save", None)]
    fn the_machine_is_that_of_the_prompt(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(command(line).and_then(|command| command.host).as_deref(), expected);
    }

    #[rstest]
    #[case("sudo iptables -t nat -L KUBE-SERVICES | grep web", Some("KUBE-SERVICES"))]
    #[case("iptables -nvL KUBE-NODEPORTS -t nat", Some("KUBE-NODEPORTS"))]
    #[case("iptables -t nat -nL | grep KUBE-SERVICES", None)]
    #[case("iptables -t nat -L KUBE-SERVICES; iptables -t nat -L KUBE-NODEPORTS", None)]
    fn the_chain_is_that_of_the_command(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(Command { text: text.to_owned(), host: None }.listed_chain(), expected);
    }

    #[rstest]
    #[case("sudo iptables -t nat -L -n", Some(TableName::Nat))]
    #[case("iptables -nvL", Some(TableName::Filter))]
    #[case("iptables -vnLt nat", Some(TableName::Nat))]
    #[case("iptables-save | grep x", None)]
    #[case("kubectl get svc -t nat", None)]
    #[case("iptables -t nat -nvL; iptables -nvL", None)]
    #[case("iptables -L -t nat|grep nginx", Some(TableName::Nat))]
    #[case("docker exec w sh -c 'iptables -t nat -S'", Some(TableName::Nat))]
    #[case("ssh w 'iptables -t nat -S; iptables -S'", None)]
    #[case("iptables -L -tnat", Some(TableName::Nat))]
    #[case("iptables -L -t natiptables-save", None)]
    #[case("iptables-legacy -S", Some(TableName::Filter))]
    fn the_table_is_that_of_the_command(#[case] text: &str, #[case] expected: Option<TableName>) {
        assert_eq!(Command { text: text.to_owned(), host: None }.table(), expected);
    }
}
