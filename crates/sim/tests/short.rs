//! A short run of everything, in every test run; the long ones are the binary's.

use sim::explore::{self, Settings};
use sim::faults::{self, Failed};
use sim::rot::{self, Rotted};

#[test]
fn some_seeds_survive_every_crash_and_repeat_themselves() {
    let digest = |threads| {
        let settings = Settings { images_per_event: 1, depth: 3 };
        let (tally, failures) = explore::seeds(1..7, settings, threads, |failure| panic!("{failure}"));
        assert_eq!((tally.seeds, failures), (6, 0));
        assert!(
            tally.distinct() > 100 && tally.seals >= 18 && tally.checkpoints >= 12 && tally.switches >= 6
        );
        tally.digest()
    };
    assert_eq!(digest(1), digest(3), "a seed makes the same images again, whatever is explored beside it");
}

#[test]
fn a_failing_call_costs_no_more_than_it_must() {
    let mut failed = Failed::default();
    faults::seed(1, &mut failed).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(failed.runs > 200 && failed.latched > 20 && failed.small_disks > 10);
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let mut rotted = Rotted::default();
    for seed in 1..=3 {
        rot::seed(seed, 100, &mut rotted).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert!(rotted.refused > 20 && rotted.harmless > 0);
}
