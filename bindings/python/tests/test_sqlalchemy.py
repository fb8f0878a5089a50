"""The dialect of SQLAlchemy: engines, sharing, refusals. SQLAlchemy's own suite is in sqlalchemy_suite."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import pando

sqlalchemy = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")
sqlalchemy.dialects.registry.register("pando", "pando.sqlalchemy", "PandoDialect")


def engine(path: Path, **options: Any) -> Any:
    return sqlalchemy.create_engine(f"pando:///{path}?durability=buffered&memory_bytes={32 << 20}", **options)


def models() -> tuple[Any, Any, Any]:
    base = orm.declarative_base()

    class Person(base):  # type: ignore[misc, valid-type]
        __tablename__ = "person"
        id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
        name = sqlalchemy.Column(sqlalchemy.String(20), unique=True, nullable=False)
        born = sqlalchemy.Column(sqlalchemy.DateTime)
        pets = orm.relationship("Pet", back_populates="owner")

    class Pet(base):  # type: ignore[misc, valid-type]
        __tablename__ = "pet"
        id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
        owner_id = sqlalchemy.Column(sqlalchemy.ForeignKey("person.id"), index=True)
        owner = orm.relationship("Person", back_populates="pets")

    return base, Person, Pet


def test_models(tmp_path: Path) -> None:
    base, person, pet = models()
    born = datetime.datetime(2000, 2, 29, 12, 30, 0, 5)
    first = engine(tmp_path / "db", ignore_foreign_keys=True)
    base.metadata.create_all(first)
    base.metadata.create_all(first)
    with orm.Session(first) as session:
        session.add(person(name="Ann", born=born, pets=[pet(), pet()]))
        session.commit()
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            session.execute(sqlalchemy.insert(person).values(name="Ann"))
        session.rollback()
        found = session.scalars(sqlalchemy.select(person)).one()
        assert found.born == born and len(found.pets) == 2
    # Another engine of the process shares the open database; the last connection closes it.
    second = engine(tmp_path / "db")
    with second.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT count(*) FROM pet")) == 2
        with pytest.raises(pando.LockedError):
            pando.open(tmp_path / "db")
        with pytest.raises(sqlalchemy.exc.InterfaceError, match="same ones"):
            sqlalchemy.create_engine(f"pando:///{tmp_path / 'db'}").connect()
    inspector = sqlalchemy.inspect(second)
    assert [column["name"] for column in inspector.get_columns("person")] == ["id", "name", "born"]
    assert [index["column_names"] for index in inspector.get_indexes("pet")] == [["owner_id"]]
    first.dispose()
    second.dispose()
    with pando.open(tmp_path / "db") as db:
        assert db.tables()


def test_foreign_keys_are_enforced_unless_they_are_ignored(tmp_path: Path) -> None:
    base, _, pet = models()
    for ignored in (False, True):
        one = engine(tmp_path / f"db{ignored}", ignore_foreign_keys=ignored)
        base.metadata.create_all(one)
        with orm.Session(one) as session:
            session.add(pet(owner_id=7))
            if ignored:
                session.commit()
            else:
                with pytest.raises(sqlalchemy.exc.IntegrityError, match="FOREIGN KEY"):
                    session.commit()
        one.dispose()


def test_isolation_and_conflicts(tmp_path: Path) -> None:
    one = engine(tmp_path / "db")
    text = sqlalchemy.text
    with one.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)"))
        connection.execute(text("INSERT INTO t VALUES (1, 0)"))
    with one.connect() as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
        connection.execute(text("UPDATE t SET n = 7"))
    with one.connect() as connection:
        assert connection.scalar(text("SELECT n FROM t")) == 0, "what was not committed is rolled back"

    def count_up() -> None:
        for _ in range(25):
            while True:
                try:
                    with one.begin() as connection:
                        seen = connection.scalar(text("SELECT n FROM t"))
                        connection.execute(text("UPDATE t SET n = :n"), {"n": seen + 1})
                    break
                except sqlalchemy.exc.OperationalError as error:
                    assert isinstance(error.orig, pando.dbapi.SqlConflictError)

    threads = [threading.Thread(target=count_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with one.connect() as connection:
        assert connection.scalar(text("SELECT n FROM t")) == 75
    with pytest.raises(sqlalchemy.exc.ArgumentError):
        one.connect().execution_options(isolation_level="READ COMMITTED")
    one.dispose()


def test_in_memory_and_wrong_urls() -> None:
    text = sqlalchemy.text
    one, other = sqlalchemy.create_engine("pando://"), sqlalchemy.create_engine("pando://")
    with one.begin() as connection:
        connection.execute(text("CREATE TABLE t(id INTEGER PRIMARY KEY)"))
    one.dispose()
    assert sqlalchemy.inspect(one).get_table_names() == ["t"] and sqlalchemy.inspect(other).get_table_names() == []
    with pytest.raises(ValueError, match="host"):
        sqlalchemy.create_engine("pando://shop/db").connect()
    with pytest.raises(TypeError, match="no option"):
        sqlalchemy.create_engine("pando:///db?colour=red").connect()


def test_a_nested_transaction_comes_first(tmp_path: Path) -> None:
    base, person, _ = models()
    one = engine(tmp_path / "db", ignore_foreign_keys=True)
    base.metadata.create_all(one)
    count = sqlalchemy.select(sqlalchemy.func.count()).select_from(person)
    with orm.Session(one) as session:
        with session.begin_nested():
            session.add(person(name="Ann"))
        session.rollback()
        assert session.scalar(count) == 0
        with session.begin_nested() as inner:
            session.add(person(name="Bob"))
            session.flush()
            inner.rollback()
        session.add(person(name="Cat"))
        session.commit()
        assert session.scalars(sqlalchemy.select(person.name)).all() == ["Cat"]
    one.dispose()


def test_options_of_the_url(tmp_path: Path) -> None:
    text = sqlalchemy.text
    path = tmp_path / "db"
    with pytest.raises(pando.MissingError):
        sqlalchemy.create_engine(f"pando:///{path}?read_only=on").connect()
    assert not path.exists()
    one = engine(path)
    with one.begin() as connection:
        connection.execute(text("CREATE TABLE t(id INTEGER PRIMARY KEY)"))
    one.dispose()
    for word in ("true", "yes", "on", "1"):
        reader = sqlalchemy.create_engine(f"pando:///{path}?read_only={word}")
        with reader.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM t")) == 0
            with pytest.raises(sqlalchemy.exc.DBAPIError, match="read-only|readonly"):
                connection.execute(text("INSERT INTO t VALUES (1)"))
        reader.dispose()
    writer = sqlalchemy.create_engine(f"pando:///{path}?read_only=off&isolation=serializable")
    with writer.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
    writer.dispose()
    for query in ("read_only=True", "read_only=maybe", "read_only=true&read_only=true", "isolation=snapshot"):
        with pytest.raises(ValueError, match="read_only|isolation"):
            sqlalchemy.create_engine(f"pando:///{path}?{query}").connect()
    with pytest.raises(ValueError, match="isolation"):
        sqlalchemy.create_engine(f"pando:///{path}", connect_args={"isolation": "snapshot"}).connect()


def test_a_failed_close_is_the_end_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine(tmp_path / "db")
    close = pando.Database.close

    def fail(db: pando.Database) -> None:
        close(db)
        raise pando.FullError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(pando.Database, "close", fail)
        one.connect().close()
        one.dispose()
    with one.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    one.dispose()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_opens_the_directory_itself(tmp_path: Path) -> None:
    code = f"""
import os, sqlalchemy
sqlalchemy.dialects.registry.register("pando", "pando.sqlalchemy", "PandoDialect")
one = sqlalchemy.create_engine("pando:///{tmp_path / 'db'}?durability=buffered")
text = sqlalchemy.text
with one.begin() as connection:
    connection.execute(text("CREATE TABLE t(id INTEGER PRIMARY KEY)"))
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    os.read(reads, 1)
    one.dispose(close=False)
    with one.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
    one.dispose()
    os._exit(0)
one.dispose()
os.write(writes, b"x")
_, status = os.waitpid(child, 0)
assert status == 0, status
with one.connect() as connection:
    assert connection.scalar(text("SELECT count(*) FROM t")) == 1
one.dispose()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
