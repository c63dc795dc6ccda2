//! CRC16/XMODEM (polynomial 0x1021, start 0), the hash behind hash slots, eight bytes a step.
//!
//! Not a general CRC library: one polynomial, whole slices only. It knows nothing of slots or
//! hash tags (`slot.rs`).
//!
//! Invariant: equals the bitwise definition for every input; leading zero bytes change nothing,
//! which is what lets the ragged bytes of a key come first.

/// Bytes folded in one step: one table each. Sixteen tables were no faster and take 8 KiB of L1.
const LANES: usize = 8;

/// `TABLES[k][b]` is the CRC of byte `b` followed by `k` zero bytes.
static TABLES: [[u16; 256]; LANES] = tables();

/// The CRC16/XMODEM of `bytes`; 0 for an empty slice.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (ragged, steps) = bytes.split_at(bytes.len() % LANES);
    // The ragged bytes are a step whose missing front bytes are zeros: independent lookups, no
    // chain through the CRC.
    let mut crc = 0;
    for (table, &byte) in TABLES[..ragged.len()].iter().rev().zip(ragged) {
        crc ^= table[usize::from(byte)];
    }
    for step in steps.chunks_exact(LANES) {
        crc = TABLES[7][usize::from(step[0] ^ (crc >> 8) as u8)]
            ^ TABLES[6][usize::from(step[1] ^ crc as u8)]
            ^ TABLES[5][usize::from(step[2])]
            ^ TABLES[4][usize::from(step[3])]
            ^ TABLES[3][usize::from(step[4])]
            ^ TABLES[2][usize::from(step[5])]
            ^ TABLES[1][usize::from(step[6])]
            ^ TABLES[0][usize::from(step[7])];
    }
    crc
}

const fn tables() -> [[u16; 256]; LANES] {
    let mut tables = [[0u16; 256]; LANES];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut lane = 1;
    while lane < LANES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[lane - 1][byte];
            tables[lane][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        lane += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn oracle(bytes: &[u8]) -> u16 {
        crc16::State::<crc16::XMODEM>::calculate(bytes)
    }

    #[test]
    fn check_value_of_the_standard() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn every_ragged_length_equals_the_oracle() {
        let bytes: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37) ^ 0xA5).collect();
        for len in 0..=bytes.len() {
            assert_eq!(crc16(&bytes[..len]), oracle(&bytes[..len]), "length {len}");
        }
    }

    proptest! {
        #[test]
        fn equals_the_oracle(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(crc16(&bytes), oracle(&bytes));
        }
    }
}
