//! Tests of the layouts against formulas written a second time and against evaluation.

mod algebra;
mod algorithms;
mod axe;
mod cute;
mod docs;
mod families;
mod notation;
mod properties;
mod report;
mod swizzle;
