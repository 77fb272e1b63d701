//! Masks of 32 bits: the active lanes of a warp, or the parts of a clock.
//!
//! ```text
//!  mask  0b1010_0100      lanes: 2, 5, 7      first_lane: 2
//! ```

/// The lanes of a mask, lowest first.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}

/// The lowest lane of a mask.
pub(crate) fn first_lane(mask: u32) -> usize {
    mask.trailing_zeros().min(31) as usize
}
