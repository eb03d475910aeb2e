//! From values to places on an axis.

use crate::stats::Estimate;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Scale {
    /// Holds all intervals, from one round number to another. `None` for no values, and where one is not above zero.
    pub(crate) fn logarithmic(values: impl IntoIterator<Item = Estimate>, also: Option<f64>) -> Option<Self> {
        let values = values.into_iter().flat_map(|it| [it.low, it.high]).chain(also);
        let (least, most) = extremes(values)?;
        if least <= 0.0 {
            return None;
        }
        let round: Vec<f64> = (least.log10().floor() as i32..=most.log10().floor() as i32 + 1)
            .flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(exponent)))
            .collect();
        // What lies on a tick stays inside in spite of rounding.
        let first = round.iter().rposition(|&tick| tick <= least * 1.000_001).unwrap_or(0);
        let last = round.iter().position(|&tick| tick >= most / 1.000_001).unwrap_or(round.len() - 1);
        let last = last.max(first + 1).min(round.len() - 1);
        let mut ticks = round[first..=last].to_vec();
        if ticks.len() > 8 {
            let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
            ticks = decades.map(|exponent| 10f64.powi(exponent)).collect();
        }
        Some(Self { is_log: true, low: ticks[0], high: *ticks.last()?, ticks })
    }

    /// From zero to a round number. `None` for no values.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = Estimate>) -> Option<Self> {
        let (least, most) = extremes(values.into_iter().flat_map(|it| [it.low, it.high]))?;
        let (least, most) = (least.min(0.0), if most <= 0.0 { 1.0 } else { most });
        let rough = (most - least) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0) * power;
        let (first, last) = ((least / step).floor() as i64, (most / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|number| number as f64 * step).collect();
        Some(Self { is_log: false, low: ticks[0], high: *ticks.last()?, ticks })
    }

    /// These numbers, which are the ticks. They are above zero, in ascending order.
    pub(crate) fn of_numbers(numbers: &[f64]) -> Self {
        let (low, high) = (numbers.first().copied().unwrap_or(1.0), numbers.last().copied().unwrap_or(1.0));
        Self { is_log: true, low, high, ticks: numbers.to_vec() }
    }

    /// 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.low == self.high {
            return 0.5;
        }
        let along = |value: f64| if self.is_log { value.ln() } else { value };
        (along(value) - along(self.low)) / (along(self.high) - along(self.low))
    }

    pub(crate) fn is_linear(&self) -> bool {
        !self.is_log
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |extremes, value| match extremes {
        None => Some((value, value)),
        Some((least, most)) => Some((least.min(value), most.max(value))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(values: &[f64]) -> Vec<Estimate> {
        values.iter().map(|&median| Estimate { median, low: median, high: median }).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let scale = Scale::logarithmic(over(&[0.7, 3.0]), Some(1.0)).unwrap();
        assert_eq!(scale.ticks, [0.5, 1.0, 2.0, 5.0]);
        let scale = Scale::logarithmic(over(&[150.0, 3e6]), None).unwrap();
        assert_eq!(scale.ticks, [1e2, 1e3, 1e4, 1e5, 1e6, 1e7]);
        assert_eq!((scale.place(1e2), scale.place(1e7)), (0.0, 1.0));
        for one in [1.0, 7.0, 1000.0, 0.001] {
            let scale = Scale::logarithmic(over(&[one]), None).unwrap();
            assert!((0.0..=1.0).contains(&scale.place(one)) && scale.ticks.len() > 1, "{scale:?}");
        }
        let scale = Scale::from_zero(over(&[128.0, 41.0])).unwrap();
        assert_eq!(
            (scale.ticks.first(), scale.ticks.last(), scale.ticks.len()),
            (Some(&0.0), Some(&150.0), 4)
        );
        assert_eq!(Scale::from_zero(over(&[0.0])).unwrap().place(0.0), 0.0);
    }

    #[test]
    fn a_logarithm_needs_values_above_zero() {
        assert_eq!(Scale::logarithmic(over(&[0.0, 1.0]), None), None);
        assert_eq!(Scale::logarithmic([], None), None);
        assert_eq!(Scale::from_zero([]), None);
    }
}
