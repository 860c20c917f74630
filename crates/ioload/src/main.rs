//! The program `ioload`: all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ioload::main_from_args(std::env::args_os().skip(1)))
}
