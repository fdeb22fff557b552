//! The modules of a crate that a module refers to: in `use`, in other paths, and in the arguments of macros.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, UseTree, Visibility};

use crate::modules::Module;

/// Maps a module's path to the paths of the modules that it refers to.
pub(crate) type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The imports of all modules. A name that a module re-exports counts for the module that defines it.
pub(crate) fn imports(modules: &[Module]) -> Imports {
    let paths: BTreeSet<&[String]> = modules.iter().map(|module| module.path.as_slice()).collect();
    let reexports = all_reexports(modules);
    let of = |module: &Module| {
        let tokens = module.items.iter().filter(|item| !is_reexport(item)).map(ToTokens::to_token_stream).collect();
        let mut named = Vec::new();
        collect(tokens, &module.path, &mut named);
        let homes = named.into_iter().map(|path| home(path, &paths, &reexports));
        (module.path.clone(), homes.filter(|home| *home != module.path).collect())
    };
    modules.iter().map(of).collect()
}

/// The maximum number of re-exports before a definition. Sources that are being edited may contain a cycle.
pub(crate) const MAX_REEXPORTS: usize = 32;

/// The module that defines what a path names.
fn home(mut path: Vec<String>, modules: &BTreeSet<&[String]>, reexports: &Reexports) -> Vec<String> {
    for _ in 0..MAX_REEXPORTS {
        let Some(length) = (1..=path.len()).find(|length| reexports.contains_key(&path[..*length])) else { break };
        path = [reexports[&path[..length]].as_slice(), &path[length..]].concat();
    }
    assert!(path.len() < MAX_REEXPORTS, "re-exports lead in a circle: {path:?}");
    while !modules.contains(path.as_slice()) {
        path.pop();
    }
    path
}

/// Maps the full path of each re-exported name to the path of its target.
pub(crate) type Reexports = BTreeMap<Vec<String>, Vec<String>>;

/// The re-exports of all modules. A function may be called like its module; then the module is meant.
pub(crate) fn all_reexports(modules: &[Module]) -> Reexports {
    let is_module = |name: &[String]| modules.iter().any(|module| module.path == name);
    modules.iter().flat_map(reexports).filter(|(name, _)| !is_module(name)).collect()
}

/// The names that a module re-exports, as full paths, with the paths behind them.
fn reexports(module: &Module) -> Vec<(Vec<String>, Vec<String>)> {
    let mut found = Vec::new();
    for item in module.items.iter().filter(|item| is_reexport(item)) {
        let Item::Use(item) = item else { continue };
        leaves(&item.tree, &mut Vec::new(), &mut |path, name| {
            if let Some(full) = absolute(path, &module.path) {
                found.push(([module.path.as_slice(), &[name]].concat(), full));
            }
        });
    }
    found.retain(|(name, path)| name != path);
    found
}

/// Calls `leaf` with the path and the name of each import of a tree.
pub(crate) fn leaves(tree: &UseTree, path: &mut Vec<String>, leaf: &mut impl FnMut(&[String], String)) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            leaves(&tree.tree, path, leaf);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, leaf)),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            leaf(&[path.as_slice(), std::slice::from_ref(&name)].concat(), name);
        }
        UseTree::Rename(name) => leaf(&[path.as_slice(), &[name.ident.to_string()]].concat(), name.rename.to_string()),
        UseTree::Glob(_) => {}
    }
}

pub(crate) fn is_reexport(item: &Item) -> bool {
    matches!(item, Item::Use(item) if !matches!(item.vis, Visibility::Inherited))
}

/// A path as seen from a module, from the crate's root on. Names of other crates and of a module's own children start no such path.
pub(crate) fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => match absolute_parent(&path[1..], module) {
            Some(path) => Some(path),
            None => panic!("{path:?} in {module:?} leads out of the crate"),
        },
        _ => Some([module, path].concat()),
    }
}

fn absolute_parent(rest: &[String], module: &[String]) -> Option<Vec<String>> {
    let (_, parent) = module.split_last()?;
    match rest.first() {
        Some(first) if first == "super" => absolute_parent(&rest[1..], parent),
        _ => Some([parent, rest].concat()),
    }
}

/// Collects all paths in tokens that start with `crate`, `self` or `super`.
fn collect(tokens: TokenStream, module: &[String], found: &mut Vec<Vec<String>>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => collect(group.stream(), module, found),
            TokenTree::Ident(ident) if ["crate", "self", "super"].iter().any(|start| ident == start) => {
                path(vec![ident.to_string()], &mut tokens, module, found);
            }
            _ => {}
        }
    }
}

type Tokens = std::iter::Peekable<proc_macro2::token_stream::IntoIter>;

/// Continues with a path whose first names are known, and with each path of a group.
fn path(mut names: Vec<String>, tokens: &mut Tokens, module: &[String], found: &mut Vec<Vec<String>>) {
    while is_colon(tokens.peek()) {
        tokens.next();
        tokens.next_if(|token| is_colon(Some(token)));
        match tokens.peek() {
            Some(TokenTree::Ident(ident)) => {
                names.push(ident.to_string());
                tokens.next();
            }
            Some(TokenTree::Group(group)) => {
                group_paths(&names, group.stream(), module, found);
                return;
            }
            _ => break,
        }
    }
    if names.len() > 1 {
        found.extend(absolute(&names, module));
    }
}

fn group_paths(start: &[String], group: TokenStream, module: &[String], found: &mut Vec<Vec<String>>) {
    let mut tokens = group.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Ident(ident) = token {
            if ident == "as" {
                tokens.next();
                continue;
            }
            let own = if ident == "self" { Vec::new() } else { vec![ident.to_string()] };
            path([start, &own].concat(), &mut tokens, module, found);
        }
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        collect(text.parse().expect("tokens"), &["a".to_owned(), "b".to_owned()], &mut found);
        found.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn imports_are_found_in_groups_paths_and_macros() {
        assert_eq!(
            of("use crate::{output, topology::{self, Plan}, lab as l};"),
            ["output", "topology", "topology::Plan", "lab"]
        );
        assert_eq!(of("use super::{c::D, E}; use self::f::G;"), ["a::c::D", "a::E", "a::b::f::G"]);
        assert_eq!(
            of("fn f(&self) { write!(f, \"{}\", crate::text::one_line(super::super::x::y(1))) }"),
            ["text::one_line", "x::y"]
        );
    }
}
