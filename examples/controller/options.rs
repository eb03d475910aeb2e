//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Replays recorded list and watch traffic of a Kubernetes API server through a delta-fifo queue: one producer
does what a reflector does, several consumers keep an index up to date from what the queue hands them. At the
end everything is compared with the list that the server gave when all was quiet.

Usage: controller [OPTIONS] [TRACE]...

Arguments:
  [TRACE]...           traces to replay, .jsonl or .jsonl.zst [default: three that are part of the program]

Options:
  --queue NAME         the queue to use: sharded or mutex [default: sharded]
  --consumers N        threads that process changes, 1 to 1024 [default: 4]
  --speed X|max        recorded time divided by X, 0.001 to 1000000, or as fast as it goes
                       [default: max]
  --handler-delay D    how long a consumer takes for each key, such as 1ms, 250us or 2s, up to 3600s
                       [default: 0]
  --repeat N           decode once, run N times; every run has to match [default: 1]
  --json               one line of JSON for each trace instead of a table
  --                   everything after it is a trace
  -h, --help           print this

With --repeat, counts are those of the last run, times to the first sync and elapsed times are the medians of
all runs, latencies cover the changes of all runs, violations are added up.

With --json, what does not match is also said on standard error.

Exit status: 0 if everything matches, 1 if anything does not, 2 for a damaged trace, wrong usage, or output
that cannot be written.
";

/// No machine has use for more, and each is a thread.
const MOST_CONSUMERS: u32 = 1024;

/// Within these no recorded time is too long for a clock.
const SPEEDS: RangeInclusive<f64> = 1e-3..=1e6;

/// Longer is no handler, and sums of it have to fit a clock.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// What the user asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Replay(Options),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) queue: QueueKind,
    pub(crate) consumers: NonZeroU32,
    pub(crate) speed: Speed,
    pub(crate) handler_delay: Duration,
    pub(crate) repeat: NonZeroU32,
    pub(crate) json: bool,
    /// Empty: the embedded ones.
    pub(crate) traces: Vec<PathBuf>,
}

/// Which implementation of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Sharded,
    Mutex,
}

/// How fast the producer replays the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// Without a pause.
    Max,
    /// At the recorded moments, this many times faster.
    Times(f64),
}

/// A command line that makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    UnknownOption(String),
    MissingValue(String),
    UnexpectedValue(String),
    BadValue { option: String, value: String, expected: &'static str },
}

impl Default for Options {
    fn default() -> Self {
        Options {
            queue: QueueKind::Sharded,
            consumers: NonZeroU32::new(4).expect("4 is not 0"),
            speed: Speed::Max,
            handler_delay: Duration::ZERO,
            repeat: NonZeroU32::MIN,
            json: false,
            traces: Vec::new(),
        }
    }
}

impl Command {
    /// Reads the arguments, without the program's own name.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut arguments = arguments.into_iter();
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            // A file's name need not be UTF-8, an option is.
            match argument.to_str() {
                Some("--") => {
                    options.traces.extend(arguments.map(PathBuf::from));
                    break;
                }
                Some("-h" | "--help") => return Ok(Command::Help),
                Some(option) if option.starts_with('-') => options.set(option, || arguments.next())?,
                _ => options.traces.push(argument.into()),
            }
        }
        Ok(Command::Replay(options))
    }
}

impl Options {
    /// Takes `--name value` or `--name=value`.
    fn set(&mut self, option: &str, next: impl FnOnce() -> Option<OsString>) -> Result<(), UsageError> {
        let (name, inline) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        if name == "--json" {
            self.json = true;
            return inline.map_or(Ok(()), |_| Err(UsageError::UnexpectedValue(name.to_owned())));
        }
        if !["--queue", "--consumers", "--speed", "--handler-delay", "--repeat"].contains(&name) {
            return Err(UsageError::UnknownOption(name.to_owned()));
        }
        let value = inline
            .or_else(|| next().map(|value| value.to_string_lossy().into_owned()))
            .ok_or_else(|| UsageError::MissingValue(name.to_owned()))?;
        self.set_value(name, &value).map_err(|expected| UsageError::BadValue {
            option: name.to_owned(),
            value,
            expected,
        })
    }

    /// On failure says what would have been right.
    fn set_value(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "--queue" => self.queue = QueueKind::parse(value).ok_or("sharded or mutex")?,
            "--consumers" => {
                let consumers = value.parse().ok().filter(|n: &NonZeroU32| n.get() <= MOST_CONSUMERS);
                self.consumers = consumers.ok_or("a number from 1 to 1024")?;
            }
            "--speed" => self.speed = Speed::parse(value).ok_or("a number from 0.001 to 1000000, or max")?,
            "--handler-delay" => {
                let delay = parse_duration(value).filter(|delay| *delay <= LONGEST_DELAY);
                self.handler_delay = delay.ok_or("a time such as 1ms, 250us or 2s, up to 3600s")?;
            }
            _ => self.repeat = value.parse().map_err(|_| "a number above 0")?,
        }
        Ok(())
    }
}

impl QueueKind {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "sharded" => Some(QueueKind::Sharded),
            "mutex" => Some(QueueKind::Mutex),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            QueueKind::Sharded => "sharded",
            QueueKind::Mutex => "mutex",
        }
    }
}

impl Speed {
    fn parse(value: &str) -> Option<Self> {
        if value == "max" {
            return Some(Speed::Max);
        }
        value.parse().ok().filter(|times| SPEEDS.contains(times)).map(Speed::Times)
    }

    /// When what was recorded at `at` is due, counted from the start of the replay. None: at once.
    pub(crate) fn due(self, at: Duration) -> Option<Duration> {
        match self {
            Speed::Max => None,
            Speed::Times(times) => Some(Duration::from_secs_f64(at.as_secs_f64() / times)),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Max => f.write_str("full speed"),
            Speed::Times(times) => write!(f, "{times} × recorded speed"),
        }
    }
}

/// `250us`, `1ms`, `1.5s`, `0`.
fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::UnknownOption(option) => write!(f, "there is no option {option}"),
            UsageError::MissingValue(option) => write!(f, "{option} needs a value"),
            UsageError::UnexpectedValue(option) => write!(f, "{option} takes no value"),
            UsageError::BadValue { option, value, expected } => {
                write!(f, "{option} takes {expected}, not {value:?}")
            }
        }
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |line: &str| match Command::parse(line.split_whitespace().map(OsString::from)) {
            Ok(Command::Replay(options)) => Ok(options),
            Ok(Command::Help) => panic!("{line}"),
            Err(error) => Err(error),
        };
        assert_eq!(parse(""), Ok(Options::default()));
        let all = parse(
            "--queue mutex --consumers=16 a --speed 2.5 --handler-delay 250us --repeat 20 --json -- --b",
        );
        let expected = Options {
            queue: QueueKind::Mutex,
            consumers: NonZeroU32::new(16).unwrap(),
            speed: Speed::Times(2.5),
            handler_delay: Duration::from_micros(250),
            repeat: NonZeroU32::new(20).unwrap(),
            json: true,
            traces: vec!["a".into(), "--b".into()],
        };
        assert_eq!(all, Ok(expected));
        assert_eq!(parse("--handler-delay 1.5s").unwrap().handler_delay, Duration::from_millis(1500));
        assert_eq!(parse("--handler-delay 3600s").unwrap().handler_delay, LONGEST_DELAY);
        assert_eq!(parse("--handler-delay=1ms").unwrap().handler_delay, Duration::from_millis(1));

        assert_eq!(parse("--nonsense"), Err(UsageError::UnknownOption("--nonsense".to_owned())));
        assert_eq!(parse("--repeat"), Err(UsageError::MissingValue("--repeat".to_owned())));
        assert_eq!(parse("--json=yes"), Err(UsageError::UnexpectedValue("--json".to_owned())));
        for wrong in
            ["--consumers 0", "--consumers 1025", "--consumers x", "--speed 0", "--speed -1", "--speed inf"]
                .into_iter()
                .chain([
                    "--speed nan",
                    "--handler-delay 5",
                    "--handler-delay 5m",
                    "--handler-delay -1ms",
                    "--handler-delay 3601s",
                    "--handler-delay 18000000000000000000s",
                    "--repeat 0",
                ])
        {
            assert!(matches!(parse(wrong), Err(UsageError::BadValue { .. })), "{wrong}");
        }
    }
}
