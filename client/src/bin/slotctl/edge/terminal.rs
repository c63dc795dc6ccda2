//! Standard output, standard error and the terminal's answers.
//!
//! Not what is written. Invariant: a reader who has seen enough (`| head -1`) is no error, and
//! nothing written here can panic.

use std::io::{self, BufRead, IsTerminal, Write};

use serde::Serialize;

use crate::confirm::Person;

/// The three streams of the process.
#[derive(Debug)]
pub(crate) struct Terminal {
    quiet: bool,
}

impl Terminal {
    /// The process's own streams.
    pub(crate) fn new() -> Terminal {
        Terminal { quiet: false }
    }

    /// Whether standard output is looked at by a person.
    pub(crate) fn is_watched() -> bool {
        io::stdout().is_terminal()
    }

    /// Whether a program reads the output.
    pub(crate) fn quiet(&self) -> super::Quiet {
        if self.quiet { super::Quiet::Yes } else { super::Quiet::No }
    }

    /// Asks nobody from here on: a program reads the output.
    pub(crate) fn hush(&mut self) {
        self.quiet = true;
    }

    /// Writes to standard output. An error is one that is worth telling.
    pub(crate) fn out(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// Says a line on standard error.
    pub(crate) fn note(&mut self, text: &str) {
        let mut err = io::stderr().lock();
        // A bar may stand in this line.
        let clear = if err.is_terminal() { "\r\x1b[K" } else { "" };
        // If nobody can be told, nobody can be told of that either.
        let _ = writeln!(err, "{clear}slotctl: {text}");
    }

    /// Writes an event for a program, a line; nothing where people read.
    pub(crate) fn event(&mut self, event: &impl Serialize) {
        if !self.quiet {
            return;
        }
        let line = serde_json::to_string(event).map_err(io::Error::other);
        if let Err(error) = line.and_then(|line| self.out(&format!("{line}\n"))) {
            self.note(&format!("an event cannot be written: {error}"));
        }
    }

    /// Shows the lines of a plan, unless a program reads the output.
    pub(crate) fn plan(&mut self, lines: &[String]) {
        if !self.quiet {
            let text = lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }
}

impl Person for Terminal {
    fn is_there(&self) -> bool {
        !self.quiet && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    fn ask(&mut self, prompt: &str) -> Option<String> {
        let mut err = io::stderr().lock();
        err.write_all(prompt.as_bytes()).and_then(|()| err.flush()).ok()?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(line)
    }
}
