-- Counters and keys: AUTOINCREMENT that programs have edited, ids at both ends, composite keys that refer to one another.
PRAGMA user_version = -2147483648;
PRAGMA application_id = -1;
CREATE TABLE tickets(id INTEGER PRIMARY KEY AUTOINCREMENT, title);
CREATE TABLE "Mixed Case"(Id INTEGER PRIMARY KEY AUTOINCREMENT, a);
CREATE TABLE never_used(id INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE emptied(id INTEGER PRIMARY KEY AUTOINCREMENT, a);
CREATE TABLE ends(id INTEGER PRIMARY KEY, a);
CREATE TABLE hidden(a, b UNIQUE);
CREATE TABLE descending(id INTEGER PRIMARY KEY DESC, a);
CREATE TABLE region(country TEXT, code INTEGER, name, PRIMARY KEY(country, code));
CREATE TABLE town(id INTEGER PRIMARY KEY, country TEXT DEFAULT 'de', region INTEGER DEFAULT 0, twin INTEGER REFERENCES town ON DELETE SET NULL,
  FOREIGN KEY(country, region) REFERENCES region(country, code) ON DELETE SET DEFAULT ON UPDATE CASCADE MATCH FULL);
CREATE TABLE street(town REFERENCES town(id) ON DELETE CASCADE ON UPDATE NO ACTION, name, PRIMARY KEY(town, name)) WITHOUT ROWID;
CREATE TABLE house(town, street, number, FOREIGN KEY(town, street) REFERENCES street(town, name) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX house_street ON house(town, street);
INSERT INTO tickets(title) VALUES ('a'), ('b'), ('c');
UPDATE sqlite_sequence SET seq = 1000000 WHERE name = 'tickets';
INSERT INTO "Mixed Case"(a) VALUES (1), (2);
INSERT INTO emptied VALUES (9223372036854775806, 1); DELETE FROM emptied;
INSERT INTO ends VALUES (9223372036854775807, 'last'), (-9223372036854775808, 'first'), (0, 'zero'), (-1, 'minus');
INSERT INTO hidden(rowid, a, b) VALUES (-7, 1, 'x'), (4294967296, 2, 'y'), (9223372036854775806, 3, NULL), (5, 4, NULL);
INSERT INTO descending(a) VALUES ('one'), ('two');
INSERT INTO descending VALUES (NULL, 'null'), ('text', 'no') ON CONFLICT DO NOTHING;
INSERT INTO region VALUES ('de', 0, 'none'), ('de', 1, 'Schwaben'), ('at', 1, 'Tirol'), (NULL, 1, 'nowhere');
INSERT INTO town VALUES (1, 'de', 1, NULL), (2, 'at', 1, 1), (3, 'at', NULL, 2), (4, 'xx', 9, 77);
INSERT INTO street VALUES (1, 'Weg'), (1, 'Straße'), (2, 'Weg'), (99, 'lost');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) INSERT INTO house SELECT i % 3, CASE i % 2 WHEN 0 THEN 'Weg' ELSE 'Straße' END, i FROM n;
-- then
INSERT INTO tickets(title) VALUES ('after the counter');
INSERT INTO "mixed case"(a) VALUES (3);
INSERT INTO emptied(a) VALUES ('last');
INSERT INTO never_used DEFAULT VALUES;
PRAGMA foreign_keys = ON;
DELETE FROM town WHERE id = 1;
UPDATE region SET code = 5 WHERE country = 'at';
DELETE FROM region WHERE country = 'at';
CREATE TABLE found AS SELECT rowid AS id, * FROM hidden ORDER BY rowid DESC;
