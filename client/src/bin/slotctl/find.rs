//! Where to look for the cluster, and what to do when a node gives no answer.
//!
//! Not the asking (`cluster.rs`). Invariant: an order whose fate is unknown is never repeated
//! where a second time could do more, or be refused for what the first did.

use slots::Endpoint;
use slots::admin::Status;

use crate::args::values;
use crate::edge::Trouble;
use crate::exit::{Exit, Failure, Fate};
use crate::reply::Verdict;
use crate::request::{Request, Retry};

/// The variable that names nodes to begin with.
pub(crate) const SERVER_VARIABLE: &str = "SLOTCTL_SERVER";
/// Where a cluster of `slotd local`, and a single server, listen.
const DEFAULT_PORTS: [u16; 2] = [7001, 6379];
const DEFAULT_HOST: &str = "127.0.0.1";

/// The nodes to begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    /// In the order they are asked.
    pub(crate) places: Vec<Place>,
    /// Who named them.
    pub(crate) source: Source,
}

/// Who named the nodes to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The operator.
    Given,
    /// Nobody: the places where a cluster usually is.
    Usual,
}

/// A node to ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Where.
    pub(crate) endpoint: Endpoint,
    /// Its name, once it is known.
    pub(crate) name: Option<String>,
}

impl Place {
    /// A place of which only the address is known.
    pub(crate) fn new(endpoint: Endpoint) -> Place {
        Place { endpoint, name: None }
    }

    /// For people: `node-a at 10.0.0.5:7001`, or the address alone.
    pub(crate) fn shown(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} at {}", self.endpoint),
            None => self.endpoint.to_string(),
        }
    }
}

/// The nodes to begin with: `--server`, else the environment, else the usual places.
pub(crate) fn start(flag: &[Endpoint], variable: Option<&str>) -> Result<Start, Failure> {
    let given = |endpoints: Vec<Endpoint>| Start {
        places: endpoints.into_iter().map(Place::new).collect(),
        source: Source::Given,
    };
    if !flag.is_empty() {
        return Ok(given(flag.to_vec()));
    }
    let Some(text) = variable.filter(|text| !text.is_empty()) else {
        let usual = DEFAULT_PORTS.map(|port| Place::new(Endpoint::new(DEFAULT_HOST, port)));
        return Ok(Start { places: usual.to_vec(), source: Source::Usual });
    };
    let endpoints = text.split(',').map(|piece| {
        values::address(piece).map_err(|why| {
            let piece = piece.escape_debug();
            Failure::usage(format!("invalid value '{piece}' in {SERVER_VARIABLE}: {why}"))
        })
    });
    endpoints.collect::<Result<Vec<_>, _>>().map(given)
}

/// Adds the nodes that `status` names to those that are known. A node without a host of its own
/// is where the answer came from.
pub(crate) fn learn(places: &mut Vec<Place>, status: &Status, asked: &Endpoint) {
    for node in &status.nodes {
        let Some(endpoint) = endpoint_of(&node.client, asked) else { continue };
        let name = Some(node.name.clone()).filter(|name| !name.is_empty());
        match places.iter_mut().find(|place| place.endpoint == endpoint) {
            Some(place) => place.name = name,
            None => places.push(Place { endpoint, name }),
        }
    }
}

/// Where a node listens, from its row in an answer of the node at `asked`.
pub(crate) fn endpoint_of(client: &str, asked: &Endpoint) -> Option<Endpoint> {
    let endpoint: Endpoint = client.parse().ok()?;
    let here = endpoint.host.is_empty();
    Some(if here { Endpoint::new(asked.host.clone(), endpoint.port) } else { endpoint })
}

/// What to do after a node gave no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It ends here.
    Stop(Failure),
    /// Ask the next; if there is none, it ends so.
    Ask(Exit),
}

/// What to do after `trouble` with one node.
pub(crate) fn after(request: &Request, trouble: &Trouble) -> Next {
    let unknown = |text: &str| {
        let again = "it is not known whether it was done: give the same command again";
        let failure = Failure::new(Exit::Unfinished, format!("{text}; {again}"));
        Next::Stop(Failure { fate: Fate::AnswerLost, ..failure })
    };
    match (trouble, request.retry()) {
        (Trouble::Judged(Verdict::Stop(exit, text)), _) => {
            Next::Stop(Failure::new(*exit, text.as_str()))
        }
        (Trouble::Judged(Verdict::Elsewhere(exit, text)), Retry::Never) => {
            Next::Stop(Failure::new(*exit, text.as_str()))
        }
        (Trouble::Judged(Verdict::Elsewhere(exit, _)), _) => Next::Ask(*exit),
        (Trouble::Unreached(text), Retry::Never) => {
            Next::Stop(Failure::new(Exit::Unreachable, format!("cannot reach the node: {text}")))
        }
        (Trouble::Unreached(_), _) => Next::Ask(Exit::Unreachable),
        (Trouble::Lost(_) | Trouble::TimedOut(_), _) if !request.is_order() => {
            Next::Ask(Exit::Unreachable)
        }
        (Trouble::Lost(_), Retry::Elsewhere) => Next::Ask(Exit::Unfinished),
        (Trouble::Lost(text) | Trouble::TimedOut(text), _) => unknown(text),
    }
}

/// The end when no node gave an answer: `tried` are places and reasons.
pub(crate) fn nobody(tried: &[(Place, Trouble, Exit)], source: Source) -> Failure {
    let each = reasons(tried);
    let lost = tried.iter().any(|(_, trouble, _)| matches!(trouble, Trouble::Lost(_)));
    if tried.iter().any(|(_, _, exit)| *exit == Exit::Unfinished) {
        let again = if lost {
            "; it is not known whether it was done: give the same command again"
        } else {
            ""
        };
        return Failure::new(Exit::Unfinished, format!("no node could do it: {each}{again}"));
    }
    let hint = match source {
        Source::Usual => "; say where the cluster is: --server HOST:PORT",
        Source::Given => "",
    };
    Failure::new(Exit::Unreachable, format!("cannot reach a node of the cluster: {each}{hint}"))
}

/// Places and reasons; those with the same reason together.
fn reasons(tried: &[(Place, Trouble, Exit)]) -> String {
    let mut reasons: Vec<(String, &str)> = Vec::new();
    for (place, trouble, _) in tried {
        match reasons.iter_mut().find(|(_, why)| *why == trouble.text()) {
            Some((places, _)) => *places = format!("{places}, {}", place.shown()),
            None => reasons.push((place.shown(), trouble.text())),
        }
    }
    let each: Vec<String> =
        reasons.into_iter().map(|(places, why)| format!("{places}: {why}")).collect();
    each.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Order;
    use crate::survey::samples;
    use slots::{NodeId, SlotRanges};

    fn shown(start: &Start) -> Vec<String> {
        start.places.iter().map(Place::shown).collect()
    }

    #[test]
    fn a_flag_goes_before_the_environment_and_that_before_the_usual_places() {
        let flag = [Endpoint::new("a", 1)];
        let start = |flag: &[Endpoint], variable| super::start(flag, variable).expect("a start");
        assert_eq!(shown(&start(&flag, Some("b:2"))), ["a:1"]);
        assert_eq!(shown(&start(&[], Some("b:2,c:3"))), ["b:2", "c:3"]);
        let usual = start(&[], Some(""));
        assert_eq!(shown(&usual), ["127.0.0.1:7001", "127.0.0.1:6379"]);
        assert_eq!((usual.source, start(&[], Some("b:2")).source), (Source::Usual, Source::Given));
        let failure = super::start(&[], Some("b:2,nowhere")).expect_err("no port");
        assert!(failure.text.starts_with("invalid value 'nowhere' in SLOTCTL_SERVER: an address"));
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn nodes_are_learned_once_with_their_names() {
        let asked = Endpoint::new("127.0.0.1", 7001);
        let mut places = vec![Place::new(asked.clone())];
        let mut status = samples::status(0);
        status.nodes[2].client = ":7003".into();
        learn(&mut places, &status, &asked);
        learn(&mut places, &status, &asked);
        let shown: Vec<String> = places.iter().map(Place::shown).collect();
        let c = "node-c at 127.0.0.1:7003";
        assert_eq!(shown, ["node-a at 127.0.0.1:7001", "node-b at 127.0.0.1:7002", c]);
    }

    fn next(request: &Request, trouble: Trouble) -> Result<Exit, (Exit, Fate)> {
        match after(request, &trouble) {
            Next::Ask(exit) => Ok(exit),
            Next::Stop(failure) => Err((failure.exit, failure.fate)),
        }
    }

    #[test]
    fn each_trouble_has_its_next_step() {
        let id = NodeId::from_bytes([1; 20]);
        let assign = Order::Assign { slots: SlotRanges::all(), node: id, seen: 1 };
        let (status, drain) = (Request::Status, Request::Order(Order::Drain(id)));
        let (assign, recover) =
            (Request::Order(assign), Request::Order(Order::Recover { cluster: String::new() }));
        let unreached = || Trouble::Unreached(String::new());
        let lost = || Trouble::Lost(String::new());
        let late = || Trouble::TimedOut(String::new());
        let lost_answer = Err((Exit::Unfinished, Fate::AnswerLost));
        for request in [&status, &drain, &assign] {
            assert_eq!(next(request, unreached()), Ok(Exit::Unreachable));
        }
        assert_eq!(next(&recover, unreached()), Err((Exit::Unreachable, Fate::Known)));
        assert_eq!(next(&status, lost()), Ok(Exit::Unreachable));
        assert_eq!(next(&status, late()), Ok(Exit::Unreachable));
        assert_eq!(next(&drain, lost()), Ok(Exit::Unfinished));
        assert_eq!(next(&drain, late()), lost_answer);
        assert_eq!(next(&assign, lost()), lost_answer);
        assert_eq!(next(&recover, lost()), lost_answer);
        let no_quorum = || Trouble::Judged(Verdict::Elsewhere(Exit::Unfinished, String::new()));
        assert_eq!(next(&drain, no_quorum()), Ok(Exit::Unfinished));
        assert_eq!(next(&recover, no_quorum()), Err((Exit::Unfinished, Fate::Known)));
        let refused = Trouble::Judged(Verdict::Stop(Exit::Refused, String::new()));
        assert_eq!(next(&status, refused), Err((Exit::Refused, Fate::Known)));
    }

    #[test]
    fn the_end_without_an_answer_names_who_was_asked() {
        let place = Place::new(Endpoint::new("h", 1));
        let refused = || Trouble::Unreached("connection refused".into());
        let tried = [(place.clone(), refused(), Exit::Unreachable)];
        let failure = nobody(&tried, Source::Usual);
        assert_eq!(
            (failure.exit, failure.text.as_str()),
            (
                Exit::Unreachable,
                "cannot reach a node of the cluster: h:1: connection refused; say where the \
                 cluster is: --server HOST:PORT"
            )
        );
        let lost = Trouble::Lost("the connection broke".into());
        let tried =
            [(place.clone(), lost, Exit::Unfinished), (place, refused(), Exit::Unreachable)];
        let failure = nobody(&tried, Source::Given);
        assert_eq!(failure.exit, Exit::Unfinished);
        let other = Place { endpoint: Endpoint::new("h", 2), name: Some("b".into()) };
        let both = [tried[1].clone(), (other, refused(), Exit::Unreachable)];
        let text = nobody(&both, Source::Given).text;
        assert!(text.ends_with("cluster: h:1, b at h:2: connection refused"), "{text}");
        assert!(failure.text.contains("not known whether it was done"), "{}", failure.text);
    }
}
