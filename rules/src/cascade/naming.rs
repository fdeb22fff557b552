//! How chains are called that share connections out, and those of endpoints.

/// The beginnings of the names of chains.
pub(super) struct Naming {
    /// Those of chains that share connections out.
    pub(super) groups: &'static [&'static str],
    /// That of endpoints' chains.
    pub(super) endpoint: &'static str,
}

impl Naming {
    pub(super) fn is_endpoint(&self, chain: &str) -> bool {
        chain.starts_with(self.endpoint)
    }

    pub(super) fn is_group(&self, chain: &str) -> bool {
        self.of_group(chain).is_some()
    }

    /// The part of a group's name that says which service port it is of; all groups of that have it in common.
    pub(super) fn of_group<'n>(&self, chain: &'n str) -> Option<&'n str> {
        self.groups.iter().find_map(|group| chain.strip_prefix(group))
    }

    /// The part of the name of an endpoint's chain that says which endpoint it is of.
    pub(super) fn of_endpoint<'n>(&self, chain: &'n str) -> Option<&'n str> {
        chain.strip_prefix(self.endpoint)
    }
}
