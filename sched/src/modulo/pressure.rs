//! Registers of fragments in a loop whose iterations overlap.
//!
//! ```text
//!  life       ■■■■■■■■■■■        11 cycles from cycle 3 on, in an interval of 4
//!  interval   2  3  3  3         two whole intervals, and three cycles more of one: copies at each cycle
//! ```

/// Registers at the fullest cycle of the interval `ii`, of fragments that live from one cycle to another and take so many.
pub(super) fn fullest(lives: impl Iterator<Item = (i64, i64, u32)>, ii: i64) -> u32 {
    // At the interval's first cycle, and what begins and ends at each.
    let (mut now, mut changes) = (0, Vec::new());
    for (from, to, registers) in lives {
        let (registers, lifetime, begin) = (i64::from(registers), (to - from).max(0), from.rem_euclid(ii));
        let end = begin + lifetime % ii;
        now += registers * (lifetime / ii + i64::from(end >= ii));
        changes.extend([(begin, registers), (end % ii, -registers)]);
    }
    // What ends at a cycle is gone before the next begins there.
    changes.sort_unstable();
    let after = changes.into_iter().map(|(_, registers)| {
        now += registers;
        now
    });
    after.max().and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycle by cycle.
    fn counted(lives: &[(i64, i64, u32)], ii: i64) -> u32 {
        let alive = |at: i64, &(from, to, registers): &(i64, i64, u32)| {
            let past = (at - from).rem_euclid(ii);
            registers * (to - from - past).max(0).unsigned_abs().div_ceil(ii.unsigned_abs()) as u32
        };
        let at = |cycle| lives.iter().map(|l| alive(cycle, l)).sum::<u32>();
        (0..ii).map(at).max().unwrap_or(0)
    }

    #[test]
    fn fragments_are_counted_at_each_cycle_of_the_interval() {
        assert_eq!(fullest([(3, 14, 1)].into_iter(), 4), 3);
        assert_eq!(fullest(std::iter::empty(), 4), 0);
        let numbers = |n: i64| (n * 7919 + 13) % 101;
        for (case, ii) in (0..400).zip((1..30).cycle()) {
            let life = |n: i64| {
                let [from, lives] = [numbers(case + 3 * n), numbers(5 * case + n) % 40 - 3];
                (from - 20, from - 20 + lives, (numbers(n + case) % 9) as u32)
            };
            let lives: Vec<_> = (0..case % 11).map(life).collect();
            assert_eq!(fullest(lives.iter().copied(), ii), counted(&lives, ii), "{lives:?} in {ii}");
        }
    }
}
