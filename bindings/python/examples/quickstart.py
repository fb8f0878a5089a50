"""Tables, transactions and ranges."""

import tempfile

import pando


def main(path: str) -> None:
    with pando.create(path) as db:
        # A table is a MutableMapping in key order. Each assignment is a durable transaction.
        fruit = db.table("fruit", key=str, value=str)
        fruit["apple"] = "red"
        fruit["lemon"] = "yellow"

        # A transaction commits at the end of the block, and rolls back after an exception.
        with db.write() as tx:
            inside = tx[fruit]
            inside["plum"] = "blue"
            del inside["lemon"]

        for name, colour in fruit.range("a", "m"):
            print(name, colour)
        print(list(fruit.range_keys(prefix="p")), fruit.get("lemon", "none"))

        # A function that is run again after a conflict.
        counts = db.table("counts", key=str, value="json")

        def visit(tx: pando.Transaction) -> int:
            visits: int = tx[counts].get("visits", 0) + 1
            tx[counts]["visits"] = visits
            return visits

        print("visits:", db.transact(visit))

        # A snapshot does not see later changes.
        with db.snapshot() as snapshot:
            fruit["fig"] = "green"
            print("fig" in snapshot[fruit], "fig" in fruit)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
