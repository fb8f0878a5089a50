//! Random numbers with few frequent values: the zipfian distribution as YCSB draws it.

use base::env::Random;

/// Draws ranks of `0..n`, rank `r` about in proportion to `1 / (r + 1)^0.99`. It uses an approximate inverse of the
/// cumulative distribution (Gray and others, "Quickly Generating Billion-Record Synthetic Databases", 1994).
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    /// The sum of all weights, and the sum of the first two.
    all: f64,
    two: f64,
    eta: f64,
}

/// YCSB's constant.
const THETA: f64 = 0.99;

impl Zipf {
    /// Creates the distribution over `0..n`; `n` is at least 2. O(n).
    pub fn new(n: u64) -> Self {
        let weights = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let (all, two) = (weights(n), weights(2));
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - two / all);
        Zipf { n, all, two, eta }
    }

    /// Draws a rank: 0 is the most frequent.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let part = random.next_u64() as f64 / u64::MAX as f64;
        match part * self.all {
            weight if weight < 1.0 => 0,
            weight if weight < self.two => 1,
            _ => {
                let place = (self.eta * (part - 1.0) + 1.0).powf(1.0 / (1.0 - THETA));
                ((self.n as f64 * place) as u64).min(self.n - 1)
            }
        }
    }

    /// Draws a number of `0..n`. The ranks are scattered, so that frequent numbers are not adjacent.
    pub fn scattered(&self, random: &mut Random) -> u64 {
        Random::seeded(self.rank(random)).next_u64() % self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_the_weights() {
        const DRAWN: u32 = 200_000;
        let (zipf, mut random) = (Zipf::new(1000), Random::seeded(1));
        let mut counts = vec![0_u32; 1000];
        for _ in 0..DRAWN {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        let weights: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-THETA)).sum();
        for (rank, within) in [(0, 0.02), (1, 0.03), (10, 0.25), (100, 0.3)] {
            let expected = f64::from(rank as u32 + 1).powf(-THETA) / weights;
            let found = f64::from(counts[rank]) / f64::from(DRAWN);
            assert!((found / expected - 1.0).abs() < within, "rank {rank}: {found} for {expected}");
        }
        assert!(counts[500..].iter().sum::<u32>() > DRAWN / 25);
        assert!((0..1000).all(|_| zipf.scattered(&mut random) < 1000));
    }
}
