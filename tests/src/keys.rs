//! Hash slots, worked out a second time and in the plainest way.
//!
//! The oracle of tests that look at the server from outside: it must not share code with `slots/`.
//! Invariant: `slot_of` is CRC16/XMODEM modulo 16,384 over the hash tag, or the whole key.

/// How many hash slots there are.
pub const SLOTS: u16 = 16_384;

/// The hash slot of a key, by the cluster specification's words.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key)) % SLOTS
}

/// A short key that lies in `slot`: `k<number>`, the smallest number that does.
pub fn key_in(slot: u16) -> String {
    key_in_not_before(slot, 0)
}

/// As [`key_in`], with a number of at least `from`: for several keys of one slot.
pub fn key_in_not_before(slot: u16, from: u32) -> String {
    let mut names = (from..).map(|number| format!("k{number}"));
    names.find(|name| slot_of(name.as_bytes()) == slot).expect("CRC16 reaches every slot")
}

fn tag_of(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_examples_land_where_the_specification_says() {
        for (key, slot) in [
            ("123456789", 12739),
            ("foo", 12182),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("{user1000}.following", 3443),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_key_is_found_for_any_slot() {
        for slot in [0, 1, 449, 8191, SLOTS - 1] {
            assert_eq!(slot_of(key_in(slot).as_bytes()), slot);
        }
    }
}
