//! What must hold of options as a whole: start, CONFIG GET, SET and REWRITE.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::*;

fn start_with_file(args: &[&str], file: &str) -> Result<Start, StartError> {
    Config::from_args(args.iter().map(OsString::from), |path: &Path| {
        assert_eq!(path, Path::new("node.conf"));
        Ok(file.to_owned())
    })
}

fn start(args: &[&str]) -> Result<Start, StartError> {
    Config::from_args(args.iter().map(OsString::from), |_| {
        Err(io::Error::new(io::ErrorKind::NotFound, "no such file"))
    })
}

fn config(args: &[&str]) -> Arc<Config> {
    start(args).unwrap_or_else(|error| panic!("{error}")).config
}

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<(), String> {
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    config.set(&pairs)
}

fn refused(args: &[&str], want: &str) {
    match start(args) {
        Ok(_) => panic!("{args:?} was accepted"),
        Err(error) => assert_eq!(error.to_string(), want),
    }
}

fn refused_line(file: &str, want: &str) {
    match start_with_file(&["node.conf"], file) {
        Ok(_) => panic!("{file:?} was accepted"),
        Err(error) => assert_eq!(error.to_string(), want),
    }
}

#[test]
fn no_arguments_make_one_node_on_the_usual_port() {
    let start = start(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((start.port, start.cluster_port), (6379, 16379));
    assert_eq!(start.bind, ["127.0.0.1"]);
    assert_eq!(start.dir, Path::new("."));
    assert!(!start.starts_empty);
    assert_eq!(start.config.live().maxclients.load(), 10_000);
    assert!(start.config.live().protected_mode.load());
}

#[test]
fn flags_in_each_spelling() {
    for args in [&["--port", "7001"][..], &["--port=7001"], &["--port 7001"], &["--PORT", "7001"]] {
        assert_eq!(start(args).map(|s| s.port).ok(), Some(7001), "{args:?}");
    }
    let config = config(&["--bind", "10.0.0.1", "::1", "--save", "60", "1", "--save", "5 6"]);
    assert_eq!(config.text("bind"), "10.0.0.1 ::1");
    assert_eq!(config.text("save"), "60 1 5 6");
}

#[test]
fn a_value_may_begin_with_dashes_when_it_names_no_option() {
    let config = config(&["--proc-title-template", "--my--title", "--loglevel", "verbose"]);
    assert_eq!(config.text("proc-title-template"), "--my--title");
    assert_eq!(config.text("loglevel"), "verbose");
}

#[test]
fn save_without_words_means_no_points() {
    for args in [&["--save", "--loglevel", "debug"][..], &["--save", ""], &["--save"]] {
        assert_eq!(config(args).text("save"), "", "{args:?}");
    }
}

#[test]
fn a_wrong_flag_is_one_line_that_names_it() {
    refused(&["--port", "x"], "option 'port': must be between 0 and 65535, got 'x'");
    refused(&["--port", "65536"], "option 'port': must be between 0 and 65535, got '65536'");
    refused(&["--port"], "option 'port': needs a value");
    refused(&["--port", "--loglevel", "debug"], "option 'port': needs a value");
    refused(&["--port", "1", "2"], "option 'port': takes one value, got 2");
    refused(&["--nonsense", "1"], "option 'nonsense': unknown option");
    refused(&["--port", "1", "--"], "unexpected argument '--', expected --option");
    refused(
        &["--maxmemory", "many"],
        "option 'maxmemory': must be a number of bytes such as 1048576, 512kb or 2gb, got 'many'",
    );
    refused(
        &["--loglevel", "loud"],
        "option 'loglevel': must be one of debug, verbose, notice, warning, got 'loud'",
    );
    refused(
        &["--name", "a b"],
        "option 'name': must be up to 64 letters, digits, '-', '_' and '.'",
    );
    refused(&["gone.conf"], "cannot read 'gone.conf': no such file");
}

#[test]
fn a_log_is_switched_on_by_those_who_can_carry_it_out() {
    let config = config(&["--appendonly", "no"]);
    let failed = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - \
        the node was started without what carries this out";
    assert_eq!(set(&config, &[("appendonly", "yes")]), Err(failed.to_owned()));
    assert_eq!(set(&config, &[("appendonly", "no")]), Ok(()));
    assert_eq!(config.text("appendonly"), "no");
}

#[test]
fn the_sample_for_production_is_read_and_logs() {
    let sample = include_str!("../../../docker/slotd.conf");
    let start = Config::from_args(["slotd.conf"].into_iter(), |_| Ok(sample.to_owned()));
    let start = start.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(start.config.text("appendonly"), "yes");
    assert!(start.starts_empty);
}

#[test]
fn ports_too_high_need_a_cluster_port() {
    assert_eq!(start(&["--port", "55535"]).map(|s| s.cluster_port).ok(), Some(65535));
    refused(
        &["--port", "55536"],
        "option 'cluster-port': must be given when port is above 55535, got port 55536",
    );
    let args = ["--port", "60000", "--cluster-port", "7000"];
    assert_eq!(start(&args).map(|s| s.cluster_port).ok(), Some(7000));
}

#[test]
fn a_file_is_overruled_by_flags() {
    let file = "# a comment\n\n  PORT 7001\r\nrequirepass \"a b\\x41\"\nlogfile ''\nsave 900 1\n\
                lua-replicate-commands yes\nclient-output-buffer-limit replica 1mb 2mb 3\n";
    let start = start_with_file(&["node.conf", "--port", "7002", "--save", "60 5"], file);
    let start = start.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(start.port, 7002);
    assert_eq!(start.file.as_deref(), Some(Path::new("node.conf")));
    let config = start.config;
    assert_eq!(config.text("requirepass"), "a bA");
    assert_eq!(config.text("logfile"), "");
    assert_eq!(config.text("save"), "900 1 60 5");
    assert_eq!(config.live().output_replica.load().soft_bytes, 2 << 20);
    assert_eq!(config.live().output_pubsub.load().hard_bytes, 32 << 20);
}

#[test]
fn a_wrong_line_is_named_by_its_number() {
    refused_line("port 1\n\nbogus 5", "node.conf, line 3: option 'bogus': unknown option");
    refused_line(
        "port x",
        "node.conf, line 1: option 'port': must be between 0 and 65535, got 'x'",
    );
    refused_line("port \"1", "node.conf, line 1: unbalanced quotes in 'port \"1'");
    refused_line(
        "include other.conf",
        "node.conf, line 1: option 'include': not supported: put all options into one file",
    );
    refused_line("port", "node.conf, line 1: option 'port': needs a value");
}

#[test]
fn passwords_are_not_in_errors() {
    refused(&["--requirepass", "a", "b"], "option 'requirepass': takes one value, got 2");
    assert!(is_secret(b"RequirePass") && is_secret(b"masterauth") && !is_secret(b"port"));
}

#[test]
fn a_cluster_secret_is_never_shown() {
    let set = config(&["--cluster-secret", "s3cret"]);
    assert_eq!(set.text("cluster-secret"), "s3cret");
    assert_eq!(set.get("cluster-secre*"), [("cluster-secret", "(hidden)".to_owned())]);
    assert_eq!(config(&[]).get("cluster-secret"), [("cluster-secret", String::new())]);
    refused(&["--cluster-secret", "a", "b"], "option 'cluster-secret': takes one value, got 2");
}

#[test]
fn get_answers_to_patterns_and_aliases() {
    let config = config(&[]);
    let names = |pattern: &str| -> Vec<&str> {
        config.get(pattern).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("*of"), ["replicaof", "slaveof"]);
    assert_eq!(names("hash-max-ziplist-entries"), ["hash-max-ziplist-entries"]);
    assert_eq!(names("PORT"), ["port"]);
    assert!(names("nonsense").is_empty());
    assert!(!names("*").contains(&"key-load-delay"));
    assert_eq!(names("key-load-delay"), ["key-load-delay"]);
    let found = config.get_all(&["maxmemory", "maxmemory*", "bind"]);
    assert_eq!(found.iter().filter(|(name, _)| *name == "maxmemory").count(), 1);
    assert!(found.iter().any(|(name, _)| *name == "bind"));
}

#[test]
fn every_runtime_option_can_be_set_to_what_it_is() {
    let config = config(&[]);
    for declaration in options::all().filter(|d| d.change != Change::Startup) {
        if declaration.change == Change::Protected {
            continue;
        }
        let text = config.text(declaration.name);
        assert_eq!(set(&config, &[(declaration.name, &text)]), Ok(()), "{}", declaration.name);
        assert_eq!(config.text(declaration.name), text);
    }
}

#[test]
fn a_refused_set_changes_nothing() {
    let config = config(&["--maxmemory", "10"]);
    let pairs =
        [("maxmemory", "11"), ("maxmemory-clients", "200%"), ("client-query-buffer-limit", "?")];
    assert_eq!(
        set(&config, &pairs),
        Err("ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
             percentage argument must be less or equal to 100"
            .into())
    );
    assert_eq!(config.text("maxmemory"), "10");
    assert_eq!(config.live().maxmemory.load(), 10);
    assert_eq!(config.live().revision(), 0);
}

#[test]
fn several_options_are_set_together() {
    let config = config(&[]);
    let pairs = [("maxmemory", "10mb"), ("hash-max-ziplist-value", "7"), ("save", "3000 5")];
    assert_eq!(set(&config, &pairs), Ok(()));
    assert_eq!(config.text("maxmemory"), "10485760");
    assert_eq!(config.live().limits.hash_max_value.load(), 7);
    assert_eq!(config.text("hash-max-listpack-value"), "7");
    assert_eq!(config.text("save"), "3000 5");
    assert_eq!(set(&config, &[("save", "")]), Ok(()));
    assert_eq!(config.text("save"), "");
    assert_eq!(config.live().revision(), 2);
}

#[test]
fn set_refuses_in_the_words_of_redis() {
    let config = config(&[]);
    for (pairs, want) in [
        (
            &[("maxmemory", "1"), ("foo", "1")][..],
            "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
        ),
        (
            &[("maxmemory", "1"), ("MAXMEMORY", "2")],
            "ERR CONFIG SET failed (possibly related to argument 'MAXMEMORY') - \
             duplicate parameter",
        ),
        (
            &[("hash-max-ziplist-value", "1"), ("hash-max-listpack-value", "2")],
            "ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-value') - \
             duplicate parameter",
        ),
        (
            &[("daemonize", "yes")],
            "ERR CONFIG SET failed (possibly related to argument 'daemonize') - \
             can't set immutable config",
        ),
        (
            &[("dbfilename", "x")],
            "ERR CONFIG SET failed (possibly related to argument 'dbfilename') - \
             can't set protected config",
        ),
        (
            &[("maxmemory", "bla")],
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - \
             argument must be a memory value",
        ),
        (
            &[("timeout", "x")],
            "ERR CONFIG SET failed (possibly related to argument 'timeout') - \
             argument couldn't be parsed into an integer",
        ),
        (
            &[("port", "7777")],
            "ERR CONFIG SET failed (possibly related to argument 'port') - \
             Unable to listen on this port. Check server logs.",
        ),
    ] {
        assert_eq!(set(&config, pairs), Err(want.into()), "{pairs:?}");
    }
    assert!(config.set(&[(b"requirepass", b"\xff")]).is_err());
}

#[test]
fn an_edge_that_refuses_takes_back_what_others_did() {
    let config = config(&[]);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    config.carried_out_by(Arc::new(move |name, value| {
        seen.lock().push(format!("{name} {value}"));
        match (name, value) {
            ("port", "1") => Applied::Refused("Unable to listen on this port.".into()),
            ("port" | "loglevel", _) => Applied::Done,
            _ => Applied::NotMine,
        }
    }));
    let pairs = [("maxmemory", "5"), ("loglevel", "debug"), ("port", "1")];
    let error = set(&config, &pairs).unwrap_err();
    assert!(error.ends_with("'port') - Unable to listen on this port."), "{error}");
    let want = ["maxmemory 5", "loglevel debug", "port 1", "loglevel notice"];
    assert_eq!(*calls.lock(), want);
    assert_eq!((config.number("maxmemory"), config.number("port")), (0, 6379));
    assert_eq!(set(&config, &[("port", "2")]), Ok(()));
    assert_eq!(config.number("port"), 2);
}

#[test]
fn what_an_edge_resolved_is_shown_but_not_written() {
    let config = config(&[]);
    config.resolve("threads", "4");
    assert_eq!(config.get("io-threads"), [("io-threads", "4".to_owned())]);
    assert_eq!(config.rewrite(""), "");
}

#[test]
fn rewrite_keeps_comments_and_order() {
    let old = "# my node\nport 7001\n\n\nhash-max-ziplist-entries 20\n# tail\nsave 1 2\nsave 3 4\n\
               mystery 5\ntimeout 9\n";
    let config = start_with_file(&["node.conf"], &old.replace("mystery 5\n", ""));
    let config = config.unwrap_or_else(|error| panic!("{error}")).config;
    let pairs = [
        ("hash-max-listpack-entries", "100"),
        ("save", "5 6"),
        ("maxmemory", "2gb"),
        ("requirepass", "it's \"q\""),
        ("timeout", "0"),
        ("client-output-buffer-limit", "pubsub 1 2 3"),
        ("shutdown-on-sigterm", "nosave now"),
    ];
    assert_eq!(set(&config, &pairs), Ok(()));
    assert_eq!(
        config.rewrite(old),
        "# my node\nport 7001\n\nhash-max-listpack-entries 100\n# tail\nsave 5 6\n\
         # ??? mystery 5\ntimeout 0\n\
         # Generated by CONFIG REWRITE\n\
         requirepass \"it's \\\"q\\\"\"\n\
         client-output-buffer-limit pubsub 1 2 3\n\
         maxmemory 2gb\n\
         shutdown-on-sigterm nosave now\n"
    );
}

#[test]
fn a_rewritten_file_gives_the_same_options() {
    let before =
        config(&["--save", "1", "2", "3", "4", "--port", "7001", "--unixsocketperm", "700"]);
    let pairs = [("latency-tracking-info-percentiles", ""), ("maxmemory-clients", "5%")];
    assert_eq!(set(&before, &pairs), Ok(()));
    for text in
        [before.rewrite(""), before.rewrite_all(""), before.rewrite(&before.rewrite_all(""))]
    {
        let after = start_with_file(&["node.conf"], &text);
        let after = after.unwrap_or_else(|error| panic!("{error}\n{text}")).config;
        for declaration in options::all() {
            let name = declaration.name;
            assert_eq!(after.text(name), before.text(name), "{name}\n{text}");
        }
    }
}

/// A node started without a file, in `data`, where this is kept.
fn start_with_kept(args: &[&str], kept: &str) -> Result<Start, StartError> {
    Config::from_args(args.iter().map(OsString::from), |path: &Path| {
        assert_eq!(path, Path::new("data/slotd.conf"));
        Ok(kept.to_owned())
    })
}

#[test]
fn what_was_kept_is_read_again_and_flags_overrule_it() {
    let before = config(&["--dir", "data", "--port", "7001", "--timeout", "5"]);
    assert_eq!(before.kept_file(), Path::new("data/slotd.conf"));
    assert_eq!(set(&before, &[("cluster-node-timeout", "5000"), ("save", "60 1")]), Ok(()));
    let kept = before.rewrite_kept("# mine\n");
    let wanted = "# mine\n# Generated by CONFIG REWRITE\ntimeout 5\nsave 60 1\n\
                  cluster-node-timeout 5000\n";
    assert_eq!(kept, wanted);

    let args = ["--dir", "data", "--timeout", "9", "--save", "7 8"];
    let start = start_with_kept(&args, &kept).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((start.file, start.kept.as_deref()), (None, Some(Path::new("data/slotd.conf"))));
    let options = ["cluster-node-timeout", "timeout", "save", "port"];
    assert_eq!(options.map(|name| start.config.text(name)), ["5000", "9", "7 8", "6379"]);
    // A value that is the default again is named as such: the line was there.
    assert_eq!(set(&start.config, &[("timeout", "0")]), Ok(()));
    let again = start.config.rewrite_kept(&kept);
    assert!(again.contains("cluster-node-timeout 5000\n") && again.contains("timeout 0\n"));
}

#[test]
fn what_was_kept_names_no_other_folder_and_its_mistakes_have_a_line() {
    let told = |kept: &str| match start_with_kept(&["--dir", "data"], kept) {
        Ok(_) => panic!("{kept:?} was accepted"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        told("timeout 1\nDIR /elsewhere\n"),
        "data/slotd.conf, line 2: option 'dir': is given on the command line only: this file lies \
         in the data directory"
    );
    assert_eq!(told("# x\nnosuch 1\n"), "data/slotd.conf, line 2: option 'nosuch': unknown option");
    let broken = |_: &Path| Err(io::Error::other("a broken disk"));
    let error = Config::from_args(["--dir", "data"].into_iter(), broken).err().expect("refused");
    assert_eq!(error.to_string(), "cannot read 'data/slotd.conf': a broken disk");
}

#[test]
fn a_file_that_is_named_is_the_only_one() {
    let start = start_with_file(&["node.conf", "--dir", "data"], "timeout 3\n");
    assert_eq!(start.map(|start| start.kept).unwrap_or_else(|error| panic!("{error}")), None);
}

#[test]
fn the_manual_is_made_from_the_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manual/options.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, docs()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == docs(), "options.md is old: run the tests with UPDATE_EXPECT=1");
}

#[test]
fn help_names_what_works() {
    let text = help();
    assert!(text.contains("--port "));
    assert!(!text.contains("--daemonize"));
}
