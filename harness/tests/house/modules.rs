//! The modules of a crate, as the compiler finds them from `lib.rs`, without those of tests.

use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, File, Item, Visibility};

/// A module with its items.
pub(crate) struct Module {
    /// Its path from the crate's root, whose own path is empty.
    pub(crate) path: Vec<String>,
    /// Whether users see it: it is public and not hidden from the documentation.
    pub(crate) is_documented: bool,
    /// Its items, without other modules and tests.
    pub(crate) items: Vec<Item>,
}

/// All modules of the crate with this `src` folder.
pub(crate) fn modules(src: &Path) -> Vec<Module> {
    let mut all = Vec::new();
    read(src, &src.join("lib.rs"), Vec::new(), true, &mut all);
    all
}

/// Reads a module's file, and those of the modules in it, which are in `folder`.
fn read(folder: &Path, file: &Path, path: Vec<String>, is_documented: bool, all: &mut Vec<Module>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let File { items, .. } = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut own = Vec::new();
    for item in items.into_iter().filter(|item| !attributes(item).iter().any(is_test)) {
        match item {
            Item::Mod(module) if module.content.is_none() => {
                let name = module.ident.to_string();
                let inner = folder.join(&name);
                let single = folder.join(format!("{name}.rs"));
                let file = if single.exists() { single } else { inner.join("mod.rs") };
                let is_documented = is_public(&module.vis) && !is_hidden(&module.attrs);
                read(&inner, &file, [path.clone(), vec![name]].concat(), is_documented, all);
            }
            item => own.push(item),
        }
    }
    all.push(Module { path, is_documented, items: own });
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
}

/// Whether anything outside of the crate may use an item.
pub(crate) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether attributes hide an item from the documentation.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc") && attribute.to_token_stream().to_string().contains("(hidden)")
    })
}
