//! The public API of both crates: a listing that changes only together with its snapshot.
//!
//! `INSTA_UPDATE=always cargo test -p svclab --test house` regenerates the listing.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{Fields, ImplItem, Item, TraitItem, Type, Visibility};

use crate::crates;
use crate::imports::{MAX_REEXPORTS, Reexports, absolute, all_reexports, is_reexport, leaves};
use crate::modules::{Module, attributes, is_hidden, is_public, modules};

#[test]
fn the_public_items_are_those_that_are_listed() {
    for (name, src) in crates() {
        insta::assert_snapshot!(name, listing(&modules(&src)));
    }
}

/// Every documented item with its path, one per line.
fn listing(modules: &[Module]) -> String {
    let mut api = Api { modules, reexports: all_reexports(modules), functions: BTreeMap::new() };
    api.functions = api.functions();
    let mut lines = BTreeSet::new();
    for module in modules.iter().filter(|module| api.is_documented(&module.path)) {
        let public = module.path.join("::");
        for item in &module.items {
            match item {
                Item::Use(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                    leaves(&item.tree, &mut Vec::new(), &mut |path, name| {
                        let Some(path) = absolute(path, &module.path) else { return };
                        api.list(&api.definition(path), &joined(&public, &name), &mut lines);
                    });
                }
                item => {
                    if let Some(name) = name_of(item) {
                        api.list(
                            &[module.path.as_slice(), std::slice::from_ref(&name)].concat(),
                            &joined(&public, &name),
                            &mut lines,
                        );
                    }
                }
            }
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

struct Api<'m> {
    modules: &'m [Module],
    reexports: Reexports,
    /// The public functions and constants of types, by the types' definitions.
    functions: BTreeMap<Vec<String>, Vec<String>>,
}

impl Api<'_> {
    /// Whether a module and all of its parents are documented.
    fn is_documented(&self, path: &[String]) -> bool {
        (0..=path.len()).all(|length| self.module(&path[..length]).is_some_and(|module| module.is_documented))
    }

    fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.iter().find(|module| module.path == path)
    }

    /// The path of the definition behind re-exports.
    fn definition(&self, mut path: Vec<String>) -> Vec<String> {
        for _ in 0..MAX_REEXPORTS {
            let Some(behind) = self.reexports.get(&path) else { return path };
            path.clone_from(behind);
        }
        panic!("re-exports lead in a circle: {path:?}")
    }

    /// Lists the public items of a definition's name: the item itself, its fields, variants and functions.
    fn list(&self, definition: &[String], public: &str, lines: &mut BTreeSet<String>) {
        let Some((name, path)) = definition.split_last() else { return };
        let Some(module) = self.module(path) else { return };
        for item in module.items.iter().filter(|item| name_of(item).as_ref() == Some(name)) {
            if !is_hidden(attributes(item)) {
                lines.extend(item_lines(item, public));
            }
        }
        let functions = self.functions.get(definition).into_iter().flatten();
        lines.extend(functions.map(|function| format!("{public}: {function}")));
    }

    /// The public functions and constants of all types, by the types' definitions.
    fn functions(&self) -> BTreeMap<Vec<String>, Vec<String>> {
        let mut all: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
        for (module, item) in self.modules.iter().flat_map(|module| module.items.iter().map(move |item| (module, item)))
        {
            let Item::Impl(item) = item else { continue };
            let Some(of) = self.self_type(&item.self_ty, module).filter(|_| item.trait_.is_none()) else { continue };
            let functions = item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => Some(plain(&item.sig)),
                ImplItem::Const(item) if is_public(&item.vis) => Some(format!("const {}", item.ident)),
                _ => None,
            });
            all.entry(of).or_default().extend(functions);
        }
        all
    }

    /// The definition of the type of an `impl` in a module.
    fn self_type(&self, of: &Type, module: &Module) -> Option<Vec<String>> {
        let Type::Path(path) = of else { return None };
        let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if module.items.iter().any(|item| name_of(item).is_some_and(|name| names == [name])) {
            return Some([module.path.as_slice(), &names].concat());
        }
        let mut found = None;
        for item in module.items.iter() {
            let Item::Use(item) = item else { continue };
            leaves(&item.tree, &mut Vec::new(), &mut |path, name| {
                if names.first() == Some(&name) && ["crate", "self", "super"].contains(&path[0].as_str()) {
                    found = absolute(path, &module.path).map(|path| [path.as_slice(), &names[1..]].concat());
                }
            });
        }
        found.map(|path| self.definition(path))
    }
}

/// The name of a public item that is not a re-export.
fn name_of(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    (is_public(visibility) && !is_reexport(item)).then(|| name.to_string())
}

/// An item in one line, then its public fields, or its variants or functions.
fn item_lines(item: &Item, public: &str) -> Vec<String> {
    match item {
        Item::Enum(item) => {
            let open = item.attrs.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
            let head = format!("{public}: {}enum{}", if open { "non-exhaustive " } else { "" }, plain(&item.generics));
            let variants = item.variants.iter().flat_map(|variant| {
                let own = format!("{public}::{}", variant.ident);
                [own.clone()].into_iter().chain(fields(&variant.fields, &own, |_| true))
            });
            [head].into_iter().chain(variants).collect()
        }
        Item::Struct(item) => {
            let head = format!("{public}: struct{}", plain(&item.generics));
            [head].into_iter().chain(fields(&item.fields, public, is_public)).collect()
        }
        Item::Trait(item) => {
            let functions = item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(item) => Some(format!("{public}: {}", plain(&item.sig))),
                _ => None,
            });
            [format!("{public}: trait{}", plain(&item.generics))].into_iter().chain(functions).collect()
        }
        Item::Fn(item) => vec![format!("{public}: {}", plain(&item.sig))],
        Item::Const(item) => vec![format!("{public}: const {}", plain(&item.ty))],
        Item::Static(item) => vec![format!("{public}: static {}", plain(&item.ty))],
        Item::Type(item) => vec![format!("{public}: type {}", plain(&item.ty))],
        _ => Vec::new(),
    }
}

fn fields(fields: &Fields, of: &str, is_listed: impl Fn(&Visibility) -> bool) -> Vec<String> {
    let listed = fields.iter().enumerate().filter(|(_, field)| is_listed(&field.vis));
    listed
        .map(|(at, field)| {
            let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
            format!("{of}.{name}: {}", plain(&field.ty))
        })
        .collect()
}

/// Code in one line, without the spaces of tokens around punctuation.
fn plain(code: &impl ToTokens) -> String {
    let mut text = code.to_token_stream().to_string();
    for (wide, narrow) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" >", ">"),
        ("< ", "<"),
        ("& ", "&"),
        (" ,", ","),
        (" (", "("),
        (" : ", ": "),
        ("' ", "'"),
        (" <", "<"),
        (" [", "["),
    ] {
        text = text.replace(wide, narrow);
    }
    text
}

fn joined(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}
