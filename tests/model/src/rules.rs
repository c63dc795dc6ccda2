//! The rules of the protocol, one switch each, with the sentence each stands for.
//!
//! Not their effect: that is where the name is asked for (`table.rs`, `owner.rs`, `member.rs`...).
//! A rule is on in every node and in the table, or off in all.
//!
//! Invariant: with all of them on nothing in `properties.rs` is ever broken; with any of them off
//! something can be, and `scenarios/` shows how.

macro_rules! rules {
    ($($(#[doc = $sentence:literal])+ $name:ident,)+) => {
        /// Which rules are kept. All of them: [`Rules::ALL`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Rules { $($(#[doc = $sentence])+ pub $name: bool,)+ }

        impl Rules {
            /// The protocol.
            pub const ALL: Rules = Rules { $($name: true,)+ };
            /// The names of the rules, in the order in which they are explained.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)+];

            /// The sentence a rule stands for.
            pub fn sentence(name: &str) -> Option<String> {
                match name {
                    $(stringify!($name) => Some(one_line(concat!($($sentence),+))),)+
                    _ => None,
                }
            }

            fn switch(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

rules! {
    // The table (PROTOCOL 1 and 2).
    /** Grow, Shrink and TakeOver are accepted only where ver(slot) <= seen, CommitMove and Promote
    only where epoch(slot) <= seen: an entry that comes late or twice does nothing. */
    seen,
    /** A change proposed by an owner is accepted only from the boot that is in the table. */
    proposer_boot,
    /** A Grow names the boot of the node it takes in; another boot is refused. */
    grown_boot,
    /** A Promote names the boot of the node that asked for it; another boot is refused. */
    promoted_boot,
    /** A TakeOver names the boot of the node that asked for it; another boot is refused. */
    taker_boot,
    /** A NodeBoot is accepted only if its boot is newer than the recorded one. */
    newer_boot,
    /** R8: NodeBoot of an owner gives a new epoch even when it stays owner. */
    owner_start_new_epoch,
    /** R11: a start that may have lost memory leaves in_sync, and ownership where another member
    may own. */
    lossy_start_leaves,
    /** Shrink remembers the member it removed: last_removed = (n, Shrunk, this version). */
    shrunk_is_remembered,
    /** ... only if it is still wanted as a follower: who is not frees its copy. */
    shrunk_if_wanted,
    /** A start that lost a tail is remembered as last_removed only if the node is wanted. */
    tail_if_wanted,
    /** A lossy start of n ends what last_removed says of n: after a lost tail (n, Shrunk) is
    (n, Rebooted), after losing everything it is forgotten. */
    lossy_start_ends_shrunk,
    /** ... and after a lost tail it is not forgotten: sole + Nothing may still need that copy. */
    tail_weakens,
    /** Where a member leaves that is not itself remembered, a (m, Shrunk) found there becomes
    (m, Rebooted): m may lack what was acknowledged after it left. */
    leaver_weakens,
    /** ... and is not forgotten; a Shrink of a node that was no member leaves it as it is. */
    leaver_keeps_removed,
    /** A node that is dropped from the followers is cleared from last_removed. */
    dropped_is_forgotten,
    /** Shrink gives a new ver even if the node was no member: so a Grow is withdrawn. */
    withdraw_new_ver,
    /** AbortMove always gives a new epoch: what was proposed under the seal is refused after it. */
    abort_new_epoch,
    /** R9: Promote and CommitMove never remove the old owner; only the new owner shrinks it. */
    old_owner_stays,
    /** Promote is accepted only for a member in sync. */
    promoted_in_sync,
    /** CommitMove is accepted only if the target is in sync. */
    committed_in_sync,
    /** TakeOver is accepted only where ack = local and in_sync = {owner}. */
    taken_alone,
    /** Any change that makes the target of a move the owner ends the move. */
    reached_move_ends,
    /** A slot in `except` (staged or incomplete) counts as Nothing at NodeBoot. */
    incomplete_is_nothing,
    /** What a start lost counts until its NodeBoot is applied: a further start before that reports
    the least of both. */
    least_since_start,
    /** Sole + Tail: if nothing was acknowledged alone since m was shrunk, m owns. */
    shrunk_takes_over,

    /** ... and who gave the slot up so is remembered as (n, Rebooted): m may turn out to have lost
    more. */
    giver_is_remembered,

    // Data (R0 to R3).
    /** R0: before its snapshot is complete a copy reports progress, which is never an ack. */
    progress_is_no_ack,
    /** R1: a receiver refuses an epoch below max(applied, seen), and drops a stage of one. */
    fenced,
    /** R2: members buffer op groups and apply up to the owner's safe mark. */
    buffered_until_safe,
    /** R2: what was executed cannot be cut: a copy beyond the new base is a mismatch. */
    executed_is_kept,
    /** R2: a new owner first applies its whole buffered tail. */
    whole_tail_first,
    /** R3: (epoch, index) names one group for ever: copies are matched by both. */
    matched_by_name,
    /** R3: the owner first shrinks a member out, then sends it a snapshot. */
    out_before_snapshot,
    /** R3: a snapshot is built beside the old copy. */
    built_beside,
    /** R3: ... and swapped in whole, all pieces at one index. */
    swapped_whole,
    /** R3: ... once it is synced, in every mode that has a log: an unsynced snapshot must not
    stand for what may be hours old. */
    snapshot_synced,
    /** A sink applies an op to a piece only if the piece ends at the index before it. */
    op_follows_piece,
    /** A stage is dropped if the copy beside it got further in the stage's own epoch. */
    stage_not_behind,
    /** One command, EXEC or script is one op group: whole in log, buffer, ack, cut and apply. */
    one_group,

    // Acknowledging (R4 to R7, R12).
    /** R4: a node the owner is about to propose to grow is counted. */
    counted_before_grow,
    /** R4: Grow is proposed only when the node has acked the last index noted when it began to
    count. */
    grown_at_noted,
    /** ... noted anew when the owner applies a NodeBoot of that node: what its earlier boot acked
    may be gone. */
    noted_again,
    /** R4: every member in an outstanding Shrink is counted. */
    counted_until_shrunk,
    /** R5: everyone named in an outstanding proposal counts until ver moves. */
    counted_until_ver,
    /** R6: an ack counts only if its boot equals the boot in the owner's table. */
    ack_boot,
    /** An ack carries the table version of its sender; of a node outside in_sync it counts only if
    that is not below ver(slot). */
    ack_version,
    /** A node frees a copy only when its table names it nowhere in the slot's row. */
    freed_when_out,
    /** ... and ver(slot) is above the table version at which it last acked, or asked to take over:
    what was proposed because of that is refused by then. */
    freed_after_ack,
    /** R7: no slot role before the own NodeBoot is applied. */
    no_role_before_boot,
    /** An owner at an epoch it did not see begin treats itself as having been away. */
    away,
    /** An owner that is alone in sync writes and syncs an Alone mark before it acknowledges. */
    alone_mark,
    /** ... alone by its table: also while it counts a node that it is about to grow. */
    alone_by_table,
    /** R12: a read waits until the slot is safe up to its last index. */
    safe_reads,

    // Grants (R10, PROTOCOL 5) and moves (PROTOCOL 4).
    /** R10: a new owner answers nothing until every grant it gave below that change ran out. */
    waits_for_grants,
    /** R10: ... neither reads nor writes. */
    writes_wait_too,
    /** R10: a restarted node counts every other node as holding a full grant. */
    restart_counts_grants,
    /** R10: the wait is skipped only by the CommitMove that Handover announced. */
    handover_by_its_commit,
    /** A grant is used only once the holder's table has reached the giver's version. */
    grant_version,
    /** An owner answers a read only while it holds a grant from every counted node. */
    reads_hold_grants,
    /** ... also from one it is about to grow. */
    candidates_grant,
    /** Only a sealed owner proposes CommitMove. */
    sealed_commit,
    /** After Handover only the log opens the slot. */
    log_opens,
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Rules {
    /// All rules but these. The error is the name that is no rule.
    pub fn without<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Rules, String> {
        let mut rules = Rules::ALL;
        for name in names {
            match rules.switch(name) {
                Some(on) => *on = false,
                None => return Err(format!("`{name}` is no rule; `model list` names them")),
            }
        }
        Ok(rules)
    }
}
