//! Conversion of expressions in nft's JSON (libnftables-json(5)) to nft's own text, so that one parser handles both.
//!
//! An expression with an unknown field is a different one, and has no text.

use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// Returns the text of an expression; nothing if kube-proxy's rules do not use it.
pub(super) fn text(json: &str) -> Option<String> {
    let expression: Value = serde_json::from_str(json).ok()?;
    let (name, value) = only(&expression)?;
    let fields = |names: &[&str]| fields(value, names);
    Some(match name {
        "match" => {
            let fields = fields(&["op", "left", "right"])?;
            let (left, right) = (fields.get("left")?, fields.get("right")?);
            let op = match fields.get("op")?.as_str()? {
                "in" => "",
                "==" if only(left).is_some_and(|(name, _)| name == "&") => "==",
                "==" => "",
                "!=" => "!=",
                _ => return None,
            };
            let is_name = |name: &str| matches!(name, "iif" | "iifname" | "oif" | "oifname");
            let meta = only(left).filter(|(kind, _)| *kind == "meta").and_then(|(_, value)| value.get("key")?.as_str());
            let right = if meta.is_some_and(is_name) { quoted(right)? } else { values(right)? };
            format!("{} {op} {right}", values(left)?)
        }
        "vmap" => {
            let fields = fields(&["key", "data"])?;
            format!("{} vmap {}", values(fields.get("key")?)?, values(fields.get("data")?)?)
        }
        "dnat" | "snat" => format!("{name} {}", translation(value)?),
        "masquerade" if value.is_null() => name.to_owned(),
        "masquerade" => {
            let flags: Option<Vec<&str>> = one_or_more(fields(&["flags"])?.get("flags")?).map(Value::as_str).collect();
            format!("masquerade {}", flags?.join(" "))
        }
        "reject" if value.is_null() => name.to_owned(),
        "reject" => rejection(value)?,
        "mangle" => {
            let fields = fields(&["key", "value"])?;
            format!("{} set {}", values(fields.get("key")?)?, values(fields.get("value")?)?)
        }
        "set" => {
            let fields = fields(&["op", "elem", "set"])?;
            let [op, elem, set] = [fields.get("op")?, fields.get("elem")?, fields.get("set")?];
            format!("{} {} {{ {} }}", op.as_str()?, values(set)?, values(elem)?)
        }
        // They do not affect packets.
        "counter" | "log" => name.to_owned(),
        _ => verdict(name, value)?,
    })
}

/// `ip to 10.0.0.1:80`, of a `dnat` or `snat`.
fn translation(value: &Value) -> Option<String> {
    let fields = fields(value, &["addr", "port", "family"])?;
    let family = fields.get("family").map_or(Some(""), Value::as_str)?;
    let address = values(fields.get("addr")?)?;
    let to = match fields.get("port") {
        Some(port) if address.contains(':') => format!("[{address}]:{}", values(port)?),
        Some(port) => format!("{address}:{}", values(port)?),
        None => address,
    };
    Some(format!("{family} to {to}"))
}

fn rejection(value: &Value) -> Option<String> {
    let fields = fields(value, &["type", "expr"])?;
    let kind = fields.get("type").map_or(Some("icmp"), Value::as_str)?;
    Some(match (kind, fields.get("expr").map(values)) {
        ("tcp reset", None) => "reject with tcp reset".to_owned(),
        (_, None) => "reject".to_owned(),
        (_, Some(response)) => format!("reject with {kind} {}", response?),
    })
}

/// Returns whether an expression is a comparison.
pub(super) fn is_match(json: &str) -> bool {
    serde_json::from_str(json).is_ok_and(|expression: Value| only(&expression).is_some_and(|(name, _)| name == "match"))
}

/// Returns the text of an element: its key with its comment, and in a map its verdict.
pub(super) fn element(json: &str) -> Option<String> {
    let element: Value = serde_json::from_str(json).ok()?;
    let (key, data) = match &element {
        Value::Array(pair) => match pair.as_slice() {
            [key, data] => (key, Some(data)),
            _ => return None,
        },
        key => (key, None),
    };
    let (key, comment) = match only(key) {
        Some(("elem", elem)) => (elem.get("val")?, elem.get("comment").and_then(Value::as_str)),
        _ => (key, None),
    };
    let comment = comment.map(|comment| format!(" comment \"{comment}\"")).unwrap_or_default();
    let data = data.map_or(Some(String::new()), |data| Some(format!(" : {}", values(data)?)));
    Some(values(key)? + &comment + &data?)
}

/// Returns the text of a value.
fn values(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(word) => is_word(word).then(|| word.clone()),
        Value::Array(list) => joined(list, ","),
        Value::Object(_) => {
            let (name, value) = only(value)?;
            made(name, value)
        }
        Value::Null | Value::Bool(_) => None,
    }
}

/// Returns the text of a composite value.
fn made(name: &str, value: &Value) -> Option<String> {
    let text = |names: &[&str]| {
        let fields = fields(value, names)?;
        names.iter().map(|name| values(fields.get(*name)?)).collect::<Option<Vec<_>>>()
    };
    Some(match name {
        "payload" => text(&["protocol", "field"])?.join(" "),
        "meta" | "ct" => format!("{name} {}", text(&["key"])?.concat()),
        "fib" => {
            let fields = fields(value, &["result", "flags"])?;
            let [flag] = one_or_more(fields.get("flags")?).collect::<Vec<_>>()[..] else { return None };
            format!("fib {} {}", values(flag)?, values(fields.get("result")?)?)
        }
        "numgen" => {
            let fields = fields(value, &["mode", "mod", "offset"])?;
            let is_plain = fields.get("offset").is_none_or(|offset| *offset == 0);
            is_plain.then_some(())?;
            format!("numgen {} mod {}", values(fields.get("mode")?)?, values(fields.get("mod")?)?)
        }
        "concat" => joined(value.as_array()?, " . ")?,
        "prefix" => text(&["addr", "len"])?.join("/"),
        "range" => joined(value.as_array()?, "-")?,
        "&" | "|" | "^" => joined(value.as_array()?, &format!(" {name} "))?,
        "set" => {
            let pair = |item: &Value| match item {
                Value::Array(pair) => joined(pair, " : "),
                single => values(single),
            };
            let items: Option<Vec<String>> = value.as_array()?.iter().map(pair).collect();
            format!("{{ {} }}", items?.join(", "))
        }
        "map" => text(&["key", "data"])?.join(" map "),
        _ => verdict(name, value)?,
    })
}

fn verdict(name: &str, value: &Value) -> Option<String> {
    match name {
        "accept" | "drop" | "return" if value.is_null() => Some(name.to_owned()),
        "jump" | "goto" => Some(format!("{name} {}", values(fields(value, &["target"])?.get("target")?)?)),
        _ => None,
    }
}

/// Returns interface names in quotes.
fn quoted(value: &Value) -> Option<String> {
    match only(value) {
        Some(("set", names)) => {
            let names: Option<Vec<String>> = names.as_array()?.iter().map(quoted).collect();
            Some(format!("{{ {} }}", names?.join(", ")))
        }
        _ => value.as_str().filter(|name| !name.contains('"')).map(|name| format!("\"{name}\"")),
    }
}

fn joined(items: &[Value], between: &str) -> Option<String> {
    items.iter().map(values).collect::<Option<Vec<_>>>().map(|items| items.join(between))
}

/// Returns the name and value of an object with a single field.
fn only(value: &Value) -> Option<(&str, &Value)> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.iter().next().map(|(name, value)| (name.as_str(), value))
}

/// Returns the fields of an object that has no others.
fn fields<'v>(value: &'v Value, names: &[&str]) -> Option<&'v Fields> {
    value.as_object().filter(|fields| fields.keys().all(|name| names.contains(&name.as_str())))
}

fn one_or_more(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter()
}

/// Returns whether a string is one word in nft's text.
fn is_word(text: &str) -> bool {
    let is_sign = |letter: char| letter.is_whitespace() || "{},;\"#".contains(letter);
    !text.is_empty() && !text.contains(is_sign)
}
