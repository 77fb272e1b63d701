//! Where the registers of a value lie inside its web: a run, or, for a view, any list.

use std::rc::Rc;

/// Registers of a view, relative to its offset.
#[derive(Debug, PartialEq, Eq)]
struct List {
    at: Box<[i32]>,
    low: i32,
    high: i32,
}

/// Registers of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebSlice {
    pub(crate) web: u32,
    pub(crate) offset: i32,
    list: Option<Rc<List>>,
}

/// Which registers of an outer value an inner one takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// A run from a register.
    Run(i32),
    /// Any registers, repeated ones too.
    List(Box<[u16]>),
}

impl WebSlice {
    /// A value alone in its web.
    pub(crate) fn alone(web: u32) -> Self {
        Self { web, offset: 0, list: None }
    }

    /// Register number `i`.
    pub(crate) fn at(&self, i: usize) -> i32 {
        self.offset + self.list.as_ref().map_or(i as i32, |l| l.at.get(i).copied().unwrap_or(0))
    }

    /// Which register of a value of `n` here is `reg`.
    pub(crate) fn index(&self, reg: i32, n: u16) -> Option<usize> {
        let d = reg - self.offset;
        match &self.list {
            None => (0..i32::from(n)).contains(&d).then_some(d as usize),
            Some(l) => l.at.iter().position(|&a| a == d),
        }
    }

    /// First register and the one after the last, of a value of `n`.
    pub(crate) fn span(&self, n: u16) -> (i32, i32) {
        let (low, high) = self.list.as_ref().map_or((0, i32::from(n)), |l| (l.low, l.high));
        (self.offset + low, self.offset + high)
    }

    /// Whether the registers are consecutive.
    pub(crate) fn is_run(&self) -> bool {
        self.list.is_none()
    }

    /// Whether some register occurs twice.
    pub(crate) fn repeats(&self) -> bool {
        self.list.as_ref().is_some_and(|l| {
            let mut sorted = l.at.to_vec();
            sorted.sort_unstable();
            sorted.windows(2).any(|w| w[0] == w[1])
        })
    }

    /// The place of a value of `n` registers that views one here.
    pub(crate) fn view(&self, view: &View, n: u16) -> Self {
        let picks = |i: u16| match view {
            View::Run(start) => *start + i32::from(i),
            View::List(list) => list.get(usize::from(i)).map_or(0, |&r| r.into()),
        };
        if let (View::Run(start), true) = (view, self.is_run()) {
            return Self { offset: self.offset + start, ..self.clone() };
        }
        // A start before a listed value names none of its registers.
        let at: Vec<i32> = (0..n).map(|i| self.at(picks(i).max(0) as usize) - self.offset).collect();
        let first = at.first().copied().unwrap_or(0);
        if at.iter().enumerate().all(|(i, &a)| a == first + i as i32) {
            return Self { offset: self.offset + first, list: None, ..*self };
        }
        let low = at.iter().copied().min().unwrap_or(0);
        let high = at.iter().copied().max().unwrap_or(0) + 1;
        Self { list: Some(Rc::new(List { at: at.into(), low, high })), ..*self }
    }

    /// The distance of another place of the same shape, if it has that.
    pub(crate) fn shift_to(&self, other: &Self, n: u16) -> Option<i32> {
        let d = other.at(0) - self.at(0);
        (0..usize::from(n)).all(|i| other.at(i) - self.at(i) == d).then_some(d)
    }

    /// This place moved into another web.
    pub(crate) fn shifted(&self, web: u32, by: i32) -> Self {
        Self { web, offset: self.offset + by, list: self.list.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_views_compose() {
        let even = WebSlice::alone(0).view(&View::List([0, 2, 4, 6].into()), 4);
        let back = even.view(&View::List([3, 1].into()), 2);
        assert_eq!([back.at(0), back.at(1)], [6, 2]);
        assert_eq!(even.view(&View::Run(2), 1), WebSlice::alone(0).view(&View::Run(4), 1));
        let run = WebSlice::alone(0).view(&View::List([5, 6, 7].into()), 3);
        assert!(run.is_run() && run.span(3) == (5, 8));
        assert!(WebSlice::alone(0).view(&View::List([1, 1].into()), 2).repeats());
    }
}
