//! The reply queue against a plain list, over all short histories and over long random ones.

use proptest::prelude::*;

use super::*;
use crate::gate::Watermarks;

const fn tag(lane: u16, position: u64, set: u32) -> Tag {
    Tag { lane, position, set }
}

fn fallback(id: usize) -> Fallback {
    Fallback::new(format!("UNKNOWNRESULT {id}"))
}

fn released(queue: &mut ReplyQueue, marks: &Watermarks) -> String {
    let mut out = Vec::new();
    queue.release(marks, &mut out);
    String::from_utf8(out).expect("tests use text")
}

/// One step of a history. Positions count up by themselves, per lane.
#[derive(Clone, Copy, Debug)]
enum Step {
    Untagged(usize),
    Tagged {
        lane: u16,
        size: usize,
    },
    /// A batch: untagged, tagged, tagged, untagged, with sizes made of this.
    Batch {
        lane: u16,
        size: usize,
    },
    Raise {
        lane: u16,
        by: u64,
    },
    /// All of a lane up to its watermark plus this.
    Fail {
        lane: u16,
        ahead: u64,
    },
    Release,
}

/// What a client and a log could see; the queue must agree with it after every step.
#[derive(Default)]
struct World {
    queue: ReplyQueue,
    marks: Watermarks,
    safe: [u64; 3],
    made: [u64; 3],
    /// Every reply ever made: its bytes, its tag, what it would become; in order.
    made_replies: Vec<(String, Option<Tag>, bool)>,
    /// How many of them left.
    left: usize,
}

impl World {
    fn reply(&mut self, size: usize, tag: Option<Tag>) -> String {
        let id = self.made_replies.len();
        let text = format!("+{id}{}\r\n", "x".repeat(size));
        self.made_replies.push((text.clone(), tag, false));
        text
    }

    fn next_tag(&mut self, lane: u16) -> Tag {
        self.made[usize::from(lane)] += 1;
        tag(lane, self.made[usize::from(lane)], u32::from(lane) * 7)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Untagged(size) => {
                let text = self.reply(size, None);
                self.queue.push(text.as_bytes());
            }
            Step::Tagged { lane, size } => {
                let tag = self.next_tag(lane);
                let id = self.made_replies.len();
                let text = self.reply(size, Some(tag));
                self.queue.push_tagged(text.as_bytes(), tag, fallback(id));
            }
            Step::Batch { lane, size } => self.batch(lane, size),
            Step::Raise { lane, by } => {
                let safe = &mut self.safe[usize::from(lane)];
                *safe = (*safe + by).min(self.made[usize::from(lane)]);
                let up_to = tag(lane, *safe, u32::from(lane) * 7);
                self.marks.raise(up_to);
            }
            Step::Fail { lane, ahead } => self.fail(lane, ahead),
            Step::Release => self.release(),
        }
        self.check_counts();
    }

    fn batch(&mut self, lane: u16, size: usize) {
        let (mut out, mut batch) = (String::new(), Batch::new());
        for at in 0..4 {
            let start = out.len();
            if at % 3 == 0 {
                let text = self.reply(size % 5, None);
                out.push_str(&text);
                continue;
            }
            let tag = self.next_tag(lane);
            let id = self.made_replies.len();
            let text = self.reply(size, Some(tag));
            out.push_str(&text);
            batch.mark(start..out.len(), tag, fallback(id));
        }
        self.queue.take(out.as_bytes(), &mut batch);
        assert!(batch.is_empty());
    }

    fn is_safe(&self, tag: Option<Tag>) -> bool {
        tag.is_none_or(|tag| tag.position <= self.safe[usize::from(tag.lane)])
    }

    fn fail(&mut self, lane: u16, ahead: u64) {
        let last = self.safe[usize::from(lane)] + ahead;
        let is_lost = |tag: Tag| tag.lane == lane && tag.position <= last;
        let mut turned = 0;
        for at in self.left..self.made_replies.len() {
            let (_, tag, has_failed) = self.made_replies[at];
            if tag.is_some_and(is_lost) && !self.is_safe(tag) && !has_failed {
                self.made_replies[at].2 = true;
                turned += 1;
            }
        }
        assert_eq!(self.queue.fail(&self.marks, is_lost), turned);
    }

    /// The bytes that may leave by the rules, reply by reply, must be what leaves.
    fn release(&mut self) {
        let mut want = String::new();
        while let Some((text, tag, has_failed)) = self.made_replies.get(self.left) {
            match *has_failed {
                true => want.push_str(&format!("-UNKNOWNRESULT {}\r\n", self.left)),
                false if self.is_safe(*tag) => want.push_str(text),
                false => break,
            }
            self.left += 1;
        }
        assert_eq!(released(&mut self.queue, &self.marks), want);
        let first = self.made_replies.get(self.left).and_then(|(_, tag, _)| *tag);
        assert_eq!(self.queue.awaited(), first);
    }

    fn check_counts(&self) {
        let waiting = &self.made_replies[self.left..];
        let bytes: usize = waiting
            .iter()
            .enumerate()
            .map(|(at, (text, _, has_failed))| match has_failed {
                true => fallback(self.left + at).encoded_len(),
                false => text.len(),
            })
            .sum();
        assert_eq!(self.queue.pending_bytes(), bytes);
        assert_eq!(self.queue.is_empty(), waiting.is_empty());
        if waiting.is_empty() {
            assert_eq!((self.queue.buffer.capacity(), self.queue.entries.capacity()), (0, 0));
        }
        assert!(self.queue.buffer.len() <= 2 * (self.queue.buffer.len() - self.queue.head));
    }

    /// Whatever happened, once all is decided every reply has left exactly once.
    fn settle(mut self) {
        for lane in 0..3 {
            self.step(Step::Fail { lane, ahead: 1 });
            self.step(Step::Raise { lane, by: u64::MAX / 2 });
        }
        self.release();
        assert_eq!(self.left, self.made_replies.len());
        self.check_counts();
    }
}

#[test]
fn every_short_history() {
    const STEPS: [Step; 8] = [
        Step::Untagged(3),
        Step::Tagged { lane: 0, size: 1 },
        Step::Tagged { lane: 1, size: 40 },
        Step::Raise { lane: 0, by: 1 },
        Step::Raise { lane: 1, by: 2 },
        Step::Fail { lane: 0, ahead: 1 },
        Step::Fail { lane: 1, ahead: 9 },
        Step::Release,
    ];
    const LENGTH: u32 = 5;
    for history in 0..STEPS.len().pow(LENGTH) {
        let mut world = World::default();
        let mut rest = history;
        for _ in 0..LENGTH {
            world.step(STEPS[rest % STEPS.len()]);
            rest /= STEPS.len();
        }
        world.settle();
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let lane = 0u16..3;
    prop_oneof![
        (0usize..50).prop_map(Step::Untagged),
        (lane.clone(), 0usize..300).prop_map(|(lane, size)| Step::Tagged { lane, size }),
        (lane.clone(), 0usize..300).prop_map(|(lane, size)| Step::Batch { lane, size }),
        (lane.clone(), 0u64..4).prop_map(|(lane, by)| Step::Raise { lane, by }),
        (lane, 0u64..6).prop_map(|(lane, ahead)| Step::Fail { lane, ahead }),
        Just(Step::Release),
    ]
}

proptest! {
    #[test]
    fn long_histories(steps in proptest::collection::vec(any_step(), 0..200)) {
        let mut world = World::default();
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}

#[test]
fn an_empty_queue_owns_no_memory() {
    let mut queue = ReplyQueue::new();
    assert!(queue.is_empty());
    queue.push(b"");
    queue.take(b"", &mut Batch::new());
    assert_eq!((queue.buffer.capacity(), queue.entries.capacity()), (0, 0));
    assert!(size_of::<ReplyQueue>() <= 80, "it stands in every idle connection");
}

#[test]
fn an_untagged_reply_waits_behind_a_tagged_one() {
    let (mut queue, mut marks) = (ReplyQueue::new(), Watermarks::new());
    queue.push(b"+PONG\r\n");
    queue.push_tagged(b"+OK\r\n", tag(1, 9, 4), fallback(1));
    queue.push(b"$1\r\nv\r\n");
    queue.push(b":1\r\n");
    assert_eq!(queue.pending_replies(), 3);
    assert_eq!(released(&mut queue, &marks), "+PONG\r\n");
    assert_eq!(queue.awaited(), Some(tag(1, 9, 4)));
    marks.raise(tag(1, 8, 4));
    marks.raise(tag(1, 9, 3));
    assert_eq!(released(&mut queue, &marks), "");
    marks.raise(tag(1, 9, 4));
    assert_eq!(released(&mut queue, &marks), "+OK\r\n$1\r\nv\r\n:1\r\n");
    assert!(queue.is_empty());
}

#[test]
fn an_ok_of_unknown_fate_becomes_an_error_in_its_place() {
    let (mut queue, mut marks) = (ReplyQueue::new(), Watermarks::new());
    queue.push_tagged(b"+OK\r\n", tag(1, 1, 1), fallback(1));
    queue.push_tagged(b"*2\r\n+OK\r\n:1\r\n", tag(2, 1, 1), fallback(2));
    queue.push(b"+PONG\r\n");
    assert_eq!(queue.fail(&marks, |tag| tag.lane == 2), 1);
    assert_eq!(released(&mut queue, &marks), "");
    marks.raise(tag(1, 1, 1));
    // The word that it was safe after all comes too late for the second.
    marks.raise(tag(2, 1, 1));
    assert_eq!(released(&mut queue, &marks), "+OK\r\n-UNKNOWNRESULT 2\r\n+PONG\r\n");
}

#[test]
fn a_reply_that_is_safe_is_not_failed() {
    let (mut queue, mut marks) = (ReplyQueue::new(), Watermarks::new());
    queue.push_tagged(b"+1\r\n", tag(1, 1, 1), fallback(1));
    queue.push_tagged(b"+2\r\n", tag(2, 1, 1), fallback(2));
    marks.raise(tag(2, 1, 1));
    assert_eq!(queue.fail(&marks, |_| true), 1);
    assert_eq!(released(&mut queue, &marks), "-UNKNOWNRESULT 1\r\n+2\r\n");
}

#[test]
fn reading_stops_and_goes_on_below_half() {
    let bounds = Bounds { stop_bytes: 100, stop_replies: 4, cut_bytes: 200 };
    let (mut queue, mut marks) = (ReplyQueue::new(), Watermarks::new());
    for position in 1..=3 {
        queue.push_tagged(b"+OK\r\n", tag(1, position, 1), fallback(0));
        assert_eq!(queue.pressure(&bounds), Pressure::Open);
    }
    queue.push_tagged(b"+OK\r\n", tag(1, 4, 1), fallback(0));
    assert_eq!(queue.pressure(&bounds), Pressure::StopReading);
    for (position, want) in [(1, Pressure::StopReading), (2, Pressure::Open)] {
        marks.raise(tag(1, position, 1));
        released(&mut queue, &marks);
        assert_eq!(queue.pressure(&bounds), want);
    }
    queue.push(&[b'x'; 90]);
    assert_eq!(queue.pressure(&bounds), Pressure::StopReading);
    queue.push(&[b'x'; 200]);
    assert_eq!(queue.pressure(&bounds), Pressure::Cut);
    marks.raise(tag(1, 4, 1));
    released(&mut queue, &marks);
    assert_eq!(queue.pressure(&bounds), Pressure::Open);
}
