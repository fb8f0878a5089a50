//! A ledger: accounts, and transfers between them that many threads make at once.
//!
//! * A transfer reads two balances and writes both, and a line of the journal, in one transaction. Transactions are
//!   serializable, so no money is made or lost, and no account falls below its limit, without a lock in sight.
//! * A transfer has an id of its own that the caller chooses: one that is sent twice is found, by its primary key.

use pando::{Database, Error, ErrorKind, Result, Transaction};
use pando_rows::{Row, Table};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "accounts")]
struct Account {
    #[row(key)]
    name: String,
    cents: i64,
    /// How far it may fall below zero.
    limit: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "transfers", index(by_payer = "payer, id"), index(by_payee = "payee, id"))]
struct Transfer {
    #[row(key)]
    id: u64,
    payer: String,
    payee: String,
    cents: i64,
}

struct Ledger {
    db: Database,
    accounts: Table<Account>,
    transfers: Table<Transfer>,
}

impl Ledger {
    fn open(db: Database) -> Result<Self> {
        let (accounts, transfers) = (Table::ensure(&db)?, Table::ensure(&db)?);
        Ok(Ledger { db, accounts, transfers })
    }

    fn account(&self, tx: &Transaction, name: &str) -> Result<Account> {
        let missing = || Error::new(ErrorKind::Missing, format!("there is no account {name:?}"));
        self.accounts.get(tx, name)?.ok_or_else(missing)
    }

    /// Answers whether the money moved; not if the payer's limit forbids it, nor to the payer.
    fn transfer(&self, transfer: &Transfer) -> Result<bool> {
        // One account would be read twice, and written twice.
        if transfer.payer == transfer.payee || transfer.cents < 0 {
            return Ok(false);
        }
        self.db.write(|tx| {
            let mut payer = self.account(tx, &transfer.payer)?;
            let mut payee = self.account(tx, &transfer.payee)?;
            payer.cents -= transfer.cents;
            payee.cents += transfer.cents;
            if payer.cents < -payer.limit {
                return Ok(false);
            }
            self.transfers.insert(tx, transfer)?;
            self.accounts.update(tx, &payer)?;
            self.accounts.update(tx, &payee)?;
            Ok(true)
        })
    }
}

/// Runs the recipe, and asserts what it shows.
pub fn main() -> Result<()> {
    let ledger = Ledger::open(Database::builder().in_memory()?)?;
    let names = ["ann", "bob", "cleo", "dan"];
    ledger.db.write(|tx| {
        let account = |name: &&str| Account { name: name.to_string(), cents: 1000, limit: 0 };
        names.iter().try_for_each(|name| ledger.accounts.insert(tx, &account(name)))
    })?;
    let moved: u64 = std::thread::scope(|scope| {
        let ledger = &ledger;
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                scope.spawn(move || {
                    let transfer = |n: u64| {
                        let (payer, payee) =
                            (names[(n + thread) as usize % 4], names[(n * 7 + 1) as usize % 4]);
                        let (id, cents) = (thread * 1000 + n, 1 + (n * 37 % 400) as i64);
                        let transfer = Transfer { id, payer: payer.into(), payee: payee.into(), cents };
                        u64::from(ledger.transfer(&transfer).expect("no failure but conflicts"))
                    };
                    (0..200).map(transfer).sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread fails")).sum()
    });

    // One snapshot sees all of a moment: what is in the accounts is what the journal says.
    let now = ledger.db.snapshot()?;
    let mut total = 0;
    for account in ledger.accounts.range(&now, ..)? {
        let account = account?;
        let sum = |index: &str| -> Result<i64> {
            ledger
                .transfers
                .by_index(&now, index, &account.name[..])?
                .map(|line| line.map(|line| line.cents))
                .sum()
        };
        assert_eq!(account.cents, 1000 + sum("by_payee")? - sum("by_payer")?);
        assert!(account.cents >= -account.limit, "{account:?}");
        total += account.cents;
    }
    assert_eq!(total, 4000);
    assert_eq!(ledger.transfers.range(&now, ..)?.count() as u64, moved);
    let twice = ledger.transfers.range(&now, ..)?.next().expect("some moved")?;
    // The same again: refused, unless the money is not there now.
    match ledger.transfer(&twice) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Exists),
        Ok(moved) => assert!(!moved),
    }
    println!("{moved} transfers, no cent made or lost");
    Ok(())
}
