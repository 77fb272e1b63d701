//! Standard output that may fail: a full disk ends the program with a message, where the standard library's macros
//! panic. The macros here take their names, so that no command can forget.

use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Write};

/// `print!` with a message and status 2 where it fails.
macro_rules! print {
    ($($all:tt)*) => { $crate::output::write(format_args!($($all)*)) };
}

/// `println!` with a message and status 2 where it fails.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($all:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($all)*))) };
}

/// Writes to standard output.
pub fn write(text: Arguments<'_>) {
    done(std::io::stdout().write_fmt(text));
}

/// Writes what is held back.
pub fn flush() {
    done(std::io::stdout().flush());
}

/// Ends the program where standard output could not be written.
pub fn done(written: Result<(), Error>) {
    match written {
        Ok(()) => {}
        // The reader has left; the signal was ignored by whoever started the program.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(2),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: writing to standard output: {error}");
            std::process::exit(2);
        }
    }
}
