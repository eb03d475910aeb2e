//! What can be wrong with a trace, and where.

use std::fmt;
use std::io;
use std::str::Utf8Error;
use std::time::Duration;

use serde_json::error::Category;

/// A trace that cannot be replayed: `FILE:LINE: what is wrong`.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) file: String,
    /// Counted from 1. None if the file could not even be opened.
    pub(crate) line: Option<u64>,
    pub(crate) fault: Fault,
}

/// What is wrong with a trace.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file cannot be opened or read.
    Unreadable(io::Error),
    /// The compressed stream ends early or is no zstd at all.
    Compression(io::Error),
    /// There is no line.
    Empty,
    /// A line without anything on it.
    EmptyLine,
    /// The JSON of a line ends early.
    CutLine,
    /// Bytes that are no text.
    NotUtf8 { column: usize },
    /// A line is not JSON.
    NotJson(String),
    /// JSON, but a field is missing or is of the wrong type.
    Field(String),
    /// A line of an unknown kind.
    UnknownKind(String),
    /// A watch event of an unknown type.
    UnknownEvent(String),
    /// Something that only makes sense once there has been a list.
    BeforeFirstList(&'static str),
    /// A page that is not the next one of its list.
    PageOutOfSequence { expected: u64, found: u64 },
    /// A line without the resource version that is its purpose.
    NoVersion(&'static str),
    /// A page of another resource version than its list.
    AnotherVersion { list: Box<str>, page: Box<str> },
    /// A list that begins on `since` has no last page.
    MissingLastPage { since: u64 },
    /// A WatchList that was opened on `since` has no bookmark that ends its initial events.
    MissingInitialEventsEnd { since: u64 },
    /// An ERROR before the initial events of the WatchList that was opened on `since` were complete.
    ErrorAmongInitialEvents { since: u64 },
    /// A `watch_open` that asks for no initial events.
    NotAWatchList,
    /// An event of a watch that an ERROR has ended.
    AfterError,
    /// An object without a name or a resource version.
    Incomplete { missing: &'static str },
    /// An ADDED event for an object that is there.
    AlreadyThere(String),
    /// A MODIFIED or DELETED event for an object that is not there.
    NotThere { event: &'static str, key: String },
    /// A key that the final list names twice.
    TwiceInFinal(String),
    /// A line that is earlier than the one before it.
    TimeRunsBackwards { from: Duration, to: Duration },
    /// There is no final list.
    MissingFinal,
    /// Something follows the final list.
    AfterFinal,
}

impl Fault {
    /// For a text that is not JSON: it may also be the start of JSON.
    pub(crate) fn wrong_syntax(error: &serde_json::Error) -> Self {
        match error.classify() {
            Category::Eof => Fault::CutLine,
            _ => Fault::NotJson(format!("{} at column {}", without_position(error), error.column())),
        }
    }

    /// For JSON that is not what it has to be.
    pub(crate) fn wrong_shape(error: &serde_json::Error) -> Self {
        // The position within the line says little about objects of kilobytes; the line's number is told anyway.
        Fault::Field(without_position(error))
    }

    /// A character that only the end of the line cuts short is no worse than JSON that is cut.
    pub(crate) fn not_utf8(error: &Utf8Error) -> Self {
        match error.error_len() {
            None => Fault::CutLine,
            Some(_) => Fault::NotUtf8 { column: error.valid_up_to() + 1 },
        }
    }
}

fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text).to_owned()
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, line, fault } = self;
        match line {
            Some(line) => write!(f, "{file}:{line}: {fault}"),
            None => write!(f, "{file}: {fault}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Fault::Compression(error) => write!(f, "the zstd stream is cut or damaged here: {error}"),
            Fault::Empty => f.write_str("the trace is empty"),
            Fault::EmptyLine => f.write_str("empty line"),
            Fault::CutLine => f.write_str("the line is cut: its JSON is not complete"),
            Fault::NotUtf8 { column } => write!(f, "not UTF-8 at column {column}"),
            Fault::NotJson(why) => write!(f, "not JSON: {why}"),
            Fault::Field(why) => f.write_str(why),
            Fault::UnknownKind(kind) => write!(f, "unknown kind of line {kind:?}"),
            Fault::UnknownEvent(kind) => write!(f, "unknown type of watch event {kind:?}"),
            Fault::BeforeFirstList(what) => write!(f, "{what} before the first list or WatchList"),
            Fault::PageOutOfSequence { expected, found } => {
                write!(f, "page {found} of a list where page {expected} was expected")
            }
            Fault::NoVersion(what) => write!(f, "{what} without resourceVersion"),
            Fault::AnotherVersion { list, page } => {
                write!(f, "page of resource version {page:?} in a list of resource version {list:?}")
            }
            Fault::MissingLastPage { since } => {
                write!(f, "the list that begins on line {since} has no last page")
            }
            Fault::MissingInitialEventsEnd { since } => {
                write!(f, "the WatchList opened on line {since} has no bookmark that ends its initial events")
            }
            Fault::ErrorAmongInitialEvents { since } => {
                write!(f, "ERROR in the WatchList opened on line {since}, before its initial events end")
            }
            Fault::NotAWatchList => f.write_str("watch_open with sendInitialEvents false"),
            Fault::AfterError => f.write_str("event of a watch that an ERROR has ended, without a new list"),
            Fault::Incomplete { missing } => write!(f, "object without {missing}"),
            Fault::AlreadyThere(key) => write!(f, "ADDED names {key:?}, which is there already"),
            Fault::NotThere { event, key } => write!(f, "{event} names {key:?}, which is not there"),
            Fault::TwiceInFinal(key) => write!(f, "final names {key:?} twice"),
            Fault::TimeRunsBackwards { from, to } => {
                write!(f, "time runs backwards, from {} to {} microseconds", from.as_micros(), to.as_micros())
            }
            Fault::MissingFinal => f.write_str("the trace ends here without a final list"),
            Fault::AfterFinal => f.write_str("something follows the final list"),
        }
    }
}

impl std::error::Error for Damage {}

#[cfg(test)]
mod tests {
    use crate::trace::decode;

    /// A list of two pages, a watch that is resumed, one that ends in an error, a WatchList.
    const MINIMAL: [&str; 11] = [
        r#"{"t":1,"kind":"list","page":1,"resourceVersion":"5","items":[{"metadata":{"name":"a","namespace":"n","resourceVersion":"1"}}]}"#,
        r#"{"t":2,"kind":"list","page":2,"resourceVersion":"5","last":true,"items":[{"metadata":{"name":"b","resourceVersion":"2"}}]}"#,
        r#"{"t":3,"kind":"event","type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"6"}}}"#,
        r#"{"t":4,"kind":"watch_closed","reason":"server closed"}"#,
        r#"{"t":5,"kind":"event","type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#,
        r#"{"t":6,"kind":"event","type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}"#,
        r#"{"t":7,"kind":"watch_open","resourceVersion":"","sendInitialEvents":true}"#,
        r#"{"t":8,"kind":"event","type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"8"}}}"#,
        r#"{"t":9,"kind":"event","type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        r#"{"t":9,"kind":"event","type":"DELETED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"10"}}}"#,
        r#"{"kind":"final","resourceVersion":"10","items":[]}"#,
    ];

    #[test]
    fn the_minimal_trace_is_whole() {
        let trace = decode("minimal.jsonl", MINIMAL.join("\n").as_bytes()).unwrap();
        assert_eq!((trace.arrived.resumed, trace.arrived.vanished, trace.arrived.initial), (1, 1, 1));
        let keys: Vec<&str> = trace.keys.iter().map(|key| &**key).collect();
        assert_eq!(keys, ["b", "n/a"]);
    }

    #[test]
    fn a_cut_at_every_byte_is_noticed() {
        let text = MINIMAL.join("\n");
        let text = text.as_bytes();
        for end in 0..text.len() {
            let damage = decode("cut", &text[..end]).expect_err("what is cut is no trace");
            let complete = text[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
            let line = if text[..end].ends_with(b"\n") { complete } else { complete + 1 };
            assert_eq!(damage.line, Some(line.max(1)), "cut after {end} bytes: {damage}");
        }
        assert!(decode("whole", text).is_ok(), "the last line feed may be missing");
    }

    #[test]
    fn every_damage_is_told_with_its_line() {
        // Line to change, what to find there (nothing: the whole line), what to put, line and message expected.
        let cases: &[(usize, &str, &str, u64, &str)] = &[
            (1, "", "hello", 1, "not JSON: expected value at column 1"),
            (1, "", "", 1, "empty line"),
            (3, "", " \r", 3, "empty line"),
            (1, "", "[1,", 1, "the line is cut: its JSON is not complete"),
            (1, "", "[]", 1, "invalid type: sequence, expected a JSON object"),
            (1, "", r#"[1,"list",1,"5",false,[]]"#, 1, "invalid type: sequence, expected a JSON object"),
            (1, "", "7", 1, "invalid type: integer `7`, expected a JSON object"),
            (1, "]}", "", 1, "the line is cut: its JSON is not complete"),
            (3, r#"}}"#, "}", 3, "the line is cut: its JSON is not complete"),
            (3, r#""t":3,"#, r#""t":3,,"#, 3, "not JSON: key must be a string at column 8"),
            (3, r#""kind":"event""#, r#""kind":"evnt""#, 3, "unknown kind of line \"evnt\""),
            (3, r#""kind":"event","#, "", 3, "missing field `kind`"),
            (3, "MODIFIED", "CHANGED", 3, "unknown type of watch event \"CHANGED\""),
            (3, r#""type":"MODIFIED","#, "", 3, "missing field `type`"),
            (3, r#""t":3"#, r#""t":"3""#, 3, "invalid type: string \"3\", expected a whole number"),
            (3, r#""t":3"#, r#""t":-3"#, 3, "invalid type: integer `-3`, expected a whole number"),
            (3, r#""t":3"#, r#""t":1"#, 3, "time runs backwards, from 2 to 1 microseconds"),
            (3, r#""t":3,"#, "", 3, "missing field `t`"),
            (3, r#""metadata":"#, r#""meta":"#, 3, "missing field `metadata`"),
            (3, r#""name":"a","#, "", 3, "object without metadata.name"),
            (3, r#","resourceVersion":"6""#, "", 3, "object without metadata.resourceVersion"),
            (3, r#""name":"a""#, r#""name":7"#, 3, "invalid type: integer `7`, expected a string"),
            (3, r#""name":"a""#, r#""name":"c""#, 3, "MODIFIED names \"n/c\", which is not there"),
            (3, "MODIFIED", "ADDED", 3, "ADDED names \"n/a\", which is there already"),
            (5, r#""resourceVersion":"7""#, "", 5, "object without metadata.resourceVersion"),
            (4, r#","reason":"server closed""#, "", 4, "missing field `reason`"),
            (6, r#","code":410"#, "", 6, "missing field `code`"),
            (6, "410", r#""410""#, 6, "invalid type: string \"410\", expected a whole number"),
            (
                8,
                r#""ADDED","object":{"#,
                r#""ERROR","object":{"code":410,"#,
                8,
                "ERROR in the WatchList opened on line 7, before its initial events end",
            ),
            (7, r#""resourceVersion":"","#, "", 7, "missing field `resourceVersion`"),
            (7, "true", "false", 7, "watch_open with sendInitialEvents false"),
            (10, r#""name":"a""#, r#""name":"c""#, 10, "DELETED names \"n/c\", which is not there"),
            (1, r#""items""#, r#""objects""#, 1, "missing field `items`"),
            (1, r#""page":1"#, r#""page":2"#, 1, "page 2 of a list where page 1 was expected"),
            (2, r#""page":2"#, r#""page":3"#, 2, "page 3 of a list where page 2 was expected"),
            (1, r#""5""#, r#""""#, 1, "page of a list without resourceVersion"),
            (2, r#""5""#, r#""""#, 2, "page of a list without resourceVersion"),
            (2, r#""5""#, r#""6""#, 2, "page of resource version \"6\" in a list of resource version \"5\""),
            (9, r#""9""#, r#""""#, 9, "object without metadata.resourceVersion"),
            (10, r#""10""#, r#""""#, 10, "object without metadata.resourceVersion"),
            (2, r#""last":true,"#, "", 3, "the list that begins on line 1 has no last page"),
            (
                9,
                "initial-events-end",
                "something",
                11,
                "the WatchList opened on line 7 has no bookmark that ends its initial events",
            ),
            (11, r#"[]"#, r#"[["a","1"],["a","2"]]"#, 11, "final names \"a\" twice"),
            (11, r#"[]"#, r#"[["a"]]"#, 11, "invalid length 1, expected a key and its resource version"),
            (
                11,
                r#"[]"#,
                r#"[["a","1",2]]"#,
                11,
                "invalid length 3, expected a key and its resource version",
            ),
            (11, r#"[]"#, r#"[["a",1]]"#, 11, "invalid type: integer `1`, expected a string"),
            (11, r#"[]"#, r#"[{}]"#, 11, "invalid type: map, expected a key and its resource version"),
            (11, r#"[]"#, r#"[["a","1"}]"#, 11, "not JSON: expected `,` or `]` at column 57"),
            (11, r#""10""#, r#""""#, 11, "final without resourceVersion"),
            (
                11,
                r#"[]}"#,
                "[]}\n{\"t\":9,\"kind\":\"watch_closed\",\"reason\":\"\"}",
                12,
                "something follows the final list",
            ),
        ];
        for (line, find, put, damaged, message) in cases {
            let text: Vec<String> = (1..)
                .zip(MINIMAL)
                .map(|(number, text)| match find {
                    _ if number != *line => text.to_owned(),
                    &"" => (*put).to_owned(),
                    find => {
                        assert!(text.contains(find), "{find} is not in line {line}");
                        text.replacen(find, put, 1)
                    }
                })
                .collect();
            expect_damage(&(text.join("\n") + "\n"), *damaged, message);
        }
    }

    #[test]
    fn missing_lines_are_told() {
        // Lines to leave out, line and message expected.
        let cases: &[(&[usize], u64, &str)] = &[
            (&[1], 1, "page 2 of a list where page 1 was expected"),
            (&[1, 2], 1, "event before the first list or WatchList"),
            (&[1, 2, 3], 1, "watch_closed before the first list or WatchList"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1, "final before the first list or WatchList"),
            (&[2], 2, "the list that begins on line 1 has no last page"),
            (&[2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 1, "the list that begins on line 1 has no last page"),
            (&[7], 7, "event of a watch that an ERROR has ended, without a new list"),
            (&[9], 10, "the WatchList opened on line 7 has no bookmark that ends its initial events"),
            (&[9, 10, 11], 8, "the WatchList opened on line 7 has no bookmark that ends its initial events"),
            (&[11], 10, "the trace ends here without a final list"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 1, "the trace is empty"),
        ];
        for (left_out, damaged, message) in cases {
            let kept = (1..).zip(MINIMAL).filter(|(number, _)| !left_out.contains(number));
            let text: String = kept.map(|(_, line)| format!("{line}\n")).collect();
            expect_damage(&text, *damaged, message);
        }
    }

    fn expect_damage(text: &str, line: u64, message: &str) {
        let damage = decode("traces/x.jsonl", text.as_bytes()).expect_err(message);
        assert_eq!(damage.to_string(), format!("traces/x.jsonl:{line}: {message}"));
    }
}
