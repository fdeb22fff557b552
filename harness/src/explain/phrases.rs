//! Phrases for rules that both languages share.

/// The description of a rule.
pub(super) struct Words {
    /// Its conditions, as a fragment.
    pub(super) why: String,
    /// Its effect, as a fragment.
    pub(super) does: String,
    /// Whether it chooses at random.
    pub(super) is_by_chance: bool,
    /// Its part in load balancing, if it has one.
    pub(super) sharing: Option<String>,
}

pub(super) const DROPS: &str = "drops it";
pub(super) const RETURNS: &str = "returns to the calling chain, or to the policy";
pub(super) const MASQUERADES: &str = "masquerades it: this machine's address becomes the source";
pub(super) const RESETS: &str = "rejects it with a TCP reset";
pub(super) const CLOSES_PORT: &str = "rejects it with ICMP port unreachable";
pub(super) const REJECTS: &str = "rejects it with an ICMP error";

/// Returns the purpose of a chain, by its name. A name that ends with `-` is a prefix; longer ones come first.
pub(super) fn role_of(chain: &str, roles: &[(&str, &'static str)]) -> Option<&'static str> {
    let is_it = |name: &str| chain == name || name.ends_with('-') && chain.starts_with(name);
    roles.iter().find(|(name, _)| is_it(name)).map(|(_, role)| *role)
}

/// Describes a jump to a chain; `role` is the purpose of the chain.
pub(super) fn jumps(chain: &str, role: Option<&str>) -> String {
    format!("jumps to {chain}{}", in_brackets(role))
}

/// Describes a goto to a chain.
pub(super) fn goes(chain: &str, role: Option<&str>) -> String {
    format!("goes to {chain}, without return{}", in_brackets(role))
}

pub(super) fn marks(mark: &str) -> String {
    format!("marks it {mark}")
}

pub(super) fn flips_mark(bits: u32) -> String {
    format!("inverts the mark's bits {bits:#x}")
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
