//! `completions` and `man`: what packages install beside the command, generated from its definition.

use crate::failure::{Failure, Outcome};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando completions bash > /usr/share/bash-completion/completions/pando
  pando completions zsh > /usr/share/zsh/vendor-completions/_pando
  pando completions fish > ~/.config/fish/completions/pando.fish
  source <(pando completions bash)")]
pub struct CompletionsArgs {
    /// The shell that is to complete command lines
    shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando man /usr/local/share/man/man1
  pando man pages && man pages/pando-serve.1")]
pub struct ManArgs {
    /// The directory to which the pages are written, created if it does not exist
    dir: PathBuf,
}

/// Runs `pando completions`: writes the script for a shell to standard output.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "pando", &mut script);
    io::stdout().write_all(&script).map_err(Failure::stdout)
}

/// Runs `pando man`: writes a page for the command and one for each of its commands.
pub fn man(args: &ManArgs, command: Command) -> Outcome {
    let dir = &args.dir;
    fs::create_dir_all(dir)
        .map_err(|cause| Failure::system(format_args!("make {}", dir.display()), cause))?;
    clap_mangen::generate_to(command, dir)
        .map_err(|cause| Failure::system(format_args!("write the pages to {}", dir.display()), cause))
}
