//! The JSON Schema of scenario files, for editors.

use schemars::generate::SchemaSettings;

use super::raw::RawScenario;

/// The schema (draft 2020-12), made from the same types that scenarios are decoded into.
pub fn schema() -> serde_json::Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RawScenario>();
    schema.insert("title".to_owned(), "svclab scenario".into());
    schema.to_value()
}
