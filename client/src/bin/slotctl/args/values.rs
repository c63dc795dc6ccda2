//! Values of the command line: times, addresses, slots. Each refusal says what is right.
//!
//! Not which verb takes which. Invariant: what parses can be sent as it is.

use std::time::Duration;

use slots::{Endpoint, SlotRanges};

/// Most changes `history` asks for: as many as a node keeps.
pub(crate) const MAX_HISTORY: u32 = 1_000;
/// Longest delay of `demo stale-writer`, seconds: at its rate as many writes as the demo takes.
pub(crate) const MAX_DEMO_SECONDS: i64 = 50;
/// Longest time an option takes, seconds: a day is for ever to who waits.
const MAX_DURATION_S: u64 = 86_400;
/// How far above the client port a node listens for other nodes, if nothing else is said: Redis's
/// distance.
const BUS_PORT_DISTANCE: u16 = 10_000;

/// `500ms`, `5s`, `2m`, or seconds as `5`. More than nothing, a day at most.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || "a time is like 500ms, 5s or 2m, more than 0 and at most a day".to_owned();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let millis = match unit {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    let millis = millis.filter(|millis| (1..=MAX_DURATION_S * 1_000).contains(millis));
    millis.map(Duration::from_millis).ok_or_else(bad)
}

/// `HOST:PORT` of a node to ask. The host may not be empty.
pub(crate) fn address(text: &str) -> Result<Endpoint, String> {
    let endpoint: Endpoint = text.parse().map_err(|error| format!("{error}"))?;
    if endpoint.host.is_empty() {
        return Err("an address is HOST:PORT; the host is missing".into());
    }
    Ok(endpoint)
}

/// `HOST:PORT` or `HOST:PORT@BUSPORT` of a node to take in, as it is sent.
pub(crate) fn join_address(text: &str) -> Result<String, String> {
    let (client, bus) = match text.split_once('@') {
        Some((client, bus)) => (client, Some(bus)),
        None => (text, None),
    };
    let endpoint = address(client)?;
    let Some(bus) = bus else {
        if endpoint.port.checked_add(BUS_PORT_DISTANCE).is_none() {
            let port = endpoint.port;
            return Err(format!(
                "the port for other nodes would be {port}+{BUS_PORT_DISTANCE}, over 65535: write \
                 HOST:PORT@BUSPORT"
            ));
        }
        return Ok(endpoint.to_string());
    };
    let digits = !bus.is_empty() && bus.bytes().all(|byte| byte.is_ascii_digit());
    match bus.parse::<u16>() {
        Ok(port) if digits && port != 0 => Ok(format!("{endpoint}@{port}")),
        _ => Err("the port behind @ is 1-65535".into()),
    }
}

/// `449` or `1200-1300,5461`.
pub(crate) fn slots(text: &str) -> Result<SlotRanges, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        let millis = |text: &str| duration(text).map(|time| time.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("5"), Ok(5_000));
        assert_eq!(millis("5s"), Ok(5_000));
        assert_eq!(millis("2m"), Ok(120_000));
        assert_eq!(millis("24h"), Ok(86_400_000));
        let bad = ["", "0", "0ms", "-1", "1.5s", "5 s", "s", "25h", "99999999999999999999", "5é"];
        for bad in bad {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_to_add_has_one_address_or_two_ports() {
        assert_eq!(join_address("10.0.0.5:7001"), Ok("10.0.0.5:7001".into()));
        assert_eq!(join_address("[::1]:7001@7501"), Ok("::1:7001@7501".into()));
        for (bad, why) in [
            ("10.0.0.5", "HOST:PORT"),
            (":7001", "the host is missing"),
            ("h:60000", "over 65535"),
            ("h:1@", "behind @"),
            ("h:1@0", "behind @"),
            ("h:1@+5", "behind @"),
            ("h:1@2@3", "behind @"),
        ] {
            let error = join_address(bad).expect_err(bad);
            assert!(error.contains(why), "{bad}: {error}");
        }
        assert_eq!(join_address("h:60000@61000"), Ok("h:60000@61000".into()));
    }
}
