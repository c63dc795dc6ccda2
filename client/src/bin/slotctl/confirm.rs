//! Questions before a deed: who may be asked, what counts as a yes, what to pass instead.
//!
//! Not the terminal itself. Invariant: without a clear yes nothing is done.

use crate::exit::Failure;

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    /// `y` or `yes` will do.
    YesNo,
    /// This text must be typed: what is given up does not come back.
    Typed(String),
}

/// What the command line says of questions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Consent {
    /// `--yes`.
    pub(crate) yes: bool,
    /// `--confirm TEXT`, where the verb has it.
    pub(crate) typed: Option<String>,
}

/// Somebody who may be there to answer.
pub(crate) trait Person {
    /// Is there a terminal to ask at?
    fn is_there(&self) -> bool;
    /// Asks, and takes a line; `None`: no answer came.
    fn ask(&mut self, prompt: &str) -> Option<String>;
}

/// Makes sure of a yes. `deed` is the verb as typed.
pub(crate) fn confirm(
    question: &Question,
    consent: &Consent,
    deed: &str,
    person: &mut dyn Person,
) -> Result<(), Failure> {
    match question {
        Question::YesNo if consent.yes => Ok(()),
        Question::YesNo if !person.is_there() => Err(Failure::refused(format!(
            "{deed} asks before it acts and there is no terminal: pass --yes; nothing was changed"
        ))),
        Question::YesNo => {
            let answer = person.ask("Go on? [y/N] ").unwrap_or_default();
            let yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
            if yes { Ok(()) } else { Err(not_confirmed()) }
        }
        Question::Typed(text) => match &consent.typed {
            Some(typed) if typed == text => Ok(()),
            Some(typed) => Err(Failure::refused(format!(
                "--confirm says '{}', expected {text}; nothing was changed",
                typed.escape_debug()
            ))),
            None if !person.is_there() => Err(Failure::refused(format!(
                "{deed} cannot be undone and there is no terminal to ask at: pass \
                 --confirm {text}; nothing was changed"
            ))),
            None => {
                let prompt = format!("This cannot be undone. Type {text} to go on: ");
                let answer = person.ask(&prompt).unwrap_or_default();
                if answer.trim() == text { Ok(()) } else { Err(not_confirmed()) }
            }
        },
    }
}

fn not_confirmed() -> Failure {
    Failure::refused("not confirmed: nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Typist(Option<&'static str>);

    impl Person for Typist {
        fn is_there(&self) -> bool {
            self.0.is_some()
        }

        fn ask(&mut self, _: &str) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    const NOBODY: Option<&str> = None;

    fn check(question: &Question, consent: &Consent, typed: Option<&'static str>) -> String {
        let outcome = confirm(question, consent, "node remove", &mut Typist(typed));
        outcome.map_or_else(|failure| failure.text, |()| "yes".into())
    }

    #[test]
    fn yes_is_a_word_or_a_flag() {
        let (no, yes) = (Consent::default(), Consent { yes: true, typed: None });
        assert_eq!(check(&Question::YesNo, &yes, NOBODY), "yes");
        assert_eq!(check(&Question::YesNo, &no, Some("Y\n")), "yes");
        for unclear in ["", "\n", "n", "yess", "ok"] {
            let text = check(&Question::YesNo, &no, Some(unclear));
            assert_eq!(text, "not confirmed: nothing was changed", "{unclear}");
        }
        assert!(check(&Question::YesNo, &no, NOBODY).contains("pass --yes"));
    }

    #[test]
    fn what_does_not_come_back_must_be_typed() {
        let question = Question::Typed("node-c".into());
        let typed = |text: &str| Consent { yes: true, typed: Some(text.into()) };
        let yes = Consent { yes: true, typed: None };
        assert_eq!(check(&question, &yes, Some("node-c\n")), "yes");
        assert_eq!(check(&question, &yes, Some("yes")), "not confirmed: nothing was changed");
        assert!(check(&question, &yes, NOBODY).contains("pass --confirm node-c"));
        assert_eq!(check(&question, &typed("node-c"), NOBODY), "yes");
        assert!(check(&question, &typed("node-b"), NOBODY).contains("expected node-c"));
    }
}
