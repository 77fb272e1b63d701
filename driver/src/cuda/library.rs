//! Shared libraries opened at run time: the driver, cuBLASLt and NVML.
//!
//! Each is a list of candidates, tried in order, and a table of functions declared with
//! the `functions!` macro. What was tried is kept for the error message.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// An opened shared library.
pub use libloading::Library;

/// No candidate could be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} not found{}", self.summary())]
pub struct LibraryMissing {
    /// What was looked for, in words.
    pub what: &'static str,
    /// Each candidate with the loader's message.
    pub tried: Vec<(String, String)>,
}

impl LibraryMissing {
    fn summary(&self) -> String {
        match &self.tried[..] {
            [(name, why)] => format!(": {name}: {why}"),
            many => format!(" in {} places", many.len()),
        }
    }

    /// A line for each candidate, with the loader's message.
    pub fn places(&self) -> String {
        let line = |(name, why): &(String, String)| format!("  {name}: {why}\n");
        self.tried.iter().map(line).collect()
    }
}

/// Opens the first of `candidates` that loads; returns it with the name that worked.
///
/// A candidate with a directory must exist; a bare name is left to the loader's search path.
///
/// # Errors
/// None could be opened.
pub fn open(
    what: &'static str,
    candidates: impl IntoIterator<Item = OsString>,
) -> Result<(Library, OsString), LibraryMissing> {
    let mut tried = Vec::new();
    for name in candidates {
        match open_one(&name) {
            Ok(library) => return Ok((library, name)),
            Err(why) => tried.push((name.to_string_lossy().into_owned(), why)),
        }
    }
    Err(LibraryMissing { what, tried })
}

fn open_one(name: &OsStr) -> Result<Library, String> {
    let path = Path::new(name);
    if path.components().count() > 1 && !path.exists() {
        return Err("no such file".to_owned());
    }
    // SAFETY: the candidates are NVIDIA's libraries, whose initialisers are meant to run in any
    // process that opens them.
    unsafe { Library::new(name) }.map_err(|e| e.to_string())
}

/// Declares a table of C functions that return a `u32` status, and its loader.
#[doc(hidden)]
#[macro_export]
macro_rules! functions {
    ($(#[$meta:meta])* $name:ident { $($function:ident($($arg:ty),* $(,)?);)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "fields carry the names of the C functions")]
        pub(crate) struct $name {
            $(pub $function: unsafe extern "C" fn($($arg),*) -> u32,)*
            _library: $crate::cuda::library::Library,
        }

        impl $name {
            /// Looks up every function; `Err` names the first that is missing.
            pub(crate) fn load(library: $crate::cuda::library::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($function: {
                        const NAME: &str = stringify!($function);
                        // SAFETY: the type is the one that the library's header declares.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> u32>(NAME.as_bytes())
                        };
                        *symbol.map_err(|_| NAME)?
                    },)*
                    _library: library,
                })
            }
        }
    };
}
#[doc(inline)]
pub use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_says_what_was_tried() {
        let names = ["libno-such-thing.so.7", "/no/such/libx.so"];
        let error = open("the thing", names.map(OsString::from)).unwrap_err();
        assert_eq!(error.tried.len(), 2);
        assert_eq!(error.to_string(), "the thing not found in 2 places");
        let places = error.places();
        assert!(places.starts_with("  libno-such-thing.so.7: "), "{places}");
        assert!(places.ends_with("  /no/such/libx.so: no such file\n"), "{places}");
    }
}
