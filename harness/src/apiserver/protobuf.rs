//! Decoding of Events in protobuf, which kube-proxy sends when it starts. Everything else is JSON, which every client accepts.
//!
//! The numbers of fields are those of `generated.proto` in `k8s.io/api/core/v1` and `k8s.io/api/events/v1`.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::resource::Form;

/// The media type.
pub(super) const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// The start of every object in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// The type of a field.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Number,
    Time,
    Message(Fields),
}

/// The decoded fields of a message: numbers, names in JSON, and types.
type Fields = &'static [(u64, &'static str, Shape)];

const METADATA: Shape =
    Shape::Message(&[(1, "name", Shape::Text), (2, "generateName", Shape::Text), (3, "namespace", Shape::Text)]);

const REFERENCE: Shape = Shape::Message(&[
    (1, "kind", Shape::Text),
    (2, "namespace", Shape::Text),
    (3, "name", Shape::Text),
    (4, "uid", Shape::Text),
    (5, "apiVersion", Shape::Text),
]);

const SOURCE: Shape = Shape::Message(&[(1, "component", Shape::Text), (2, "host", Shape::Text)]);

const SERIES: Shape = Shape::Message(&[(1, "count", Shape::Number), (2, "lastObservedTime", Shape::Time)]);

const CORE_EVENT: Fields = &[
    (1, "metadata", METADATA),
    (2, "involvedObject", REFERENCE),
    (3, "reason", Shape::Text),
    (4, "message", Shape::Text),
    (5, "source", SOURCE),
    (6, "firstTimestamp", Shape::Time),
    (7, "lastTimestamp", Shape::Time),
    (8, "count", Shape::Number),
    (9, "type", Shape::Text),
    (10, "eventTime", Shape::Time),
    (11, "series", SERIES),
    (12, "action", Shape::Text),
    (13, "related", REFERENCE),
    (14, "reportingComponent", Shape::Text),
    (15, "reportingInstance", Shape::Text),
];

const GROUP_EVENT: Fields = &[
    (1, "metadata", METADATA),
    (2, "eventTime", Shape::Time),
    (3, "series", SERIES),
    (4, "reportingController", Shape::Text),
    (5, "reportingInstance", Shape::Text),
    (6, "action", Shape::Text),
    (7, "reason", Shape::Text),
    (8, "regarding", REFERENCE),
    (9, "related", REFERENCE),
    (10, "note", Shape::Text),
    (11, "type", Shape::Text),
    (12, "deprecatedSource", SOURCE),
    (13, "deprecatedFirstTimestamp", Shape::Time),
    (14, "deprecatedLastTimestamp", Shape::Time),
    (15, "deprecatedCount", Shape::Number),
];

/// Decodes an Event in a form; `None` for anything else.
pub(super) fn event(form: Form, bytes: &[u8]) -> Option<Value> {
    let fields = match form {
        Form::Stored => CORE_EVENT,
        Form::GroupEvent => GROUP_EVENT,
        Form::SliceTopology => return None,
    };
    // `runtime.Unknown`: the second field is the object.
    let raw = Parts(bytes.strip_prefix(MAGIC)?).find_map(|part| match part {
        Some((2, Part::Bytes(raw))) => Some(raw),
        _ => None,
    });
    message(fields, raw?)
}

fn message(fields: Fields, bytes: &[u8]) -> Option<Value> {
    let mut object = Map::new();
    for part in Parts(bytes) {
        let (number, part) = part?;
        let Some((_, name, shape)) = fields.iter().find(|(known, ..)| *known == number) else { continue };
        let value = match (shape, part) {
            (Shape::Text, Part::Bytes(text)) => std::str::from_utf8(text).ok()?.into(),
            (Shape::Number, Part::Number(number)) => number.into(),
            (Shape::Time, Part::Bytes(time)) => timestamp(time)?,
            (Shape::Message(fields), Part::Bytes(inner)) => message(fields, inner)?,
            _ => return None,
        };
        // Unset fields are encoded as well.
        if !matches!(&value, Value::Null) && value != "" {
            object.insert((*name).to_owned(), value);
        }
    }
    Some(Value::Object(object))
}

/// Decodes seconds and nanoseconds; `null` for no time.
fn timestamp(bytes: &[u8]) -> Option<Value> {
    let (mut seconds, mut nanoseconds) = (None, 0);
    for part in Parts(bytes) {
        match part? {
            (1, Part::Number(number)) => seconds = Some(number.cast_signed()),
            (2, Part::Number(number)) => nanoseconds = i32::try_from(number).ok()?,
            _ => return None,
        }
    }
    let Some(seconds) = seconds else { return Some(Value::Null) };
    let time = Timestamp::new(seconds, nanoseconds).ok()?;
    Some(format!("{time:.6}").into())
}

/// The value of a field.
enum Part<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// An iterator over the fields of a message, in order; the last item is `None` if a field is truncated or has an unknown type.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Option<(u64, Part<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let part = self.part();
        if part.is_none() {
            self.0 = &[];
        }
        Some(part)
    }
}

impl<'a> Parts<'a> {
    fn part(&mut self) -> Option<(u64, Part<'a>)> {
        let tag = self.number()?;
        let part = match tag & 7 {
            0 => Part::Number(self.number()?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Part::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, part))
    }

    /// Decodes a varint: seven bits per byte, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn envelope(object: &[u8]) -> Vec<u8> {
        let kind = field(1, &[field(1, b"events.k8s.io/v1"), field(2, b"Event")].concat());
        [MAGIC, &kind, &field(2, object), &field(3, b""), &field(4, b"")].concat()
    }

    #[test]
    fn an_event_is_read() {
        let time = [&[1 << 3][..], &[0x80, 0x8c, 0x8d, 0xa9, 0x06], &[2 << 3, 0]].concat();
        let metadata = [field(1, b"n1.1"), field(2, b""), field(3, b"default"), field(8, &[1 << 3, 0])].concat();
        let reference = [field(1, b"Node"), field(3, b"n1")].concat();
        let object = [field(1, &metadata), field(2, &time), field(8, &reference), field(10, b"it runs")].concat();
        let expected = json!({
            "metadata": {"name": "n1.1", "namespace": "default"},
            "eventTime": "2023-10-09T00:14:56.000000Z",
            "regarding": {"kind": "Node", "name": "n1"},
            "note": "it runs",
        });
        let read = event(Form::GroupEvent, &envelope(&object));
        assert_eq!(read, Some(expected));
    }

    #[test]
    fn what_is_cut_off_is_no_event() {
        let whole = envelope(&field(10, b"it runs"));
        assert!(event(Form::GroupEvent, &whole).is_some());
        assert_eq!(event(Form::GroupEvent, &envelope(&field(10, b"it runs")[..5])), None);
        assert_eq!(event(Form::GroupEvent, &whole[1..]), None);
        assert_eq!(event(Form::GroupEvent, &[MAGIC, &[0xff; 20]].concat()), None);
    }
}
