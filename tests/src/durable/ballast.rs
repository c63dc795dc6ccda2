//! Keys that are written once: they make loading and checkpoints long enough to be hit by a kill.
//!
//! Invariant: the value of a key follows from its number, so any can be checked at any time.

use crate::dice::Dice;
use crate::resp::{Client, Value, encode};
use std::io;

const BATCH: u32 = 500;
const VALUE_BYTES: usize = 100;

/// How many there are, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ballast(pub u32);

impl Ballast {
    /// Writes all.
    pub(super) fn write(self, client: &mut Client) -> io::Result<()> {
        self.each_batch(|numbers| {
            let mut out = Vec::new();
            for number in numbers.clone() {
                encode(&[b"SET".to_vec(), key(number), value(number)], &mut out);
            }
            client.send_raw(&out)?;
            for reply in client.read_many(numbers.len())? {
                if reply != Value::ok() {
                    return Err(io::Error::other(format!("ballast: {reply:?}")));
                }
            }
            Ok(())
        })
    }

    /// Looks at all; what is wrong with the first wrong one.
    pub(super) fn check_all(self, client: &mut Client) -> io::Result<Option<String>> {
        let mut wrong = None;
        self.each_batch(|numbers| {
            wrong = wrong.take().or(check(client, &numbers.collect::<Vec<_>>())?);
            Ok(())
        })?;
        Ok(wrong)
    }

    /// Looks at some of them. Errors that say that the server does not serve yet are returned as
    /// `Err(WouldBlock)`; a key that is missing is wrong, served or not.
    pub(super) fn check_some(
        self,
        client: &mut Client,
        dice: &mut Dice,
        count: usize,
    ) -> io::Result<Option<String>> {
        let numbers: Vec<u32> = (0..count).map(|_| dice.below(self.0.into()) as u32).collect();
        check(client, &numbers)
    }

    fn each_batch(
        self,
        mut act: impl FnMut(std::ops::Range<u32>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut next = 0;
        while next < self.0 {
            let end = self.0.min(next + BATCH);
            act(next..end)?;
            next = end;
        }
        Ok(())
    }
}

fn check(client: &mut Client, numbers: &[u32]) -> io::Result<Option<String>> {
    let mut out = Vec::new();
    numbers.iter().for_each(|number| encode(&[b"GET".to_vec(), key(*number)], &mut out));
    client.send_raw(&out)?;
    let replies = client.read_many(numbers.len())?;
    let mut wrong = None;
    for (number, reply) in numbers.iter().zip(replies) {
        if reply.is_error("LOADING") || reply.is_error("CLUSTERDOWN") {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if reply != Value::Bulk(value(*number)) {
            let text = format!("ballast {number} is {reply:?}");
            wrong = wrong.or(Some(text.chars().take(200).collect()));
        }
    }
    Ok(wrong)
}

fn key(number: u32) -> Vec<u8> {
    format!("ballast:{number}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    let word = format!("{number}/").into_bytes();
    word.iter().copied().cycle().take(VALUE_BYTES).collect()
}
