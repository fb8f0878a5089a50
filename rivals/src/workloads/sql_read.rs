//! `sql-read`: look-ups by primary key and by index, ranges, joins, an aggregate, on a table of people and one of
//! towns, each query a transaction of its own over one connection. The plan of each must go by the key or the index.

use super::TableJob;
use super::people::People;
use crate::engine::{Outcome, ensure};
use crate::measure::{Row, Stretch};
use crate::records::Random;
use crate::tables::{Base, Cell, Link, Query, RANGE, Table};

const NAME: &str = "sql-read";
const PEOPLE_OF_A_TOWN: u64 = 100;
pub(super) fn run(job: &TableJob<'_>, base: &dyn Base) -> Outcome<Vec<Row>> {
    let count = job.scaled(1_000_000, 2000) / 1000 * 1000;
    let people = People { count, towns: count / PEOPLE_OF_A_TOWN };
    let mut link = base.connect()?;
    let mut rows = vec![load(job, base, &mut *link, &people)?];
    for query in Query::ALL {
        if let Some(plan) = link.plan(query)? {
            let lacks = query.uses().iter().find(|part| !plan.contains(*part));
            ensure(lacks.is_none(), || format!("the plan of {query:?} names no {lacks:?}: {plan}"))?;
        }
        let times = match query {
            Query::Key | Query::Index => job.scaled(200_000, 500),
            Query::Range | Query::Join => job.scaled(20_000, 50),
            Query::Aggregate => job.scaled(5, 1),
        };
        // Once before, so that what is read is in memory on both sides.
        measure(&mut *link, &people, query, times / 10)?;
        rows.push(measure(&mut *link, &people, query, times)?);
    }
    Ok(rows)
}

fn load(job: &TableJob<'_>, base: &dyn Base, link: &mut dyn Link, people: &People) -> Outcome<Row> {
    People::create(link)?;
    let stretch = Stretch::start();
    people.insert(link)?;
    let seconds = stretch.seconds();
    base.settle()?;
    let n = people.count as i64;
    let found = link.count(Table::People)?;
    ensure(found == (people.count, n * (n - 1) / 2), || format!("{found:?} rows and ids instead of {n}"))?;
    let mut row = stretch.row(NAME, "load, two indexes, random ids", 1, people.count, seconds);
    row.settled_seconds = Some(stretch.seconds());
    // An id, a name of 15 bytes, a town and an age.
    Ok(row.space(&job.config.dir, people.count * 39))
}

/// Asks a query so many times at random, and checks the sum of all answers.
fn measure(link: &mut dyn Link, people: &People, query: Query, times: u64) -> Outcome<Row> {
    let mut random = Random::seeded(17);
    let n = people.count;
    let ids: Vec<u64> = (0..times)
        .map(|_| match query {
            Query::Range => random.below(n - RANGE as u64),
            Query::Join => random.below(n / PEOPLE_OF_A_TOWN),
            _ => random.below(n),
        })
        .collect();
    let parameter = |&id: &u64| match query {
        Query::Key | Query::Range => Cell::Int(id as i64),
        Query::Index => Cell::Text(people.name(id)),
        Query::Join => Cell::Text(format!("town {id}")),
        Query::Aggregate => Cell::Int(0),
    };
    let mut parameters = ids.iter().map(parameter).collect::<Vec<_>>().into_iter();
    let (mut sum, mut count) = (0, 0);
    let stretch = Stretch::start();
    link.ask(query, &mut || parameters.next(), &mut |value| (sum, count) = (sum + value, count + 1))?;
    let seconds = stretch.seconds();
    let ages = |ids: &mut dyn Iterator<Item = u64>| ids.map(|id| people.age(id)).sum::<i64>();
    let wanted = |&id: &u64| match query {
        Query::Key | Query::Index => (people.age(id), 1),
        Query::Range => (ages(&mut (id..id + RANGE as u64)), RANGE),
        Query::Join => (ages(&mut (id..n).step_by((n / PEOPLE_OF_A_TOWN) as usize)), PEOPLE_OF_A_TOWN as i64),
        Query::Aggregate => (n as i64, (n / PEOPLE_OF_A_TOWN) as i64),
    };
    let wanted = ids.iter().map(wanted).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    ensure((sum, count) == wanted, || format!("{query:?} answers {sum} in {count} rows, not {wanted:?}"))?;
    Ok(stretch.row(NAME, query.name(), 1, times.max(1), seconds))
}
