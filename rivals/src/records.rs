//! What is written: every record can be made again from its number, so that answers are checked without a copy.

/// SplitMix64: a bijection of its state, so that different numbers give different keys.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `0..n` in a random order that `seed` decides.
pub fn permutation(n: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..n).collect();
    let mut random = Random::seeded(seed);
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, random.below(i as u64 + 1) as usize);
    }
    numbers
}

/// Record `i` has a key of hashed bytes and a value that begins with `i`.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// Bytes of a key, at least 8.
    pub key_bytes: usize,
    /// Bytes of a value, at least 8.
    pub value_bytes: usize,
}

impl Records {
    /// Makes `key` the key of record `i`.
    #[inline]
    pub fn key(&self, i: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&mix(i).to_be_bytes());
        fill(Random::seeded(i), self.key_bytes, key);
    }

    /// Makes `value` the value of record `i` in its version `version`.
    #[inline]
    pub fn value(&self, i: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&i.to_be_bytes());
        fill(Random::seeded(!i ^ version.rotate_left(32)), self.value_bytes, value);
    }

    /// Whether `value` looks like one of record `i`, by its length and number: cheap enough for a timed loop.
    #[inline]
    pub fn is_value_of(&self, i: u64, value: &[u8]) -> bool {
        value.len() == self.value_bytes && value[..8] == i.to_be_bytes()
    }
}

#[inline]
fn fill(mut random: Random, len: usize, out: &mut Vec<u8>) {
    while out.len() < len {
        let bytes = random.next().to_be_bytes();
        out.extend_from_slice(&bytes[..bytes.len().min(len - out.len())]);
    }
}

/// The zipfian distribution over `0..n`, scrambled so that the frequent numbers lie anywhere.
///
/// Source: Gray and others, "Quickly generating billion-record synthetic databases", 1994, as YCSB uses it.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    theta: f64,
    zeta_n: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// YCSB's constant.
    pub const THETA: f64 = 0.99;

    /// Over `0..n`. Linear in `n`.
    pub fn new(n: u64) -> Self {
        let theta = Self::THETA;
        let zeta = |n: u64| (1..=n).map(|i| 1.0 / (i as f64).powf(theta)).sum::<f64>();
        let zeta_n = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / zeta_n);
        Zipfian { n, theta, zeta_n, alpha: 1.0 / (1.0 - theta), eta }
    }

    /// How frequent the drawn number is: 0 is the most frequent.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta_n;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        ((self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64).min(self.n - 1)
    }

    /// A number of `0..n`, the frequent ones scattered.
    #[inline]
    pub fn scattered(&self, random: &mut Random) -> u64 {
        mix(self.rank(random)) % self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut numbers = permutation(1000, 3);
        assert_ne!(numbers, permutation(1000, 4));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
    }

    #[test]
    fn records_differ_and_are_recognised() {
        let records = Records { key_bytes: 16, value_bytes: 40 };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        records.key(1, &mut a);
        records.key(2, &mut b);
        assert!(a != b && a.len() == 16);
        records.value(7, 3, &mut a);
        assert!(records.is_value_of(7, &a) && !records.is_value_of(8, &a));
    }

    #[test]
    fn zipfian_is_skewed_and_in_range() {
        let zipfian = Zipfian::new(1000);
        let mut random = Random::seeded(5);
        let mut counts = vec![0u32; 1000];
        for _ in 0..100_000 {
            counts[zipfian.rank(&mut random) as usize] += 1;
        }
        // 1 / zeta(1000, 0.99) is 0.131.
        assert!((12_000..14_300).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[1] && counts[1] > counts[10] && counts[10] > counts[500]);
    }
}
