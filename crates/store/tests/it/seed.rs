//! The seed of a random test.

/// Prints a seed if the test fails, also where the functions that it calls do not know the seed.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}", self.0);
        }
    }
}
