//! Optimal swizzles below a word: what a pass through shared memory costs a warp, counted by the addresses of every instruction.

use super::algorithms::executes;
use crate::layout::access::{vector_width, wavefronts_by_evaluation};
use crate::layout::convert::{Conversion, through_shared};
use crate::layout::fragment::*;
use crate::layout::notation::parse_layout;
use crate::layout::swizzle::*;
use crate::layout::*;

/// Rows of a `size` x `size` tile over four warps, 16 bytes (or all of a row) to a thread.
fn rows(size: u64, bits: u64) -> Layout {
    let vector = (128 / bits).min(size);
    let across = (size / vector).min(32);
    blocked(&[size, size], &[1, vector], &[32 / across, across], &[4, 1], &[1, 0]).unwrap()
}

/// The transposition of [`rows`].
fn columns(size: u64, bits: u64) -> Layout {
    let vector = (128 / bits).min(size);
    let across = (size / vector).min(32);
    blocked(&[size, size], &[vector, 1], &[across, 32 / across], &[1, 4], &[0, 1]).unwrap()
}

/// Wavefronts of all instructions of a warp for an access.
pub(super) fn counted_wavefronts(access: &Layout, bits: u64) -> u64 {
    let vector = vector_width(access, 128 / bits, 1 << 32).unwrap();
    let starts = |r: &u64| vector.registers.iter().all(|w| (r / w).is_multiple_of(2));
    let all = (0..access.in_extent(Axis::Reg)).filter(starts);
    all.map(|r| {
        let at: Vec<u64> = access.ins().iter().map(|a| if a.0 == Axis::Reg { r } else { 0 }).collect();
        wavefronts_by_evaluation(access, bits, vector.elements, &at).unwrap()
    })
    .sum()
}

#[test]
fn a_narrow_tile_against_its_transposition_has_no_conflicts() {
    for bits in [8, 16, 32] {
        for size in [64, 128] {
            let (a, b) = (rows(size, bits), columns(size, bits));
            let pass = through_shared(&a, &b, bits).unwrap();
            let elements = a.in_extent(Axis::Reg);
            // One side moves whole words, 128 bytes a wavefront; the other an element a lane.
            let (words, single) = (elements * bits / 32, elements);
            let sides = [
                counted_wavefronts(&a.then(&pass.memory).unwrap(), bits),
                counted_wavefronts(&b.then(&pass.memory).unwrap(), bits),
            ];
            assert_eq!(sides.iter().sum::<u64>(), words + single, "{bits} bits, {size}: {}", pass.memory);
            assert_eq!([pass.write.wavefronts, pass.read.wavefronts], sides);
        }
    }
}

#[test]
fn each_instruction_of_a_narrow_transposition_takes_one_wavefront() {
    // 16 bits, 128 x 128: 2 wavefronts a store by vectors of the two sides' common registers alone.
    let (a, b) = (rows(128, 16), columns(128, 16));
    let memory = optimal_swizzle((&a, Method::Vector), (&b, Method::Vector), 16).unwrap();
    for fragment in [&a, &b] {
        let cost = cost(&fragment.then(&memory).unwrap(), 16).unwrap();
        let words = fragment.in_extent(Axis::Reg) * 16 / 32;
        assert_eq!(cost.wavefronts, cost.instructions.max(words), "{memory}");
    }
    // 8 bits: 160 wavefronts a warp.
    let (a, b) = (rows(128, 8), columns(128, 8));
    assert_eq!(through_shared(&a, &b, 8).unwrap().cost().0, 160);
}

#[test]
fn words_that_both_sides_share_in_part() {
    // A pair of 8-bit elements lies in one thread on both sides: two bytes, no word.
    let from = blocked(&[128, 128], &[1, 2], &[1, 32], &[4, 1], &[1, 0]).unwrap();
    let to = blocked(&[128, 128], &[1, 2], &[32, 1], &[1, 4], &[0, 1]).unwrap();
    let pass = through_shared(&from, &to, 8).unwrap();
    let elements = from.in_extent(Axis::Reg);
    assert!(pass.cost().0 <= elements / 2 + elements / 4, "{pass:?}");
    assert_eq!(
        pass.cost().0,
        counted_wavefronts(&from.then(&pass.memory).unwrap(), 8)
            + counted_wavefronts(&to.then(&pass.memory).unwrap(), 8)
    );
}

#[test]
fn elements_below_a_byte_pass_through_shared_memory() {
    for bits in [1, 2, 4] {
        // Nothing in common: an element to a byte.
        let plan = executes(&rows(128, 8), &columns(128, 8), bits);
        let Conversion::Cells(cells, plan) = plan else { panic!("{plan:?}") };
        assert!(cells.widened && cells.bits == 8);
        assert!(matches!(*plan, Conversion::Shared(pass) if pass.cost().0 == 160));
        // Eight neighbours in common: a cell of all of them.
        let parts =
            |lane: [u64; 2], warp: [u64; 2]| blocked(&[128, 128], &[1, 8], &lane, &warp, &[1, 0]).unwrap();
        let plan = executes(&parts([2, 16], [4, 1]), &parts([32, 1], [1, 4]), bits);
        let Conversion::Cells(cells, plan) = plan else { panic!("{plan:?}") };
        assert_eq!((cells.widened, cells.bits), (false, 8 * bits));
        assert!(matches!(*plan, Conversion::Shared(_)));
    }
    // Without a common byte there is no swizzle of the elements themselves.
    let (v, a, b) = (Method::Vector, rows(128, 4), columns(128, 4));
    assert!(matches!(
        optimal_swizzle((&a, v), (&b, v), 4),
        Err(LayoutError::Form { parameter: "elem_bits", .. })
    ));
    assert!(optimal_swizzle((&a, v), (&rows(128, 4), v), 4).is_ok());
}

#[test]
fn a_side_that_gives_its_registers_to_the_word_keeps_its_vectors_aligned() {
    // Bank and Idx once took a part of the low bits with them: `a`'s vectors of 4 bytes fell apart, 32 wavefronts for 24.
    let a = parse_layout(
        "(reg: 2:256@d0 2:128@d0 2:1024@d0 2:1@d0 2:512@d0, lane: 2:32@d0 2:2@d0 2:64@d0 4:8@d0, warp: 2:4@d0) -> (d0: 2048)",
    );
    let b = parse_layout(
        "(reg: 2:32@d0 4:4@d0 2:512@d0 2:64@d0, lane: 2:16@d0 2:2@d0 2:1@d0 2:256@d0 2:1024@d0, warp: 2:128@d0) -> (d0: 2048)",
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    let memory = optimal_swizzle((&a, Method::Vector), (&b, Method::Vector), 8).unwrap();
    let of = |l: &Layout| counted_wavefronts(&l.then(&memory).unwrap(), 8);
    assert_eq!([of(&a), of(&b)], [8, 16], "{memory}");
}
