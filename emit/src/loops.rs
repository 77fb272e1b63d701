//! Loop headers: targets of back edges of a depth-first walk.

use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Block, Func};

#[derive(Clone, Copy, Default, PartialEq)]
enum Mark {
    #[default]
    New,
    Open,
    Done,
}

/// Whether each block is the target of a back edge.
pub(crate) fn headers(func: &Func<'_>) -> SecondaryMap<Block, bool> {
    let mut marks: SecondaryMap<Block, Mark> = SecondaryMap::new();
    let mut headers = SecondaryMap::new();
    let mut stack = vec![(func.entry, 0)];
    marks[func.entry] = Mark::Open;
    while let Some((block, next)) = stack.pop() {
        let Some(call) = func.successors(block).get(next) else {
            marks[block] = Mark::Done;
            continue;
        };
        stack.push((block, next + 1));
        match marks[call.block] {
            Mark::New => {
                marks[call.block] = Mark::Open;
                stack.push((call.block, 0));
            }
            Mark::Open => headers[call.block] = true,
            Mark::Done => {}
        }
    }
    headers
}
