//! Packet classes, and the packets that a mutant handles differently.

use svclab_rules::promise::Question;

use super::comparable_prediction::ComparablePrediction;
use super::mutant::Example;
use crate::documents::Document;
use crate::predict::{NewFlow, Prediction, Senders};
use crate::sources::{Context, outcome_words};
use crate::topology::NetnsId;
use crate::verify::{AskedClass, ClassWalk};

/// A packet class of the unmodified rules.
pub(super) struct Known<'s> {
    pub(super) asked: AskedClass<'s>,
    prediction: ComparablePrediction,
    /// The namespaces that its packets and their replies traverse.
    traversed: Vec<NetnsId>,
}

/// Packets that a mutant handles differently.
pub(super) struct Differing<'s> {
    /// The position of their class of the unmodified rules.
    pub(super) class: usize,
    /// The promise, and the prediction for the mutant.
    pub(super) asked: AskedClass<'s>,
    /// Whether the difference concerns what the Service API specifies.
    pub(super) matters: bool,
    /// The prediction for the unmodified rules, in words.
    was: String,
    is: String,
}

impl<'s> Known<'s> {
    /// All classes of the given senders.
    pub(super) fn all(class_walk: &ClassWalk<'_, '_>, senders: &'s [Senders]) -> Vec<Self> {
        let mut all = Vec::new();
        for senders in senders {
            class_walk.all(senders, None, |asked| all.push(Self::of(asked)));
        }
        all
    }

    fn of(asked: AskedClass<'s>) -> Self {
        let branches = || asked.prediction.branches.iter();
        let mut traversed: Vec<NetnsId> =
            branches().flat_map(|branch| branch.stages.iter().chain(&branch.back)).map(|stage| stage.netns).collect();
        traversed.sort_unstable();
        traversed.dedup();
        Self { prediction: ComparablePrediction::of(&asked.prediction, &outcome_words), asked, traversed }
    }

    /// Whether its packets traverse the rules of a document in a namespace.
    fn traverses(&self, netns: NetnsId, document: &Document) -> bool {
        self.traversed.contains(&netns) && document.applies_to(self.asked.region.family())
    }
}

/// A mutant compared with the unmodified rules.
pub(super) struct Comparison<'c, 'x, 'a> {
    pub(super) unmodified: &'c ClassWalk<'x, 'a>,
    pub(super) mutant: &'c ClassWalk<'x, 'a>,
}

impl Comparison<'_, '_, '_> {
    /// The packets that a mutant of a document handles differently from the unmodified rules.
    pub(super) fn differing<'s>(&self, known: &[Known<'s>], document: &Document) -> Vec<Differing<'s>> {
        let Some(netns) = self.mutant.context.network.topology().find(&document.netns) else { return Vec::new() };
        let mut differing = Vec::new();
        for (position, class) in known.iter().enumerate().filter(|(_, class)| class.traverses(netns, document)) {
            let AskedClass { senders, region, packet, .. } = &class.asked;
            self.mutant.of(senders, region.clone(), *packet, |asked| {
                differing.extend(self.compare(position, class, asked));
            });
        }
        differing
    }

    fn compare<'s>(&self, class: usize, known: &Known<'s>, asked: AskedClass<'s>) -> Option<Differing<'s>> {
        let mut before = None;
        if asked.packet != known.asked.packet {
            // Part of the class, which only the mutant distinguishes.
            self.unmodified.of(asked.senders, asked.region.clone(), asked.packet, |part| {
                before.get_or_insert(Known::of(part));
            });
        }
        let before = before.as_ref().unwrap_or(known);
        let after = ComparablePrediction::of(&asked.prediction, &outcome_words);
        let differs_later = before.asked.later.words != asked.later.words;
        if before.prediction == after && !differs_later {
            return None;
        }
        let matters = differs_later || self.matters(&asked.question, [&before.asked.prediction, &asked.prediction]);
        let words = |prediction: &ComparablePrediction, later: &[String]| match differs_later {
            true => [prediction.words()].iter().chain(later).cloned().collect::<Vec<_>>().join("; "),
            false => prediction.words(),
        };
        let (was, is) = (words(&before.prediction, &before.asked.later.words), words(&after, &asked.later.words));
        Some(Differing { class, asked, matters, was, is })
    }

    /// Whether predictions differ in what the Service API specifies.
    fn matters(&self, question: &Question, predictions: [&Prediction; 2]) -> bool {
        let context: &Context<'_> = self.unmodified.context;
        let words = context.words_of_what_is_promised(question);
        let [before, after] = predictions.map(|prediction| ComparablePrediction::of(prediction, &words));
        before != after
    }
}

impl Differing<'_> {
    /// One of the packets, with both predictions.
    pub(super) fn example(&self) -> Example {
        let flow: NewFlow = self.asked.flow();
        Example { flow: flow.to_string(), before: self.was.clone(), after: self.is.clone() }
    }
}
