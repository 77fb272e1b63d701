//! The knowledge that stands at an address of global or shared memory for acquirers.
//!
//! ```text
//!  release with a scope ─► here, with the releaser's block ─► acquire with a scope: what both scopes include
//! ```
//! Source: PTX ISA, "Memory consistency model: morally strong operations, release and acquire patterns".

use super::clock::{Foreign, Known};
use super::inst::Scope;
use std::sync::Arc;

/// A block of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub cluster: u32,
    pub block: usize,
}

impl Home {
    /// Whether a scope of the one includes the other.
    fn reaches(self, other: Self, scope: Scope) -> bool {
        match scope {
            Scope::Cta => self == other,
            Scope::Cluster => self.cluster == other.cluster,
            Scope::Gpu => true,
        }
    }
}

/// The knowledge released at one address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released {
    /// With the scope of the device, by whomever.
    wide: Option<Arc<Known>>,
    /// With a narrower one.
    near: Vec<(Scope, Home, Known)>,
}

impl Released {
    /// Adds what a thread releases.
    pub fn add(&mut self, scope: Scope, home: Home, known: Known) {
        if scope == Scope::Gpu {
            join(Arc::make_mut(self.wide.get_or_insert_default()), &known);
            return;
        }
        match self.near.iter_mut().find(|(s, h, _)| (*s, *h) == (scope, home)) {
            Some((.., old)) => join(old, &known),
            None => self.near.push((scope, home, known)),
        }
    }

    /// What an acquirer learns; `own` keeps of its cluster's clock what the scope includes.
    pub fn seen(&self, scope: Scope, home: Home, own: impl Fn(usize) -> bool) -> Foreign {
        let mut near = self.near.iter().filter(|(s, h, _)| h.reaches(home, scope.min(*s))).peekable();
        if scope == Scope::Gpu && near.peek().is_none() {
            return Foreign(self.wide.clone());
        }
        let mut all = Known::new();
        near.for_each(|(.., known)| join(&mut all, known));
        if let Some(wide) = &self.wide {
            match scope {
                Scope::Gpu => join(&mut all, wide),
                narrow => {
                    let here = wide.get(&home.cluster).into_iter();
                    let clock = here.map(|c| c.among(|t| narrow != Scope::Cta || own(t)));
                    join(&mut all, &clock.map(|c| (home.cluster, c)).collect());
                }
            }
        }
        Foreign((!all.is_empty()).then(|| Arc::new(all)))
    }
}

fn join(known: &mut Known, more: &Known) {
    more.iter().for_each(|(cluster, clock)| known.entry(*cluster).or_default().join(clock));
}
