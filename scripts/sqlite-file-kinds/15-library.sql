-- A library of books such as calibre's: triggers and views with functions that only the program has.
PRAGMA user_version = 26;
CREATE TABLE books ( id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL DEFAULT 'Unknown' COLLATE NOCASE, sort TEXT COLLATE NOCASE,
  timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, series_index REAL NOT NULL DEFAULT 1.0, author_sort TEXT COLLATE NOCASE, uuid TEXT,
  has_cover BOOL DEFAULT 0, last_modified TIMESTAMP NOT NULL DEFAULT "2000-01-01 00:00:00+00:00");
CREATE TABLE authors ( id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE, sort TEXT COLLATE NOCASE, link TEXT NOT NULL DEFAULT "", UNIQUE(name));
CREATE TABLE books_authors_link ( id INTEGER PRIMARY KEY, book INTEGER NOT NULL, author INTEGER NOT NULL, UNIQUE(book, author));
CREATE INDEX books_idx ON books (sort COLLATE NOCASE);
CREATE INDEX books_authors_link_aidx ON books_authors_link (author);
CREATE VIEW meta AS SELECT id, title, (SELECT sortconcat(bal.id, name) FROM books_authors_link AS bal JOIN authors ON(author = authors.id) WHERE book = books.id) authors FROM books;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  INSERT INTO books(title, sort, timestamp, uuid) SELECT 'The Book ' || i, 'Book ' || i || ', The', '2025-01-01', hex(i) FROM n;
INSERT INTO authors(name) VALUES ('Émile'), ('Ann'), ('Bob');
INSERT INTO books_authors_link(book, author) SELECT id, id % 3 + 1 FROM books;
CREATE TRIGGER books_insert_trg AFTER INSERT ON books BEGIN
  UPDATE books SET sort=title_sort(NEW.title),uuid=uuid4() WHERE id=NEW.id; END;
CREATE TRIGGER books_delete_trg AFTER DELETE ON books BEGIN DELETE FROM books_authors_link WHERE book=OLD.id; END;
-- then
DELETE FROM books WHERE id % 10 = 0;
CREATE TABLE found AS SELECT name, count(*) AS n FROM authors JOIN books_authors_link ON author = authors.id GROUP BY name;
