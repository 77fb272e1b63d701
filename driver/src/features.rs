//! Features: optimizations that a user can turn off by name, for the ablation.
//!
//! A feature belongs to a stage. This module makes one list of them. Turning a feature off never changes the result of
//! a kernel, only its code.

use serde::{Deserialize, Serialize};
use std::fmt;
use warplift_isel as isel;
use warplift_sched as sched;

/// A feature of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Feature {
    /// Of instruction selection.
    Isel(isel::Feature),
    /// Of scheduling.
    Sched(sched::Feature),
}

/// Former names, each with today's name.
const FORMER: [(&str, &str); 6] = [
    ("detours", "smem-staging"),
    ("apart", "zero-point"),
    ("turns", "mma-order"),
    ("slices", "elementwise-subtiles"),
    ("held", "hoist-loads"),
    ("in-flight", "wgmma-pipelining"),
];

/// An unknown name of a feature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no feature `{name}`: {}", advice(.name))]
pub struct UnknownFeature {
    /// The name.
    pub name: String,
}

/// Advice for an unknown name: today's name of a former one, else all names.
fn advice(name: &str) -> String {
    match FORMER.iter().find(|(former, _)| *former == name) {
        Some((_, today)) => format!("it is now `{today}`"),
        None => format!("there are {}", Feature::names().join(", ")),
    }
}

impl Feature {
    /// All features by their names: those of selection, then those of scheduling.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let of_isel = isel::Feature::ALL.iter().map(|&(name, f)| (name, Self::Isel(f)));
        of_isel.chain(sched::Feature::ALL.iter().map(|&(name, f)| (name, Self::Sched(f))))
    }

    /// Its name.
    fn name(self) -> &'static str {
        // Every feature stands in its stage's list.
        Self::all().find(|l| l.1 == self).map_or("", |l| l.0)
    }

    fn names() -> Vec<&'static str> {
        Self::all().map(|(name, _)| name).collect()
    }
}

/// The features of selection among some.
pub(crate) fn of_isel(features: &[Feature]) -> Vec<isel::Feature> {
    let of = |&f: &Feature| if let Feature::Isel(f) = f { Some(f) } else { None };
    features.iter().filter_map(of).collect()
}

/// The features of scheduling among some.
pub(crate) fn of_sched(features: &[Feature]) -> Vec<sched::Feature> {
    let of = |&f: &Feature| if let Feature::Sched(f) = f { Some(f) } else { None };
    features.iter().filter_map(of).collect()
}

impl std::str::FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(name: &str) -> Result<Self, UnknownFeature> {
        let found = Self::all().find(|(n, _)| *n == name).map(|(_, f)| f);
        found.ok_or_else(|| UnknownFeature { name: name.to_owned() })
    }
}

impl From<Feature> for String {
    fn from(feature: Feature) -> Self {
        feature.to_string()
    }
}

impl TryFrom<String> for Feature {
    type Error = UnknownFeature;

    fn try_from(name: String) -> Result<Self, UnknownFeature> {
        name.parse()
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_to_their_features() {
        let names = Feature::names();
        for (n, (name, feature)) in Feature::all().enumerate() {
            assert_eq!(name.parse(), Ok(feature));
            assert_eq!(feature.to_string(), name);
            assert!(!names[..n].contains(&name), "{name}");
        }
        let unknown = "frob".parse::<Feature>().unwrap_err();
        assert!(unknown.to_string().contains("`frob`") && unknown.to_string().contains("multicast"));
    }

    #[test]
    fn every_feature_of_a_stage_belongs_to_a_pass() {
        for (name, feature) in Feature::all() {
            let has = crate::passes::all().any(|(_, pass)| pass.features().any(|f| f == feature));
            assert!(has, "no pass has `{name}`");
        }
    }

    #[test]
    fn former_names_are_refused_with_todays() {
        for (former, today) in FORMER {
            let refused = former.parse::<Feature>().unwrap_err().to_string();
            assert_eq!(refused, format!("no feature `{former}`: it is now `{today}`"));
            assert!(today.parse::<Feature>().is_ok(), "{today}");
        }
    }
}
