//! Progress of long work, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::collections::HashSet;
use warplift_lab::validate::Observer;
use warplift_sim::Hazard;

/// A bar on standard error; nothing if that is no terminal.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar of so many steps.
    pub fn new(steps: u64, what: &str) -> Self {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        Self { bar }
    }

    /// One step more.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// So many steps of so many are done.
    pub fn set(&self, done: u64, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_position(done);
    }
}

/// Shows a simulated run: a bar, and each hazard that did not stop it, once.
pub struct Watch {
    bar: Bar,
    seen: RefCell<HashSet<String>>,
}

impl Watch {
    /// Of a run that has not begun; the bar says what runs.
    pub fn new(what: &str) -> Self {
        Self { bar: Bar::new(0, what), seen: RefCell::default() }
    }
}

impl Observer for Watch {
    fn progress(&self, done: u64, blocks: u64) {
        self.bar.set(done, blocks);
    }

    fn hazards(&self, found: &[Hazard]) {
        let mut seen = self.seen.borrow_mut();
        for text in found.iter().map(Hazard::to_string) {
            if seen.insert(text.clone()) {
                self.bar.bar.suspend(|| println!("hazard: {text}"));
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
