//! The table of resources: kinds, the API groups that serve them, and the fields that selectors can use.

use serde_json::Value;

/// A kind of object that is stored.
#[derive(Debug)]
pub(super) struct Resource {
    /// The kind: `Service`.
    pub(super) kind: &'static str,
    /// The name in paths: `services`.
    pub(super) plural: &'static str,
    /// The singular name: `service`.
    pub(super) singular: &'static str,
    /// Short names: `svc`.
    pub(super) short: &'static [&'static str],
    /// Whether objects are in namespaces.
    pub(super) namespaced: bool,
    /// Whether clients may create and change objects.
    pub(super) writable: bool,
    /// Whether `metadata.generation` counts changes.
    pub(super) counts_generations: bool,
    /// The group versions that serve the kind; objects are stored in the first one.
    pub(super) served: &'static [Served],
    /// Field selectors: name, and JSON pointer in the stored form.
    pub(super) fields: &'static [(&'static str, &'static str)],
}

/// A resource in one version of an API group.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// The group, empty for the core group.
    pub(super) group: &'static str,
    /// The version: `v1`.
    pub(super) version: &'static str,
    /// The form of objects in this version.
    pub(super) form: Form,
}

impl Served {
    /// Returns group and version as in objects: `discovery.k8s.io/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// The form of objects in a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The stored form.
    Stored,
    /// EndpointSlices of `discovery.k8s.io/v1beta1`: zone and node are labels in `topology`.
    SliceTopology,
    /// Events of `events.k8s.io`: other field names than in the core group.
    GroupEvent,
}

const NAME: (&str, &str) = ("metadata.name", "/metadata/name");
const NAMESPACE: (&str, &str) = ("metadata.namespace", "/metadata/namespace");

const fn core(form: Form) -> Served {
    Served { group: "", version: "v1", form }
}

const fn grouped(group: &'static str, version: &'static str, form: Form) -> Served {
    Served { group, version, form }
}

const DEFAULT: Resource = Resource {
    kind: "",
    plural: "",
    singular: "",
    short: &[],
    namespaced: true,
    writable: false,
    counts_generations: false,
    served: &[core(Form::Stored)],
    fields: &[NAME, NAMESPACE],
};

/// All resources, in the order in which changes of objects are reported.
pub(super) static RESOURCES: [Resource; 7] = [
    Resource {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short: &["ns"],
        namespaced: false,
        fields: &[NAME, ("status.phase", "/status/phase")],
        ..DEFAULT
    },
    Resource {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short: &["no"],
        namespaced: false,
        fields: &[NAME, ("spec.unschedulable", "/spec/unschedulable")],
        ..DEFAULT
    },
    Resource {
        kind: "ServiceCIDR",
        plural: "servicecidrs",
        singular: "servicecidr",
        namespaced: false,
        served: &[
            grouped("networking.k8s.io", "v1", Form::Stored),
            grouped("networking.k8s.io", "v1beta1", Form::Stored),
        ],
        fields: &[NAME],
        ..DEFAULT
    },
    Resource {
        kind: "Service",
        plural: "services",
        singular: "service",
        short: &["svc"],
        fields: &[NAME, NAMESPACE, ("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")],
        ..DEFAULT
    },
    Resource { kind: "Endpoints", plural: "endpoints", singular: "endpoints", short: &["ep"], ..DEFAULT },
    Resource {
        kind: "EndpointSlice",
        plural: "endpointslices",
        singular: "endpointslice",
        counts_generations: true,
        served: &[
            grouped("discovery.k8s.io", "v1", Form::Stored),
            grouped("discovery.k8s.io", "v1beta1", Form::SliceTopology),
        ],
        ..DEFAULT
    },
    Resource {
        kind: "Event",
        plural: "events",
        singular: "event",
        short: &["ev"],
        writable: true,
        served: &[
            core(Form::Stored),
            grouped("events.k8s.io", "v1", Form::GroupEvent),
            grouped("events.k8s.io", "v1beta1", Form::GroupEvent),
        ],
        fields: &[
            NAME,
            NAMESPACE,
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("reason", "/reason"),
            ("type", "/type"),
        ],
        ..DEFAULT
    },
];

/// The index of a resource in [`RESOURCES`].
pub(super) type Index = usize;

/// A resource in one group version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint {
    /// The index of the resource in the table.
    pub(super) index: Index,
    /// The group version.
    pub(super) served: &'static Served,
}

impl Endpoint {
    /// The resource.
    pub(super) fn resource(self) -> &'static Resource {
        &RESOURCES[self.index]
    }

    /// Returns the resource of a path.
    pub(super) fn from_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::all().find(|end| end.is(group, version) && end.resource().plural == plural)
    }

    /// Returns the resource of an object, by its `apiVersion` and `kind`.
    pub(super) fn from_object(object: &Value) -> Option<Self> {
        let kind = object.get("kind")?.as_str()?;
        let (group, version) = match object.get("apiVersion")?.as_str()?.split_once('/') {
            Some(parts) => parts,
            None => ("", object.get("apiVersion")?.as_str()?),
        };
        Self::all().find(|end| end.is(group, version) && end.resource().kind == kind)
    }

    /// Returns every resource in every version of its groups.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let each = |(index, resource): (Index, &'static Resource)| {
            resource.served.iter().map(move |served| Self { index, served })
        };
        RESOURCES.iter().enumerate().flat_map(each)
    }

    fn is(self, group: &str, version: &str) -> bool {
        self.served.group == group && self.served.version == version
    }
}

#[cfg(test)]
/// Returns the index of the resource of a kind.
pub(super) fn index_of(kind: &str) -> Option<Index> {
    RESOURCES.iter().position(|resource| resource.kind == kind)
}
