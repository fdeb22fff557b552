//! What is said of rules of either language, and the words that both share.

/// What is said of a rule.
pub(super) struct Words {
    /// What it asks for, as a fragment.
    pub(super) why: String,
    /// What it does, as a fragment.
    pub(super) does: String,
    /// Whether it leaves something to chance.
    pub(super) is_by_chance: bool,
    /// How packets are shared out, for rules that do so or have a part in it.
    pub(super) sharing: Option<String>,
}

pub(super) const DROPS: &str = "drops it, and nobody is told";
pub(super) const RETURNS: &str = "returns to the chain that it came from, or to the policy";
pub(super) const MASQUERADES: &str = "masquerades it, so that this machine's address becomes the source";
pub(super) const RESETS: &str = "rejects it, and the sender gets a TCP reset";
pub(super) const CLOSES_PORT: &str = "rejects it, and the sender is told that the port is unreachable";
pub(super) const REJECTS: &str = "rejects it, and the sender is told by ICMP";

/// What a chain is for, by its name. A name that ends with `-` stands for all that begin with it; longer ones come first.
pub(super) fn role_of(chain: &str, roles: &[(&str, &'static str)]) -> Option<&'static str> {
    let is_it = |name: &str| chain == name || name.ends_with('-') && chain.starts_with(name);
    roles.iter().find(|(name, _)| is_it(name)).map(|(_, role)| *role)
}

/// Through a chain, and back; `role` is what the chain is for.
pub(super) fn jumps(chain: &str, role: Option<&str>) -> String {
    format!("goes through {chain}{}", in_brackets(role))
}

/// On with a chain, and not back.
pub(super) fn goes(chain: &str, role: Option<&str>) -> String {
    format!("goes on with {chain} and does not come back{}", in_brackets(role))
}

pub(super) fn marks(mark: &str) -> String {
    format!("marks it {mark}")
}

pub(super) fn flips_mark(bits: u32) -> String {
    format!("flips the mark's bits {bits:#x}")
}

pub(super) fn translates_destination(to: &str) -> String {
    format!("translates the destination to {to}")
}

pub(super) fn translates_source(to: &str) -> String {
    format!("translates the source to {to}")
}

fn in_brackets(words: Option<&str>) -> String {
    words.map(|words| format!(" ({words})")).unwrap_or_default()
}
