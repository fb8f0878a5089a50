"""Rows of a dataclass, an index, and a follower of the changes."""

import datetime
import tempfile
from dataclasses import dataclass, replace
from typing import Optional

import pando


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    placed: datetime.datetime
    shipped: Optional[datetime.datetime] = None


def main(path: str) -> None:
    with pando.create(path) as db:
        orders = db.typed(Order, key="id", indexes={"by_customer": "customer, placed desc"})
        mails = db.consumer("mails")

        noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
        orders.insert_many(Order(number, name, noon) for number, name in enumerate(["Ann", "Bob", "Ann"]))
        print([order.id for order in orders.scan(prefix="Ann", index="by_customer")])

        with db.write() as tx:
            first = tx[orders].get(0)
            assert first is not None
            tx[orders].update(replace(first, shipped=noon + datetime.timedelta(hours=5)))

        # A consumer sees every commit once, and again after a restart what it has not acknowledged.
        changes = mails.changes()
        while change := changes.next(timeout=0):
            print("commit", change.commit_number, "with", len(change.operations), "operations")
            mails.acknowledge(change)

        # The same rows for pandas, polars, DuckDB or pyarrow.
        print(orders.arrow().column_names)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
