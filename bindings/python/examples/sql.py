"""SQL as a DB-API 2.0 connection."""

import pando
from pando import dbapi


def main() -> None:
    with pando.in_memory() as db, db.sql() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, price REAL)")
        cursor.executemany(
            "INSERT INTO fruit(name, price) VALUES (:name, :price)",
            [{"name": "apple", "price": 0.5}, {"name": "lemon", "price": 0.8}],
        )
        connection.commit()
        for name, price in cursor.execute("SELECT name, price FROM fruit WHERE price > ?", [0.6]):
            print(name, price)
        try:
            cursor.execute("INSERT INTO fruit(name) VALUES ('apple')")
        except dbapi.IntegrityError as error:
            print(error)
            connection.rollback()


if __name__ == "__main__":
    main()
