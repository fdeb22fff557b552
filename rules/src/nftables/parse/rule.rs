//! Expressions of rules.

use std::net::SocketAddr;

use serde_json::value::RawValue;

use super::super::ast::Rule;
use super::super::name::Name;
use super::super::numgen::Numgen;
use super::super::statement::{Condition, LookupKey, MarkChange, Statement, Verdict};
use super::json::{Expression, Made, Masquerade, Reject, Value};
use super::values;
use crate::walk::RejectResponse;

/// What an expression is.
enum Part {
    Condition(Condition),
    Statement(Statement),
    /// It counts packets, which changes nothing for them.
    Nothing,
}

/// The rule of these expressions. What is not understood keeps its text: as a condition where it is a `match`
/// before all statements, else as a statement.
pub(super) fn rule(expressions: &[&RawValue], comment: Option<&str>) -> Rule {
    let mut rule = Rule { comment: comment.map(Into::into), ..Rule::default() };
    for raw in expressions {
        let expression: Option<Expression> = serde_json::from_str(raw.get()).ok();
        let is_match = matches!(expression, Some(Expression::Match { .. }));
        match expression.as_ref().and_then(part) {
            Some(Part::Condition(condition)) if rule.statements.is_empty() => rule.conditions.push(condition),
            Some(Part::Statement(statement)) => rule.statements.push(statement),
            Some(Part::Nothing) => {}
            None if is_match && rule.statements.is_empty() => rule.conditions.push(Condition::Other(raw.get().into())),
            Some(Part::Condition(_)) | None => rule.statements.push(Statement::Other(raw.get().into())),
        }
    }
    rule
}

/// None where it is nothing that kube-proxy writes.
fn part(expression: &Expression) -> Option<Part> {
    let statement = match expression {
        Expression::Match { op, left, right } => return condition(op, left, right).map(Part::Condition),
        Expression::Counter(_) => return Some(Part::Nothing),
        Expression::Verdict(verdict) => Statement::Verdict(values::verdict(verdict)),
        Expression::Vmap { key, data: Value::Text(map) } => {
            Statement::Lookup(values::lookup_key(key)?, values::set(map)?)
        }
        Expression::Vmap { key, data } => Statement::Balance(values::numgen(key, data)?.try_map(|value| chain(value))?),
        Expression::Dnat { family: Some(family), .. } if !matches!(family.as_str(), "ip" | "ip6") => return None,
        Expression::Dnat { addr, port: Some(port), .. } => {
            Statement::Dnat(SocketAddr::new(values::address(addr)?, *port))
        }
        Expression::Dnat { addr, port: None, .. } => Statement::BalanceDnat(destinations(addr)?),
        Expression::Masquerade(Some(masquerade)) if is_fully_random(masquerade) => {
            Statement::Masquerade { random: true }
        }
        Expression::Masquerade(None) => Statement::Masquerade { random: false },
        Expression::Masquerade(_) => return None,
        Expression::Reject(reject) if is_port_unreachable(reject.as_ref()) => {
            Statement::Reject(RejectResponse::PortUnreachable)
        }
        Expression::Reject(_) => return None,
        Expression::Mangle { key, value } if is_mark(key) => Statement::Mark(mark_change(value)?),
        Expression::Mangle { .. } => return None,
        Expression::Set { op, elem, set } => match (op.as_str(), values::lookup_key(elem)?.as_slice()) {
            ("update", [LookupKey::Address(side)]) => Statement::Remember(*side, values::set(set)?),
            _ => return None,
        },
    };
    Some(Part::Statement(statement))
}

/// The chain of `goto`.
fn chain(value: &Value) -> Option<Name> {
    let Value::Made(made) = value else { return None };
    let Made::Verdict(verdict) = &**made else { return None };
    match values::verdict(verdict) {
        Verdict::Goto(chain) => Some(chain),
        Verdict::Jump(_) | Verdict::Accept | Verdict::Drop | Verdict::Return => None,
    }
}

fn destinations(address: &Value) -> Option<Numgen<SocketAddr>> {
    let Value::Made(made) = address else { return None };
    let Made::Map { key, data } = &**made else { return None };
    values::numgen(key, data)?.try_map(|value| values::socket(value))
}

fn is_fully_random(masquerade: &Masquerade) -> bool {
    let flags = masquerade.flags.as_ref().map(|flags| flags.as_slice()).unwrap_or_default();
    matches!(flags, [flag] if flag == "fully-random")
}

/// The default response of `reject`.
fn is_port_unreachable(reject: Option<&Reject>) -> bool {
    let Some(reject) = reject else { return true };
    let is = |given: &Option<String>, wanted: &[&str]| given.as_deref().is_none_or(|given| wanted.contains(&given));
    is(&reject.kind, &["icmp", "icmpv6"]) && is(&reject.expr, &["port-unreachable"])
}

fn is_mark(value: &Value) -> bool {
    matches!(value, Value::Made(made) if matches!(&**made, Made::Meta { key } if key == "mark"))
}

fn mark_change(value: &Value) -> Option<MarkChange> {
    let Value::Made(made) = value else { return None };
    match &**made {
        Made::Or([mark, Value::Number(bit)]) if is_mark(mark) => Some(MarkChange::Set(*bit)),
        Made::Xor([mark, Value::Number(bit)]) if is_mark(mark) => Some(MarkChange::Flip(*bit)),
        _ => None,
    }
}

fn condition(op: &str, left: &Value, right: &Value) -> Option<Condition> {
    let negated = match op {
        "==" | "in" => false,
        "!=" => true,
        _ => return None,
    };
    let Value::Made(made) = left else { return None };
    let condition = match (&**made, right) {
        (Made::Ct { key }, value) if !negated => match (key.as_str(), only_text(value)?) {
            ("state", "new") => Condition::new_connection(),
            ("status", "dnat") => Condition::Translated,
            _ => return None,
        },
        (Made::Payload { protocol, field }, value) => match values::address_field(protocol, field) {
            Some(side) => Condition::Address { side, negated, value: values::addresses(value)? },
            None => destination_port(protocol, field, value).filter(|_| !negated)?,
        },
        (Made::Meta { key }, value) => interface_or_protocol(key, negated, value)?,
        (Made::Fib { result, flags }, Value::Text(kind)) if !negated && result == "type" && kind == "local" => {
            match flags.as_slice() {
                [flag] => Condition::Local(values::side(flag)?),
                _ => return None,
            }
        }
        (Made::And([mark, Value::Number(bit)]), Value::Number(0)) if is_mark(mark) => {
            Condition::mark_bit(negated, *bit)
        }
        (Made::Concat(_), Value::Text(set)) if !negated => {
            Condition::InSet(values::lookup_key(left)?, values::set(set)?)
        }
        _ => return None,
    };
    Some(condition)
}

/// The text of a value that is one, or a list or set of a single one.
fn only_text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::List(members) => single(members),
        Value::Made(made) => match &**made {
            Made::Set(members) => single(members),
            _ => None,
        },
        Value::Number(_) | Value::Other(_) => None,
    }
}

fn single(members: &[Value]) -> Option<&str> {
    match members {
        [Value::Text(text)] => Some(text),
        _ => None,
    }
}

fn destination_port(protocol: &str, field: &str, value: &Value) -> Option<Condition> {
    let protocol = values::protocol(&Value::Text(protocol.to_owned()))?;
    match value {
        Value::Number(port) if field == "dport" => {
            Some(Condition::destination_port(protocol, u16::try_from(*port).ok()?))
        }
        _ => None,
    }
}

fn interface_or_protocol(key: &str, negated: bool, value: &Value) -> Option<Condition> {
    match (key, value) {
        ("l4proto", value) if !negated => values::protocol(value).map(Condition::protocol),
        ("iif" | "iifname", Value::Text(name)) => Some(Condition::input(key == "iifname", negated, name.as_str())),
        _ => None,
    }
}
