//! Parallel moves as a sequence. They pass values to block parameters.
//!
//! All sources are read before any destination is written. A move is written as soon as no other move reads its
//! destination. The remaining moves are cycles; one temporary breaks each of them (Boissinot et al., "Revisiting
//! Out-of-SSA Translation for Correctness, Code Quality, and Efficiency", Algorithm 1).

use warplift_ir::machine::{Move, Reg};

/// The moves of `pairs` (from, to; destinations distinct) in an order that keeps their meaning.
/// `temporary` gives a register of the class of its argument that no pair names.
pub(crate) fn sequence(pairs: &[(Reg, Reg)], mut temporary: impl FnMut(Reg) -> Reg) -> Vec<Move> {
    let mut left: Vec<(Reg, Reg)> = pairs.iter().copied().filter(|(from, to)| from != to).collect();
    let mut moves = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let before = left.len();
        let mut at = 0;
        while at < left.len() {
            let (from, to) = left[at];
            if left.iter().enumerate().any(|(i, &(f, _))| i != at && f == to) {
                at += 1;
            } else {
                moves.push(Move { from, to });
                left.swap_remove(at);
            }
        }
        if left.len() == before {
            let (from, _) = left[0];
            let spare = temporary(from);
            moves.push(Move { from, to: spare });
            for pair in left.iter_mut().filter(|p| p.0 == from) {
                pair.0 = spare;
            }
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(moves: &[Move], file: &mut [u32]) {
        for m in moves {
            let (Reg::R(a), Reg::R(b)) = (m.from, m.to) else { panic!("only R moves here") };
            file[usize::from(b)] = file[usize::from(a)];
        }
    }

    #[test]
    fn chains_and_cycles_keep_their_meaning() {
        let r = |n| Reg::R(n);
        for pairs in [
            vec![(0, 1), (1, 2), (2, 0)],
            vec![(0, 1), (1, 0), (2, 3), (3, 2)],
            vec![(0, 1), (0, 2), (1, 0)],
            vec![(3, 4), (2, 3), (1, 2), (0, 1)],
        ] {
            let start: Vec<u32> = (100..110).collect();
            let mut file = start.clone();
            let pairs: Vec<_> = pairs.iter().map(|&(a, b)| (r(a), r(b))).collect();
            run(&sequence(&pairs, |_| r(9)), &mut file);
            for (from, to) in pairs {
                let (Reg::R(a), Reg::R(b)) = (from, to) else { panic!("only R moves here") };
                assert_eq!(file[usize::from(b)], start[usize::from(a)]);
            }
        }
    }
}
