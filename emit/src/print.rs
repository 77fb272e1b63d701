//! Prints: a call of the driver's `vprintf` with the text, which stands in global memory, and a list of the operands in
//! the thread's local memory.
//!
//! ```text
//!  .global .align 1 .b8 _print0[8] = {..};          "n %d\n" and a zero
//!  st.local.b32 [list], %r4;                        words of 4 bytes, wide ones and floats (as f64) of 8
//!  call (printed), vprintf, (text, values);
//! ```
//! CUDA C++ Programming Guide, "Formatted output"; PTX Writer's Guide to Interoperability, "System calls".

use crate::EmitError;
use crate::role::{Site, Writer};
use std::fmt::Write as _;
use warplift_ir::machine::Attr;

/// How an operand is handed over.
#[derive(Clone, Copy, PartialEq)]
enum Conversion {
    Word,
    Wide,
    Float,
}

/// The conversions of a text, in order.
fn conversions(text: &str) -> Vec<Conversion> {
    let mut all = Vec::new();
    let mut parts = text.split('%').skip(1);
    while let Some(part) = parts.next() {
        match part.as_bytes().first() {
            // `%%`: the part between both is empty.
            None => drop(parts.next()),
            Some(b'g') => all.push(Conversion::Float),
            Some(b'l') => all.push(Conversion::Wide),
            _ => all.push(Conversion::Word),
        }
    }
    all
}

impl<'a> Writer<'_, 'a> {
    /// A print, by the threads of its guard.
    pub(crate) fn printf(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Attr::Print(text) = &site.data.attr else { return Err(self.attribute(site, "a text")) };
        let number = self.texts.iter().position(|t| t == text);
        let number = number.ok_or_else(|| self.attribute(site, "a text of the module"))?;
        let own = format!("{}{}", self.name, self.labels);
        let end = format!("${own}_printed");
        self.labels += 1;
        if let Some(guard) = site.data.guard {
            self.out.push_str(if guard.negated { "@" } else { "@!" });
            self.operand(site, site.guard(), 0, false)?;
            let _ = writeln!(self.out, " bra {end};");
        }
        let conversions = conversions(text);
        let _ = writeln!(
            self.out,
            "{{\n.reg .b64 %text, %list;\n.reg .f64 %wide;\n.local .align 8 .b8 list_{own}[{}];",
            8 * conversions.len().max(1)
        );
        let mut at = 0;
        for (k, conversion) in conversions.into_iter().enumerate() {
            at = self.listed(site, k, conversion, (&own, at))?;
        }
        let _ = write!(
            self.out,
            "mov.b64 %text, _print{number};\ncvta.global.u64 %text, %text;\n\
             mov.b64 %list, list_{own};\ncvta.local.u64 %list, %list;\n\
             .param .b64 text_{own};\n.param .b64 values_{own};\n.param .b32 printed_{own};\n\
             st.param.b64 [text_{own}], %text;\nst.param.b64 [values_{own}], %list;\n\
             call (printed_{own}), vprintf, (text_{own}, values_{own});\n}}\n"
        );
        if site.data.guard.is_some() {
            let _ = writeln!(self.out, "{end}:");
        }
        Ok(())
    }

    /// Puts an operand into the list; the bytes so far.
    fn listed(
        &mut self,
        site: Site<'_, 'a>,
        k: usize,
        conversion: Conversion,
        (own, at): (&str, usize),
    ) -> Result<usize, EmitError> {
        if conversion == Conversion::Word {
            let _ = write!(self.out, "st.local.b32 [list_{own}+{at}], ");
            self.operand(site, k, 0, false)?;
            self.out.push_str(";\n");
            return Ok(at + 4);
        }
        let at = at.next_multiple_of(8);
        if conversion == Conversion::Float {
            self.out.push_str("cvt.f64.f32 %wide, ");
            self.operand(site, k, 0, true)?;
            let _ = writeln!(self.out, ";\nst.local.f64 [list_{own}+{at}], %wide;");
        } else {
            let _ = write!(self.out, "st.local.b64 [list_{own}+{at}], ");
            self.operand(site, k, 0, false)?;
            self.out.push_str(";\n");
        }
        Ok(at + 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_conversion_for_each_operand() {
        use Conversion::*;
        assert!(conversions("100%% of %d, %g%%[%llu] %u\n") == [Word, Float, Wide, Word]);
        assert!(conversions("%%%%d").is_empty());
    }
}
