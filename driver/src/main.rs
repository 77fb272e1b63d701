//! The `warplift` binary; see `warplift help`.

mod cli;

/// A reader that leaves early (`warplift explain gemm | head`) ends the program as it ends others, instead of making
/// the next `println!` panic: Rust programs start with the signal ignored.
fn end_with_the_reader() {
    // SAFETY: no other thread runs yet, and the default action of a signal needs no handler of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn main() -> std::process::ExitCode {
    end_with_the_reader();
    cli::main()
}
