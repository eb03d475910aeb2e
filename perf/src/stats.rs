//! Medians and their bootstrap intervals.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

const RESAMPLES: usize = 4_000;
/// A report of the same samples is the same report.
const SEED: u64 = 0x5eed;

/// A median with the 95 % interval in which resampling puts it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// `None` for no samples at all.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let median = median(samples)?;
        let mut random = SmallRng::seed_from_u64(SEED);
        let mut resample = vec![0.0; samples.len()];
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                resample.fill_with(|| samples[random.random_range(0..samples.len())]);
                median_in_place(&mut resample)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        Some(Self {
            median,
            low: quantile_of_sorted(&medians, 0.025),
            high: quantile_of_sorted(&medians, 0.975),
        })
    }
}

impl Estimate {
    /// Of two medians, set against each other by `ratio`, when the samples are no pairs: each side is resampled for itself. `None`
    /// where a side has no samples, or where there is no ratio.
    pub(crate) fn unpaired(
        one: &[f64],
        other: &[f64],
        ratio: impl Fn(f64, f64) -> Option<f64>,
    ) -> Option<Self> {
        let median = ratio(median(one)?, median(other)?)?;
        let mut random = SmallRng::seed_from_u64(SEED);
        let mut resampled = |samples: &[f64]| {
            let mut resample: Vec<f64> =
                samples.iter().map(|_| samples[random.random_range(0..samples.len())]).collect();
            median_in_place(&mut resample)
        };
        let mut ratios: Vec<f64> =
            (0..RESAMPLES).filter_map(|_| ratio(resampled(one), resampled(other))).collect();
        ratios.sort_by(f64::total_cmp);
        Some(Self {
            median,
            low: quantile_of_sorted(&ratios, 0.025).min(median),
            high: quantile_of_sorted(&ratios, 0.975).max(median),
        })
    }
}

pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| median_in_place(&mut samples.to_vec()))
}

fn median_in_place(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    quantile_of_sorted(samples, 0.5)
}

/// Between two samples the quantile lies on the line that joins them.
fn quantile_of_sorted(sorted: &[f64], quantile: f64) -> f64 {
    let place = quantile * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_few() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn quantiles_interpolate() {
        let sorted = [0.0, 10.0, 20.0, 30.0, 40.0];
        assert_eq!(quantile_of_sorted(&sorted, 0.0), 0.0);
        assert_eq!(quantile_of_sorted(&sorted, 0.125), 5.0);
        assert_eq!(quantile_of_sorted(&sorted, 1.0), 40.0);
    }

    #[test]
    fn equal_samples_leave_no_doubt() {
        assert_eq!(Estimate::of(&[2.0; 7]), Some(Estimate { median: 2.0, low: 2.0, high: 2.0 }));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_more_samples() {
        let few: Vec<f64> = (0..10).map(f64::from).collect();
        let many: Vec<f64> = (0..1_000).map(|i| f64::from(i % 10)).collect();
        let (few, many) = (Estimate::of(&few).unwrap(), Estimate::of(&many).unwrap());
        for estimate in [few, many] {
            assert!(estimate.low <= estimate.median && estimate.median <= estimate.high, "{estimate:?}");
        }
        assert!(many.high - many.low < few.high - few.low);
    }

    /// The promise of the interval: about 95 of 100 such intervals hold the true median.
    #[test]
    fn the_interval_covers_the_truth() {
        let mut random = SmallRng::seed_from_u64(1);
        let covered = (0..200)
            .filter(|_| {
                let samples: Vec<f64> = (0..30).map(|_| random.random::<f64>()).collect();
                let estimate = Estimate::of(&samples).unwrap();
                (estimate.low..=estimate.high).contains(&0.5)
            })
            .count();
        assert!((180..=199).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn unpaired_intervals_hold_one_where_nothing_differs() {
        let samples: Vec<f64> = (0..30).map(|i| 100.0 + f64::from(i * 7 % 13)).collect();
        let rotated: Vec<f64> = samples.iter().cycle().skip(5).take(30).copied().collect();
        let ratio = |a: f64, b: f64| Some(a / b);
        let same = Estimate::unpaired(&samples, &rotated, ratio).unwrap();
        assert!(same.low < 1.0 && same.median == 1.0 && same.high > 1.0, "{same:?}");
        let doubled: Vec<f64> = samples.iter().map(|sample| 2.0 * sample).collect();
        let other = Estimate::unpaired(&doubled, &samples[..7], ratio).unwrap();
        assert!(other.low > 1.8 && other.high < 2.2, "{other:?}");
        assert_eq!(Estimate::unpaired(&[], &samples, ratio), None);
    }

    #[test]
    fn the_same_samples_give_the_same_interval() {
        let samples: Vec<f64> = (0..30).map(|i| f64::from(i * i % 17)).collect();
        assert_eq!(Estimate::of(&samples), Estimate::of(&samples));
    }
}
