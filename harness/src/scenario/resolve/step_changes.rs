//! Resolution of changes of the cluster, by a step or ad hoc, to a [`Change`].

use std::collections::HashSet;
use std::mem;

use svclab_rules::cluster::{Cluster, ObjectName};

use super::findings::Findings;
use super::links::{self, NodePower};
use super::lookup::Scene;
use super::objects::Source;
use super::proxies::{self, ProxyAction};
use super::stage::{OwnChange, Stage, State};
use crate::scenario::model::Change;
use crate::scenario::schema::{OneOrMany, RawApply, RawDuring, RawLink, RawStep};
use crate::yaml::At;

/// A change as written.
pub(super) enum RawChange<'a> {
    Apply(&'a RawApply),
    Proxies(ProxyAction, &'a [String]),
    Links(&'a [RawLink]),
    Power(NodePower, &'a [String]),
}

/// The changes of a step: exactly one, if it is valid.
pub(super) struct Changes<'a>(pub(super) Vec<RawChange<'a>>);

/// Lists of names.
type Named = OneOrMany<String>;

impl<'a> Changes<'a> {
    pub(super) fn from_step(RawStep { apply, restart, stop, start, link, down, up, .. }: &'a RawStep) -> Self {
        Self::of(
            apply.as_ref(),
            [restart, stop, start].map(Option::as_ref),
            link.as_ref(),
            [down, up].map(Option::as_ref),
        )
    }

    pub(super) fn from_during(RawDuring { apply, restart, stop, start, link, down, up, .. }: &'a RawDuring) -> Self {
        Self::of(
            apply.as_ref(),
            [restart, stop, start].map(Option::as_ref),
            link.as_ref(),
            [down, up].map(Option::as_ref),
        )
    }

    fn of(
        apply: Option<&'a RawApply>,
        [restart, stop, start]: [Option<&'a Named>; 3],
        link: Option<&'a OneOrMany<RawLink>>,
        [down, up]: [Option<&'a Named>; 2],
    ) -> Self {
        let proxies = [(ProxyAction::Restart, restart), (ProxyAction::Stop, stop), (ProxyAction::Start, start)];
        let proxies = proxies.into_iter().filter_map(|(action, listed)| Some(RawChange::Proxies(action, &listed?.0)));
        let links = link.map(|listed| RawChange::Links(&listed.0));
        let power = [(NodePower::Down, down), (NodePower::Up, up)].into_iter();
        let power = power.filter_map(|(power, listed)| Some(RawChange::Power(power, &listed?.0)));
        Self(apply.map(RawChange::Apply).into_iter().chain(proxies).chain(links).chain(power).collect())
    }
}

impl<'a> State<'a> {
    /// Resolves an ad-hoc change; `None` if it is invalid.
    pub(super) fn own_change(
        &mut self,
        own: OwnChange<'a>,
        at: At<'a>,
        stage: &Stage<'_, 'a>,
        findings: &mut Findings,
    ) -> Option<Change> {
        match own {
            OwnChange::Apply(raw) => Some(self.apply(raw, at, stage, findings)),
            OwnChange::Step(raw) => match Changes::from_step(raw).0.as_slice() {
                [change] => self.change(change, at, stage, findings),
                _ => None,
            },
        }
    }

    /// Resolves a change by a step; `None` if it is invalid.
    pub(super) fn change(
        &mut self,
        change: &RawChange<'a>,
        at: At<'a>,
        stage: &Stage<'_, 'a>,
        findings: &mut Findings,
    ) -> Option<Change> {
        match change {
            RawChange::Apply(raw) => {
                let at = at.field("apply");
                let known = findings.notes.len();
                let change = self.apply(raw, at, stage, findings);
                for note in &mut findings.notes[known..] {
                    note.message += &format!(", after the `apply` in line {}", at.span().line);
                    // A change may remove pods on purpose.
                    note.is_warning = false;
                }
                Some(change)
            }
            RawChange::Proxies(action, listed) => {
                self.proxies(*action, listed, at.field(action.as_str()), stage, findings)
            }
            RawChange::Links(listed) => {
                let at = at.field("link");
                self.change_cluster(stage, |cluster, scene| links::change(listed, at, scene, cluster, findings))
            }
            RawChange::Power(power, listed) => {
                let at = at.field(power.as_str());
                self.change_cluster(stage, |cluster, scene| links::power(*power, listed, at, scene, cluster, findings))
            }
        }
    }

    /// Changes the objects, and keeps the previous ones if some were deleted.
    fn apply(&mut self, raw: &'a RawApply, at: At<'a>, stage: &Stage<'_, 'a>, findings: &mut Findings) -> Change {
        let source = Source::step(raw, at, stage.folder);
        let objects = self.objects.apply(&source, stage.manifests, stage.network, findings);
        let Cluster { stopped, links, .. } = self.cluster.clone();
        let cluster = Cluster { stopped, links, ..objects.cluster(stage.network, findings) };
        let before = (mem::replace(&mut self.objects, objects), mem::replace(&mut self.cluster, cluster));
        let names = |cluster: &Cluster| -> HashSet<(bool, ObjectName)> {
            let pods = cluster.pods.iter().map(|pod| (true, pod.name.clone()));
            pods.chain(cluster.services.iter().map(|service| (false, service.name.clone()))).collect()
        };
        if !names(&before.1).is_subset(&names(&self.cluster)) {
            self.former.push(before);
        }
        Change::State(Box::new(self.cluster.clone()))
    }

    fn proxies(
        &mut self,
        action: ProxyAction,
        listed: &[String],
        at: At<'a>,
        stage: &Stage<'_, 'a>,
        findings: &mut Findings,
    ) -> Option<Change> {
        let nodes = proxies::nodes(action, listed, at, &stage.scene(self), findings);
        if nodes.is_empty() {
            return None;
        }
        match action {
            ProxyAction::Restart => return Some(Change::Restart(nodes)),
            ProxyAction::Stop => nodes.iter().for_each(|node| self.cluster.stop_proxy(node)),
            ProxyAction::Start => nodes.iter().for_each(|node| _ = self.cluster.stopped.remove(node)),
        }
        Some(Change::State(Box::new(self.cluster.clone())))
    }

    /// Resolves a change of something other than objects; `None` if it is invalid.
    fn change_cluster(
        &mut self,
        stage: &Stage<'_, 'a>,
        change: impl FnOnce(&mut Cluster, &Scene<'_, 'a>) -> bool,
    ) -> Option<Change> {
        let mut cluster = self.cluster.clone();
        let is_valid = change(&mut cluster, &stage.scene(self));
        is_valid.then(|| {
            self.cluster = cluster.clone();
            Change::State(Box::new(cluster))
        })
    }
}
