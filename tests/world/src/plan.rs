//! What a run is made of besides its seed: a bug put in on purpose, a trace.
//!
//! Invariant: bugs are in the world's node only; the product's cores are always the real ones.

/// A bug put in on purpose: the checkers must catch it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A node plays its roles as soon as the table names it, its own boot applied or not.
    RoleBeforeBoot,
    /// Entries that arrive out of order are applied as they come.
    ApplyOutOfOrder,
    /// Changes are applied whatever they had seen, and whichever boot proposed them.
    ChangeWithoutChecks,
    /// A new table that takes slots away is not brought to the admission words.
    StaleAnswer,
    /// A start whose boot number another copy has taken goes on as if it were seated.
    TwoCopiesNotNoticed,
    /// A start with an old copy of a data directory goes on as if it were seated.
    OldDirNotNoticed,
    /// CLUSTER SLOTS tells of a new table before the admission words do.
    TopologyBeforeAdmission,
    /// A start uses boot number and nonce of the one before.
    BootNotNew,
    /// A start takes one more than the last start, confirmed or not.
    BootNotConfirmed,
    /// Slots are given up without being sealed first.
    UnassignWithoutSeal,
    /// A seal is broken by a timer, not by the log.
    SealBrokenByTimer,
    /// Proposals without an answer are kept without a limit.
    NoQueueLimit,
    /// Proposals of unknown fate are forgotten: what they sealed stays closed.
    UnknownForgotten,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 13] = [
        Bug::RoleBeforeBoot,
        Bug::ApplyOutOfOrder,
        Bug::ChangeWithoutChecks,
        Bug::StaleAnswer,
        Bug::TwoCopiesNotNoticed,
        Bug::OldDirNotNoticed,
        Bug::TopologyBeforeAdmission,
        Bug::BootNotNew,
        Bug::BootNotConfirmed,
        Bug::UnassignWithoutSeal,
        Bug::SealBrokenByTimer,
        Bug::NoQueueLimit,
        Bug::UnknownForgotten,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::RoleBeforeBoot => "role-before-boot",
            Bug::ApplyOutOfOrder => "apply-out-of-order",
            Bug::ChangeWithoutChecks => "change-without-checks",
            Bug::StaleAnswer => "stale-answer",
            Bug::TwoCopiesNotNoticed => "two-copies-not-noticed",
            Bug::OldDirNotNoticed => "old-dir-not-noticed",
            Bug::TopologyBeforeAdmission => "topology-before-admission",
            Bug::BootNotNew => "boot-not-new",
            Bug::BootNotConfirmed => "boot-not-confirmed",
            Bug::UnassignWithoutSeal => "unassign-without-seal",
            Bug::SealBrokenByTimer => "seal-broken-by-timer",
            Bug::NoQueueLimit => "no-queue-limit",
            Bug::UnknownForgotten => "unknown-forgotten",
        }
    }

    /// The invariants whose checkers may be the first to catch it.
    pub const fn caught_by(self) -> &'static [&'static str] {
        match self {
            Bug::RoleBeforeBoot | Bug::TwoCopiesNotNoticed | Bug::OldDirNotNoticed => &["ROLE"],
            Bug::ApplyOutOfOrder => &["FORK"],
            Bug::ChangeWithoutChecks => &["SEEN"],
            Bug::StaleAnswer => &["WORDS"],
            Bug::TopologyBeforeAdmission => &["WORDS", "D09"],
            Bug::BootNotNew => &["BOOTS"],
            Bug::BootNotConfirmed | Bug::UnassignWithoutSeal | Bug::SealBrokenByTimer => {
                &["ONE", "INV-1"]
            }
            Bug::NoQueueLimit => &["INV-9"],
            Bug::UnknownForgotten => &["LIVENESS"],
        }
    }

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

/// A run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// A bug to be caught.
    pub bug: Option<Bug>,
    /// Print each event as it happens.
    pub is_traced: bool,
    /// Keep the last events, to print them with a violation. Costs half the time of a run.
    pub is_noted: bool,
}

impl Plan {
    /// A plain run of this seed.
    pub const fn seed(seed: u64) -> Plan {
        Plan { seed, bug: None, is_traced: false, is_noted: false }
    }

    /// The command that plays it again.
    pub fn replay(&self) -> String {
        let bug = self.bug.map(|bug| format!(" --bug {}", bug.name())).unwrap_or_default();
        format!("cargo sim --seed {}{bug} --trace", self.seed)
    }

    /// Is this bug in?
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
