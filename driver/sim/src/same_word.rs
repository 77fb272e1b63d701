//! Lanes of one instruction that write the same word. The PTX ISA does not say which value stays ("Memory consistency
//! model: data races").

use super::hazard::HazardKind;
use super::inst::{Lanes, Space};
use super::machine::{Found, Machine, Stop};
use super::mask::lanes;
use super::space::{GENERIC_LOCAL, GENERIC_SHARED, GLOBAL};

impl Machine<'_> {
    /// Reports two lanes that write different values to one place. Aligned accesses of one size are at one place or
    /// apart.
    pub fn same_word(
        &mut self,
        w: usize,
        space: Space,
        addresses: &Lanes,
        values: &[[u8; 16]; 32],
        mask: u32,
    ) -> Result<(), Stop> {
        let Some((one, other)) = collision(addresses, values, mask) else { return Ok(()) };
        let address = addresses[one];
        let shared = match space {
            Space::Generic => (GENERIC_SHARED..GENERIC_LOCAL).contains(&address),
            Space::Shared | Space::SharedCluster => true,
            _ => false,
        };
        let global = space == Space::Global || space == Space::Generic && address >= GLOBAL;
        let kind = match (shared, global) {
            (true, _) => HazardKind::LaneRace,
            (_, true) => HazardKind::GlobalRace,
            _ => return Ok(()),
        };
        let what = format!("lanes {one} and {other} write different values to one word by one instruction");
        self.hazard(Found::new(kind, w, self.pc(w), what).lane(other as u32).at(address))
    }
}

fn collision(addresses: &Lanes, values: &[[u8; 16]; 32], mask: u32) -> Option<(usize, usize)> {
    let rising = lanes(mask).zip(lanes(mask).skip(1)).all(|(a, b)| addresses[a] < addresses[b]);
    if rising {
        return None;
    }
    let mut order: Vec<usize> = lanes(mask).collect();
    order.sort_unstable_by_key(|l| (addresses[*l], *l));
    let pairs = order.windows(2).map(|p| (p[0], p[1]));
    pairs.into_iter().find(|(a, b)| addresses[*a] == addresses[*b] && values[*a] != values[*b])
}
