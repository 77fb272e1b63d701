//! The grammar of mappings and of the attributes that `map` puts on instructions:
//!
//! ```text
//! mapping = "mapping" name "{" (name "=" int | "for" name ":" loop,+ | "array" name ":" array,+ | "tile" name ":" tile
//!         | "kernel" ":" whole,+),* "}"
//! loop    = "pipeline" ("fit" | int) | "producers" int | "consumers" int | "wait" int | "chunk" int | "turns" int
//! array   = "plain" | "staged" | "packed" | "stream" | "early"
//! tile    = "layout" string                  (the full text form of `ir::layout`)
//! whole   = "persistent" | "raster" ("linear" | "folded" | "square" | "band_m" int | "band_n" int)
//!         | "epilogue" ("direct" | "deferred") | "cluster" int | "alternate" int | "blocks" int | "resident" int
//!         | "warps" int | "chunk" int
//!         | "no" "bulk_store" | "products" ("fit" | "wgmma" | "mma_sync") | "programmatic"
//! attr    = "thread" | "warps" int | "warpgroups" int | "persistent" | "index" | "below" int | "deferred" | loop
//!         | array | tile
//! ```

use super::cursor::{Cursor, Result};
use crate::layout::Layout;
use crate::tile::{
    ArrayMapping, Attrs, Depth, Epilogue, KernelMapping, Loc, LoopMapping, Mapping, Products, Raster, Team,
    WarpShare, Way,
};

/// `mapping name { .. }`, the first word being stepped over.
pub(super) fn mapping(c: &mut Cursor<'_>) -> Result<Mapping> {
    let mut mapping = Mapping { kernel: c.name("a kernel")?.text, ..Mapping::default() };
    let (mut loop_locs, mut array_locs, mut tile_locs) = (Vec::new(), Vec::new(), Vec::new());
    c.expect("{")?;
    while !c.eat("}") {
        let loc = c.span().loc;
        if c.eat_word("for") {
            mapping.loops.push(loop_item(c)?);
            loop_locs.push(loc);
        } else if c.eat_word("array") {
            mapping.arrays.push(array_item(c)?);
            array_locs.push(loc);
        } else if c.eat_word("tile") {
            let name = c.name("a tile")?.text;
            c.expect(":")?;
            c.expect_word("layout")?;
            mapping.tiles.push((name, layout(c)?));
            tile_locs.push(loc);
        } else if c.eat_word("kernel") {
            whole(c, &mut mapping.whole)?;
        } else {
            tunable(c, &mut mapping, loc)?;
        }
        c.eat(",");
    }
    mapping.locs.extend(loop_locs.into_iter().chain(array_locs).chain(tile_locs));
    Ok(mapping)
}

fn tunable(c: &mut Cursor<'_>, mapping: &mut Mapping, loc: Loc) -> Result<()> {
    if mapping.tunable(&peeked(c)).is_some() {
        return c.error(format!("`{}` has a value already", peeked(c)));
    }
    let name = c.name("a tunable")?.text;
    c.expect("=")?;
    mapping.tunables.push((name, c.integer()?));
    mapping.locs.push(loc);
    Ok(())
}

fn peeked(c: &Cursor<'_>) -> String {
    match c.peek() {
        super::lex::Tok::Ident(w) => w.clone(),
        _ => String::new(),
    }
}

fn loop_item(c: &mut Cursor<'_>) -> Result<(String, LoopMapping)> {
    let name = c.name("a loop")?.text;
    c.expect(":")?;
    let mut looped = LoopMapping::default();
    c.comma_list(|c| match loop_attr(c, &mut looped)? {
        true => Ok(()),
        false => c.expected("`pipeline`, `producers`, `consumers`, `wait`, `chunk` or `turns`"),
    })?;
    Ok((name, looped))
}

/// Reads one attribute of a loop; false if the next word is none.
fn loop_attr(c: &mut Cursor<'_>, looped: &mut LoopMapping) -> Result<bool> {
    if c.eat_word("pipeline") {
        looped.pipeline = match c.eat_word("fit") {
            true => Depth::Fit,
            false => Depth::Stages(c.count()?),
        };
    } else if c.eat_word("producers") {
        looped.producers = Some(c.count()?);
    } else if c.eat_word("consumers") {
        looped.consumers = Some(c.count()?);
    } else if c.eat_word("wait") {
        looped.wait = Some(c.count()?);
    } else if c.eat_word("chunk") {
        looped.chunk = Some(c.count()?);
    } else if c.eat_word("turns") {
        looped.turns = Some(c.count()?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn array_item(c: &mut Cursor<'_>) -> Result<(String, ArrayMapping)> {
    let name = c.name("a pointer argument")?.text;
    c.expect(":")?;
    let mut array = ArrayMapping::default();
    c.comma_list(|c| match array_attr(c, &mut array) {
        true => Ok(()),
        false => c.expected("`plain`, `staged`, `packed`, `stream` or `early`"),
    })?;
    Ok((name, array))
}

/// Reads one attribute of an array; false if the next word is none.
fn array_attr(c: &mut Cursor<'_>, array: &mut ArrayMapping) -> bool {
    for (word, way) in [("plain", Way::Plain), ("staged", Way::Staged), ("packed", Way::Packed)] {
        if c.eat_word(word) {
            array.way = way;
            return true;
        }
    }
    let (stream, early) = (c.eat_word("stream"), c.eat_word("early"));
    array.stream |= stream;
    array.early |= early;
    stream || early
}

/// A layout in quotes.
fn layout(c: &mut Cursor<'_>) -> Result<Layout> {
    let super::lex::Tok::Str(text) = c.peek().clone() else { return c.expected("a layout in quotes") };
    match text.parse() {
        Ok(layout) => {
            c.skip();
            Ok(layout)
        }
        Err(why) => c.error(format!("layout: {why}")),
    }
}

fn whole(c: &mut Cursor<'_>, whole: &mut KernelMapping) -> Result<()> {
    c.expect(":")?;
    c.comma_list(|c| whole_attr(c, whole)).map(drop)
}

fn whole_attr(c: &mut Cursor<'_>, whole: &mut KernelMapping) -> Result<()> {
    match peeked(c).as_str() {
        "persistent" => whole.persistent = true,
        "programmatic" => whole.programmatic = true,
        "raster" => {
            c.skip();
            whole.raster = raster(c)?;
            return Ok(());
        }
        "epilogue" => {
            c.skip();
            whole.epilogue = epilogue(c)?;
            return Ok(());
        }
        "products" => {
            c.skip();
            whole.products = products(c)?;
            return Ok(());
        }
        "no" => {
            c.skip();
            whole.bulk_store = false;
            return c.expect_word("bulk_store");
        }
        "cluster" | "alternate" | "blocks" | "resident" | "warps" | "chunk" => return whole_count(c, whole),
        _ => {
            return c.expected(
                "`persistent`, `raster`, `epilogue`, `cluster`, `alternate`, `blocks`, `resident`, `warps`, `chunk`, `products`, `programmatic` or `no bulk_store`",
            );
        }
    }
    c.skip();
    Ok(())
}

fn whole_count(c: &mut Cursor<'_>, whole: &mut KernelMapping) -> Result<()> {
    let word = c.word("a count")?;
    let count = c.count()?;
    match word {
        "cluster" => whole.cluster = count,
        "alternate" => whole.alternate = count,
        "resident" => whole.resident = count,
        "blocks" => whole.blocks = count,
        "warps" => whole.warps = Some(count),
        _ => whole.chunk = Some(count),
    }
    Ok(())
}

fn raster(c: &mut Cursor<'_>) -> Result<Raster> {
    let words = [("linear", Raster::Linear), ("folded", Raster::Folded), ("square", Raster::Square)];
    for (word, raster) in words {
        if c.eat_word(word) {
            return Ok(raster);
        }
    }
    if c.eat_word("band_m") {
        return c.count().map(Raster::BandM);
    }
    if c.eat_word("band_n") {
        return c.count().map(Raster::BandN);
    }
    c.expected("`linear`, `folded`, `square`, `band_m` or `band_n`")
}

fn epilogue(c: &mut Cursor<'_>) -> Result<Epilogue> {
    for (word, e) in [("direct", Epilogue::Direct), ("deferred", Epilogue::Deferred)] {
        if c.eat_word(word) {
            return Ok(e);
        }
    }
    c.expected("`direct` or `deferred`")
}

fn products(c: &mut Cursor<'_>) -> Result<Products> {
    let words = [("fit", Products::Fit), ("wgmma", Products::Wgmma), ("mma_sync", Products::MmaSync)];
    match words.into_iter().find(|(word, _)| c.eat_word(word)) {
        Some((_, products)) => Ok(products),
        None => c.expected("`fit`, `wgmma` or `mma_sync`"),
    }
}

/// `[team, .., loop attributes]`, the `@` being stepped over.
pub(super) fn attrs(c: &mut Cursor<'_>) -> Result<Attrs> {
    let mut attrs = Attrs::default();
    c.expect("[")?;
    c.list("]", |c| attr(c, &mut attrs))?;
    Ok(attrs)
}

fn attr(c: &mut Cursor<'_>, attrs: &mut Attrs) -> Result<()> {
    if c.eat_word("thread") {
        attrs.team = Team::Thread;
    } else if c.eat_word("warps") {
        attrs.team = Team::Warps(c.count()?);
    } else if c.eat_word("warpgroups") {
        attrs.team = Team::Warpgroups(c.count()?);
    } else if c.eat_word("persistent") {
        attrs.persistent = true;
    } else if c.eat_word("index") {
        attrs.index = true;
    } else if c.eat_word("below") {
        attrs.below = Some(c.count()?);
    } else if c.eat_word("deferred") {
        attrs.deferred = true;
    } else if c.eat_word("layout") {
        attrs.layout = Some(layout(c)?);
    } else if c.eat_word("share") {
        let (rows, columns) = (c.count()?, c.count()?);
        attrs.share = Some(WarpShare { rows, columns, together: c.eat_word("together") });
    } else if array_attr(c, &mut attrs.array) {
        // Read.
    } else {
        let mut looped = attrs.looped.unwrap_or_default();
        if !loop_attr(c, &mut looped)? {
            return c.expected(
                "a team, `persistent`, `index`, `below`, `deferred`, `share` or an attribute of a loop",
            );
        }
        attrs.looped = Some(looped);
    }
    Ok(())
}
