//! The `warplift` binary; see `warplift help`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
