//! What an error reply means for slotctl: stop, or ask another node.
//!
//! Not the reading of bytes (`resp.rs`). Invariant: a node that cannot judge for the cluster is
//! never taken for the cluster's no.

use crate::exit::Exit;

/// What to do after an error reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// That is the answer.
    Stop(Exit, String),
    /// This node cannot tell; another may. If none can, this is how it ends.
    Elsewhere(Exit, String),
}

/// Judges an error reply: its first word is a code, the rest a sentence.
pub(crate) fn judge(error: &str) -> Verdict {
    let (code, sentence) = error.split_once(' ').unwrap_or((error, ""));
    let sentence = if sentence.is_empty() { code } else { sentence };
    match code {
        "REFUSED" => Verdict::Stop(Exit::Refused, sentence.into()),
        "UNKNOWN" => {
            Verdict::Stop(Exit::Unfinished, format!("{sentence}; give the same command again"))
        }
        "NOQUORUM" => Verdict::Elsewhere(Exit::Unfinished, sentence.into()),
        "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" => {
            Verdict::Elsewhere(Exit::Unreachable, format!("it is not ready: {sentence}"))
        }
        "NOAUTH" | "WRONGPASS" => Verdict::Stop(
            Exit::Refused,
            format!("{sentence} (give --password-file or SLOTCTL_PASSWORD, and --user if needed)"),
        ),
        "ERR" if is_unknown_command(sentence) => Verdict::Elsewhere(
            Exit::Unreachable,
            format!("it is no slotd that knows this order: {sentence}"),
        ),
        "ERR" => Verdict::Stop(Exit::Refused, sentence.into()),
        _ => Verdict::Stop(Exit::Refused, error.into()),
    }
}

fn is_unknown_command(sentence: &str) -> bool {
    let sentence = sentence.to_ascii_lowercase();
    sentence.starts_with("unknown command") || sentence.starts_with("unknown subcommand")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &str, expected: &str) {
        let shown = match judge(error) {
            Verdict::Stop(exit, text) => format!("stop {}: {text}", exit.code()),
            Verdict::Elsewhere(exit, text) => format!("elsewhere {}: {text}", exit.code()),
        };
        assert!(shown.starts_with(expected), "{shown}");
    }

    #[test]
    fn the_clusters_word_is_the_answer() {
        check("REFUSED node-c owns slots", "stop 1: node-c owns slots");
        check("ERR no such node", "stop 1: no such node");
        check("UNKNOWN the time was up", "stop 3: the time was up; give the same");
        check("WRONGPASS invalid", "stop 1: invalid (give --password-file");
        check("NOPERM no", "stop 1: NOPERM no");
        check("REFUSED", "stop 1: REFUSED");
    }

    #[test]
    fn a_node_that_cannot_tell_is_not_the_cluster() {
        check("NOQUORUM no majority answers", "elsewhere 3: no majority answers");
        check("CLUSTERDOWN no quorum", "elsewhere 4: it is not ready: no quorum");
        check("LOADING the table", "elsewhere 4");
        check("ERR unknown command 'SLOTD', with args", "elsewhere 4: it is no slotd");
        check("ERR Unknown subcommand or wrong number", "elsewhere 4");
    }
}
