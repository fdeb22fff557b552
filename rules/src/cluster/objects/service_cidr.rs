//! ServiceCIDRs.

use ipnet::IpNet;
use k8s_openapi::api::networking::v1 as networking;

use super::super::Family;
use super::checker::{Checker, FieldError};
use super::syntax::Syntax;

/// Reads the ranges of a ServiceCIDR object: one, or one of each family.
///
/// # Errors
///
/// Every field that the API server would reject (`ValidateServiceCIDR` in its `pkg/apis/networking/validation`).
pub fn service_cidr(object: &networking::ServiceCIDR) -> Result<Vec<IpNet>, Vec<FieldError>> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let mut checker = Checker::new("ServiceCIDR", &name);
    checker.name("metadata.name", &name, Syntax::Dns1123Subdomain);
    let listed = object.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default();
    if listed.is_empty() {
        checker.reject("spec.cidrs", "is missing", "Give the range that cluster IPs are allocated from.");
    }
    let ranges: Vec<IpNet> = listed
        .iter()
        .enumerate()
        .filter_map(|(index, text)| checker.range(format!("spec.cidrs[{index}]"), text))
        .collect();
    let families: Vec<Family> = ranges.iter().map(|range| Family::of(range.addr())).collect();
    checker.one_of_each_family("spec.cidrs", &families);
    checker.finish(ranges)
}
