//! What a figure depends on besides the code: the machine, its load, and how much of it the host took away.

use std::fs;
use std::iter::Peekable;

use serde::{Deserialize, Serialize};

/// What stays the same while the program runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) nproc: usize,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    pub(crate) commit: String,
    /// What was asked of the program, but for where it goes and how much of it there is to be.
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

impl Machine {
    pub(crate) fn detect() -> Self {
        Self {
            nproc: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: cpu_model().unwrap_or_else(unknown),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            rustc: env!("PERF_RUSTC").into(),
            commit: env!("PERF_COMMIT").into(),
            arguments: arguments(
                std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into()).peekable(),
            ),
        }
    }
}

/// Without options that a run which goes on may have otherwise.
fn arguments(mut all: Peekable<impl Iterator<Item = String>>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(argument) = all.next() {
        match &*argument {
            "--resume" | "--time-budget" | "--blocks" => _ = all.next(),
            // Its file may be missing.
            "--json" => _ = all.next_if(|next| !next.starts_with('-')),
            _ if ["--json=", "--resume=", "--time-budget=", "--blocks="]
                .iter()
                .any(|it| argument.starts_with(it)) => {}
            _ => kept.push(argument),
        }
    }
    kept
}

/// What this process has in memory now. `None` where the system does not tell.
pub(crate) fn resident_kib() -> Option<u64> {
    let status = read("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// What others did to the machine meanwhile. Both are `None` where the system does not tell.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Disturbance {
    /// One-minute load averages before and after; the measurement itself is part of the second.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    /// Percent of all processor time that the hypervisor gave to other machines.
    pub(crate) steal_percent: Option<f64>,
    /// Percent of all processor time that other processes used.
    pub(crate) others_percent: Option<f64>,
}

impl Disturbance {
    /// More than this, and threads that should run at once take turns: contention looks better than it is, and the slow
    /// peer may print the better figure.
    const TOLERABLE_PERCENT: f64 = 3.0;

    /// Of a run, if there was one, and of one that went on with it: the worse.
    pub(crate) fn of_both(before: Option<Self>, later: Self) -> Self {
        let Some(before) = before else { return later };
        let worse = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b));
        Self {
            load_before: before.load_before,
            load_after: later.load_after,
            steal_percent: worse(before.steal_percent, later.steal_percent),
            others_percent: worse(before.others_percent, later.others_percent),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let shares = [self.steal_percent, self.others_percent];
        // One share alone may be too much, whatever the other is.
        if shares.iter().flatten().sum::<f64>() > Self::TOLERABLE_PERCENT {
            Verdict::Busy
        } else if shares.contains(&None) {
            Verdict::Unknown
        } else {
            Verdict::Quiet
        }
    }
}

/// Whether the machine was left to the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Quiet,
    Busy,
    /// The system does not tell; that is no sign of quiet.
    Unknown,
}

/// Taken before a measurement; [`Watch::end`] says what happened since.
pub(crate) struct Watch {
    load: Option<f64>,
    ticks: Option<Ticks>,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        Self { load: load_average(), ticks: Ticks::now() }
    }

    pub(crate) fn end(self) -> Disturbance {
        self.now()
    }

    /// What happened until now.
    pub(crate) fn now(&self) -> Disturbance {
        let since = self.ticks.zip(Ticks::now()).and_then(|(before, after)| after.since(before));
        Disturbance {
            load_before: self.load,
            load_after: load_average(),
            steal_percent: since.and_then(|ticks| ticks.percent(ticks.steal)),
            others_percent: since.and_then(|ticks| ticks.percent(ticks.others())),
        }
    }
}

/// Processor time since boot, of all processors together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticks {
    total: u64,
    idle: u64,
    steal: u64,
    /// This process's part, threads that have ended included, and the processes that it has waited for.
    own: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// `all`: first line `cpu user nice system idle iowait irq softirq steal guest guest_nice`, the guests part of user.
    /// `own`: user and system time are fields 14 and 15, those of children 16 and 17; the second is the program's name in
    /// brackets, spaces and all.
    fn parse(all: &str, own: &str) -> Option<Self> {
        let mut fields = all.lines().next()?.split_whitespace();
        if fields.next()? != "cpu" {
            return None;
        }
        let fields: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let own: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            total: fields.iter().sum(),
            idle: fields.get(3)? + fields.get(4)?,
            steal: *fields.get(7)?,
            own: own.get(11..15)?.iter().map(|field| field.parse::<u64>()).sum::<Result<_, _>>().ok()?,
        })
    }

    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            total: self.total.checked_sub(before.total)?,
            idle: self.idle.checked_sub(before.idle)?,
            steal: self.steal.checked_sub(before.steal)?,
            own: self.own.checked_sub(before.own)?,
        })
    }

    fn others(self) -> u64 {
        // The two files are not read at the same moment.
        self.total.saturating_sub(self.idle + self.steal + self.own)
    }

    fn percent(self, ticks: u64) -> Option<f64> {
        (self.total > 0).then(|| 100.0 * ticks as f64 / self.total as f64)
    }
}

fn load_average() -> Option<f64> {
    read("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

fn cpu_model() -> Option<String> {
    let info = read("/proc/cpuinfo")?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn unknown() -> String {
    "unknown".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_all_time() {
        let before = Ticks::parse("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 2 3", &own(1, 2)).unwrap();
        let after = Ticks::parse("cpu  40 0 20 128 2 0 0 10 5 0", &own(15, 8)).unwrap();
        assert_eq!(before, Ticks { total: 100, idle: 80, steal: 0, own: 8 });
        let since = after.since(before).unwrap();
        assert_eq!(since, Ticks { total: 100, idle: 50, steal: 10, own: 20 });
        assert_eq!(since.percent(since.steal), Some(10.0));
        assert_eq!(since.percent(since.others()), Some(20.0));
        assert_eq!(before.since(before).unwrap().percent(0), None);
        assert_eq!(before.since(after), None);
    }

    fn own(user: u64, system: u64) -> String {
        format!("4711 (a (strange) name) R 1 1 1 0 -1 4194304 100 0 0 0 {user} {system} 2 3 20 0 1 0 99 1 1")
    }

    #[test]
    fn what_is_not_a_stat_file_says_nothing() {
        for nonsense in ["", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(Ticks::parse(nonsense, &own(1, 1)), None);
        }
        assert_eq!(Ticks::parse("cpu  10 0 10 80 0 0 0 0 0 0", "4711 (name) R 1"), None);
    }

    #[test]
    fn only_what_was_measured_is_quiet() {
        for (steal_percent, others_percent, verdict) in [
            (Some(1.0), Some(2.0), Verdict::Quiet),
            (Some(2.0), Some(1.5), Verdict::Busy),
            (None, None, Verdict::Unknown),
            (None, Some(0.0), Verdict::Unknown),
            (Some(0.0), None, Verdict::Unknown),
            (None, Some(3.5), Verdict::Busy),
        ] {
            let disturbance =
                Disturbance { load_before: None, load_after: None, steal_percent, others_percent };
            assert_eq!(disturbance.verdict(), verdict, "{disturbance:?}");
        }
    }

    #[test]
    fn whoever_goes_on_is_as_quiet_as_the_less_quiet_part() {
        let of = |load, steal_percent, others_percent| Disturbance {
            load_before: Some(load),
            load_after: Some(load + 1.0),
            steal_percent,
            others_percent,
        };
        let both = |before, later| Disturbance::of_both(Some(before), later);
        let unknown = both(of(1.0, None, Some(0.0)), of(1.0, Some(0.0), Some(0.0)));
        assert_eq!(unknown.verdict(), Verdict::Unknown);
        let both = both(of(1.0, Some(2.0), Some(0.0)), of(5.0, Some(1.0), Some(4.0)));
        assert_eq!((both.load_before, both.load_after), (Some(1.0), Some(6.0)));
        assert_eq!((both.steal_percent, both.others_percent), (Some(2.0), Some(4.0)));
    }

    #[test]
    fn where_it_goes_is_not_what_was_asked_for() {
        let kept = |text: &str| arguments(text.split_whitespace().map(str::to_owned).peekable()).join(" ");
        let all = "trial --json W4 --seed 3 --blocks 5 --time-budget=9 W2 --resume x.json --peers B1 --json";
        assert_eq!(kept(all), "trial --seed 3 W2 --peers B1");
        assert_eq!(kept("trial W4 --json --quick --json=x"), "trial W4 --quick");
    }

    #[test]
    fn this_system_tells() {
        if cfg!(target_os = "linux") {
            assert!(Ticks::now().is_some());
        }
    }
}
