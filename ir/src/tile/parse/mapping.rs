//! The grammar of mappings and of the attributes that `map` puts on instructions:
//!
//! ```text
//! mapping = "mapping" name "{" (name "=" int | "for" name ":" loop,+ | "array" name ":" array,+ | "tile" name ":" tile
//!         | "assume" name promise | "kernel" ":" whole,+),* "}"
//! promise = "align" int | ("%" int)? ("in" range)?
//! loop    = "pipeline" ("fit" | int) | "producers" int | "consumers" int | "wait" int | "chunk" int | "mma_order" int
//!         | "split_k" int | "stream_k"
//! array   = "fit" | "plain" | "staged" | "packed" | "stream" | "before_wait"
//! tile    = "layout" string                  (any notation that `ir::layout::report` reads)
//! whole   = "persistent" | "raster" (order | "counter" order?)
//!         | "epilogue" ("direct" | "deferred" | "warps") | "cluster" int | "pingpong" int | "blocks" int | "resident" int
//!         | "warps" int | "chunk" int
//!         | "no" "bulk_store" | "products" ("fit" | "wgmma" | "mma_sync") | "pdl"
//! order   = "linear" | "paired" | "square" | "band_m" int | "band_n" int
//! attr    = "thread" | "warps" int | "warpgroups" int | "persistent" | "index" | "below" int | "deferred"
//!         | "by_threads" | "ahead" | "in_parts" | "operand" | "trips" | "warp_grid" int int "contiguous"? | loop | array | tile
//! ```
//!
//! A name is mapped once and a word said once; several `kernel:` items are one.

use super::cursor::{Cursor, Result};
use super::facts::assumed;
use super::lex::Tok;
use crate::layout::{Layout, report};
use crate::tile::mapping::FLAGS;
use crate::tile::{
    ArrayMapping, Attrs, Depth, Epilogue, Item, KernelMapping, LoopMapping, Mapping, Places, Products,
    Raster, Team, WarpGrid, Way,
};

/// The ways of an array, of which it has one.
const WAYS: [&str; 4] = ["fit", "plain", "staged", "packed"];
const ARRAY_WORDS: [&str; 6] = ["fit", "plain", "staged", "packed", "stream", "before_wait"];
const LOOP_WORDS: [&str; 8] =
    ["pipeline", "producers", "consumers", "wait", "chunk", "mma_order", "split_k", "stream_k"];
const KERNEL_WORDS: [&str; 12] = [
    "persistent",
    "raster",
    "epilogue",
    "cluster",
    "pingpong",
    "blocks",
    "resident",
    "warps",
    "chunk",
    "products",
    "pdl",
    "no",
];

/// The orders of tiles.
const RASTERS: [&str; 5] = ["linear", "paired", "square", "band_m", "band_n"];

/// Former words, each with today's words. A former word is refused with its successor if that may stand there.
const FORMER: [(&str, &str); 6] = [
    ("alternate", "pingpong"),
    ("turns", "mma_order"),
    ("relay", "epilogue warps"),
    ("early", "before_wait"),
    ("programmatic", "pdl"),
    ("folded", "paired"),
];

/// Refuses a former word, of which one of the known words is the successor or begins it.
fn refuse_former(c: &Cursor<'_>, known: &[&str]) -> Result<()> {
    let succeeds = |new: &str| new.split(' ').next().is_some_and(|first| known.contains(&first));
    match FORMER.iter().find(|(old, new)| c.is_word(old) && succeeds(new)) {
        Some((old, new)) => c.error(format!("`{old}` is now `{new}`")),
        None => Ok(()),
    }
}

/// The words of one item, each said once.
struct Words<'p> {
    places: &'p mut Places,
    item: Item,
}

impl Words<'_> {
    /// Steps over one of some words; `None` if the next one is no such word.
    fn next(&mut self, c: &mut Cursor<'_>, known: &[&'static str]) -> Result<Option<&'static str>> {
        refuse_former(c, known)?;
        let Some(&word) = known.iter().find(|w| c.is_word(w)) else { return Ok(None) };
        if self.places.says(self.item, word) {
            return c.error(format!("`{word}` is said already"));
        }
        let other = WAYS.iter().find(|w| WAYS.contains(&word) && self.places.says(self.item, w));
        if let Some(other) = other {
            return c.error(format!("`{word}` contradicts `{other}`: an array comes one way"));
        }
        self.places.put(self.item, word, c.span().loc);
        c.skip();
        Ok(Some(word))
    }

    /// The same; an error if the next one is no such word.
    fn one_of(&mut self, c: &mut Cursor<'_>, known: &[&'static str]) -> Result<&'static str> {
        match self.next(c, known)? {
            Some(word) => Ok(word),
            None => c.expected_word(known),
        }
    }
}

/// `mapping name { .. }`, the first word being stepped over.
pub(super) fn mapping(c: &mut Cursor<'_>) -> Result<Mapping> {
    let start = c.last_span().loc;
    let mut mapping = Mapping { kernel: c.name("a kernel")?.text, ..Mapping::default() };
    mapping.places.put(Item::Mapping, "", start);
    let open = c.span();
    c.expect("{")?;
    while !c.is("}") && *c.peek() != Tok::End && !c.at_top() {
        let start = c.at();
        if let Err(error) = item(c, &mut mapping) {
            c.report(error);
            if c.at() == start {
                c.skip();
            }
            c.skip_item();
        }
        c.eat(",");
    }
    c.close(open);
    Ok(mapping)
}

fn item(c: &mut Cursor<'_>, m: &mut Mapping) -> Result<()> {
    let loc = c.span().loc;
    if c.eat_word("for") {
        let item = Item::Loop(m.loops.len());
        let name = named(c, "a loop", &m.loops)?;
        m.places.put(item, "", loc);
        let looped = loop_words(c, Words { places: &mut m.places, item });
        m.loops.push((name, looped));
    } else if c.eat_word("array") {
        let item = Item::Array(m.arrays.len());
        let name = named(c, "an array", &m.arrays)?;
        m.places.put(item, "", loc);
        let array = array_words(c, Words { places: &mut m.places, item });
        m.arrays.push((name, array));
    } else if c.eat_word("tile") {
        let item = Item::Tile(m.tiles.len());
        let name = named(c, "a tile", &m.tiles)?;
        m.places.put(item, "", loc);
        c.expect_word("layout")?;
        m.tiles.push((name, layout(c)?));
    } else if c.eat_word("assume") {
        let item = Item::Promise(m.promises.len());
        let name = once(c, "an argument", &m.promises)?;
        m.places.put(item, "", loc);
        m.promises.push((name, assumed(c)?));
    } else if c.eat_word("kernel") {
        c.expect(":")?;
        m.places.put(Item::Kernel, "", loc);
        let mut words = Words { places: &mut m.places, item: Item::Kernel };
        each_word(c, |c| whole_word(c, &mut m.whole, &mut words));
    } else if !matches!(c.peek_at(1), Tok::Punct("=")) {
        return c.expected_word(&["for", "array", "tile", "assume", "kernel", "NAME = number"]);
    } else {
        let item = Item::Tunable(m.tunables.len());
        let name = once(c, "a tunable", &m.tunables)?;
        m.places.put(item, "", loc);
        c.expect("=")?;
        m.tunables.push((name, c.integer()?));
    }
    Ok(())
}

/// Words with commas between them; a wrong one is reported and stepped over.
fn each_word(c: &mut Cursor<'_>, mut word: impl FnMut(&mut Cursor<'_>) -> Result<()>) {
    loop {
        if let Err(error) = word(c) {
            c.report(error);
            c.skip_word();
        }
        if !c.eat(",") {
            return;
        }
    }
}

/// A name that is mapped once, and the colon behind it.
fn named<T>(c: &mut Cursor<'_>, what: &str, known: &[(String, T)]) -> Result<String> {
    let name = once(c, what, known)?;
    c.expect(":")?;
    Ok(name)
}

/// A name that is not mapped yet.
fn once<T>(c: &mut Cursor<'_>, what: &str, known: &[(String, T)]) -> Result<String> {
    if let Tok::Ident(name) = c.peek()
        && known.iter().any(|(n, _)| n == name)
    {
        return c.error(format!("`{name}` is mapped already"));
    }
    Ok(c.name(what)?.text)
}

fn loop_words(c: &mut Cursor<'_>, mut words: Words<'_>) -> LoopMapping {
    let mut looped = LoopMapping::default();
    each_word(c, |c| {
        let word = words.one_of(c, &LOOP_WORDS)?;
        loop_word(c, &mut looped, word)
    });
    looped
}

/// The rest after a word of a loop.
fn loop_word(c: &mut Cursor<'_>, looped: &mut LoopMapping, word: &str) -> Result<()> {
    match word {
        "pipeline" if c.eat_word("fit") => looped.pipeline = Depth::Fit,
        "pipeline" => looped.pipeline = Depth::Stages(c.count()?),
        "producers" => looped.producers = Some(c.count()?),
        "consumers" => looped.consumers = Some(c.count()?),
        "wait" => looped.wait = Some(c.count()?),
        "chunk" => looped.chunk = Some(c.count()?),
        "mma_order" => looped.mma_order = Some(c.count()?),
        "split_k" => looped.split_k = Some(c.count()?),
        _ => looped.stream_k = true,
    }
    Ok(())
}

fn array_words(c: &mut Cursor<'_>, mut words: Words<'_>) -> ArrayMapping {
    let mut array = ArrayMapping::default();
    each_word(c, |c| words.one_of(c, &ARRAY_WORDS).map(|word| array_word(&mut array, word)));
    array
}

fn array_word(array: &mut ArrayMapping, word: &str) {
    match word {
        "fit" => array.way = Way::Fit,
        "plain" => array.way = Way::Plain,
        "staged" => array.way = Way::Staged,
        "packed" => array.way = Way::Packed,
        "stream" => array.stream = true,
        _ => array.before_wait = true,
    }
}

/// A layout in quotes.
pub(super) fn layout(c: &mut Cursor<'_>) -> Result<Layout> {
    let Tok::Str(text) = c.peek().clone() else { return c.expected("a layout in quotes") };
    match report::read(&text) {
        Ok(layout) => {
            c.skip();
            Ok(layout)
        }
        Err(why) => c.error(format!("layout: {why}")),
    }
}

fn whole_word(c: &mut Cursor<'_>, whole: &mut KernelMapping, words: &mut Words<'_>) -> Result<()> {
    match words.one_of(c, &KERNEL_WORDS)? {
        "persistent" => whole.persistent = true,
        "pdl" => whole.pdl = true,
        "raster" => {
            whole.counter = c.eat_word("counter");
            if !whole.counter || RASTERS.iter().any(|word| c.is_word(word)) {
                whole.raster = raster(c)?;
            }
        }
        "epilogue" => whole.epilogue = epilogue(c)?,
        "products" => whole.products = products(c)?,
        "cluster" => whole.cluster = c.count()?,
        "pingpong" => whole.pingpong = c.count()?,
        "resident" => whole.resident = c.count()?,
        "blocks" => whole.blocks = c.count()?,
        "warps" => whole.warps = Some(c.count()?),
        "chunk" => whole.chunk = Some(c.count()?),
        _ => {
            whole.bulk_store = false;
            c.expect_word("bulk_store")?;
        }
    }
    Ok(())
}

fn raster(c: &mut Cursor<'_>) -> Result<Raster> {
    refuse_former(c, &["paired"])?;
    let words = [("linear", Raster::Linear), ("paired", Raster::Paired), ("square", Raster::Square)];
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
    c.expected_word(&[&RASTERS[..], &["counter"]].concat())
}

fn epilogue(c: &mut Cursor<'_>) -> Result<Epilogue> {
    let words = [("direct", Epilogue::Direct), ("deferred", Epilogue::Deferred), ("warps", Epilogue::Warps)];
    for (word, e) in words {
        if c.eat_word(word) {
            return Ok(e);
        }
    }
    c.expected_word(&words.map(|(word, _)| word))
}

fn products(c: &mut Cursor<'_>) -> Result<Products> {
    let words = [("fit", Products::Fit), ("wgmma", Products::Wgmma), ("mma_sync", Products::MmaSync)];
    match words.into_iter().find(|(word, _)| c.eat_word(word)) {
        Some((_, products)) => Ok(products),
        None => c.expected_word(&words.map(|(word, _)| word)),
    }
}

/// `[team, .., loop attributes]`, the `@` being stepped over.
pub(super) fn attrs(c: &mut Cursor<'_>) -> Result<Attrs> {
    let (mut attrs, mut places) = (Attrs::default(), Places::default());
    c.expect("[")?;
    c.list("]", |c| attr(c, &mut attrs, &mut Words { places: &mut places, item: Item::Mapping }))?;
    Ok(attrs)
}

fn attr(c: &mut Cursor<'_>, attrs: &mut Attrs, words: &mut Words<'_>) -> Result<()> {
    if c.eat_word("thread") {
        attrs.team = Team::Thread;
    } else if c.eat_word("warps") {
        attrs.team = Team::Warps(c.count()?);
    } else if c.eat_word("warpgroups") {
        attrs.team = Team::Warpgroups(c.count()?);
    } else if let Some(flag) = FLAGS.iter().find(|flag| c.eat_word(flag.0)) {
        flag.2(attrs);
    } else if c.eat_word("below") {
        attrs.below = Some(c.count()?);
    } else if c.eat_word("layout") {
        attrs.layout = Some(Box::new(layout(c)?));
    } else if c.eat_word("warp_grid") {
        let (rows, columns) = (c.count()?, c.count()?);
        attrs.warp_grid = Some(WarpGrid { rows, columns, contiguous: c.eat_word("contiguous") });
    } else if let Some(word) = words.next(c, &ARRAY_WORDS)? {
        array_word(&mut attrs.array, word);
    } else if let Some(word) = words.next(c, &LOOP_WORDS)? {
        loop_word(c, attrs.looped.get_or_insert_default(), word)?;
    } else {
        let flags = FLAGS.map(|flag| format!("`{}`", flag.0)).join(", ");
        return c.expected(&format!(
            "a team, {flags}, `below`, `layout`, `warp_grid` or an attribute of an array or loop"
        ));
    }
    Ok(())
}
