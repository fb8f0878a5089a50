-- A collection of cards without the program's own collation: rows by JSON, many small settings, 13-digit ids.
PRAGMA user_version = 18;
CREATE TABLE col (id integer PRIMARY KEY, crt integer NOT NULL, mod integer NOT NULL, scm integer NOT NULL, ver integer NOT NULL,
  dty integer NOT NULL, usn integer NOT NULL, ls integer NOT NULL, conf text NOT NULL, models text NOT NULL, decks text NOT NULL,
  dconf text NOT NULL, tags text NOT NULL);
CREATE TABLE notes (id integer PRIMARY KEY, guid text NOT NULL, mid integer NOT NULL, mod integer NOT NULL, usn integer NOT NULL,
  tags text NOT NULL, flds text NOT NULL, -- The use of type integer for sfld is deliberate, because it means that integer values in this
  -- field will sort numerically.
  sfld integer NOT NULL, csum integer NOT NULL, flags integer NOT NULL, data text NOT NULL);
CREATE TABLE cards (id integer PRIMARY KEY, nid integer NOT NULL, did integer NOT NULL, ord integer NOT NULL, due integer NOT NULL,
  ivl integer NOT NULL, factor integer NOT NULL, queue integer NOT NULL);
CREATE TABLE revlog (id integer PRIMARY KEY, cid integer NOT NULL, ease integer NOT NULL, time integer NOT NULL);
CREATE TABLE graves (oid integer NOT NULL, type integer NOT NULL, usn integer NOT NULL, PRIMARY KEY (oid, type)) WITHOUT ROWID;
CREATE TABLE config (KEY text NOT NULL PRIMARY KEY, usn integer NOT NULL, mtime_secs integer NOT NULL, val blob NOT NULL) without rowid;
CREATE TABLE deck_names (id integer PRIMARY KEY NOT NULL, name text NOT NULL COLLATE NOCASE, kind blob NOT NULL);
CREATE UNIQUE INDEX idx_decks_name ON deck_names (name);
CREATE INDEX ix_notes_csum ON notes (csum);
CREATE INDEX ix_cards_sched ON cards (did, queue, due);
CREATE INDEX ix_revlog_cid ON revlog (cid);
CREATE INDEX idx_notes_mid ON notes (mid, sfld COLLATE NOCASE);
INSERT INTO col VALUES (1, 1700000000, 1700000000123, 1, 18, 0, -1, 0, '{}', '{"1": {"name": "Basic"}}', '', '', '');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
  INSERT INTO notes SELECT 1700000000000 + i * 37, hex(i), 1 + i % 3, 1700000000 + i, -1, ' tag' || i % 5 || ' ',
    'front ' || i || char(31) || 'Rückseite <b>' || i || '</b>', CASE i % 4 WHEN 0 THEN i || '' WHEN 1 THEN i || '.50' ELSE 'front ' || i END,
    (i * 2654435761) % 4294967296, 0, '' FROM n;
INSERT INTO cards SELECT id + 1, id, 1 + rowid % 7, 0, rowid % 365, rowid % 100, 2500, rowid % 3 FROM notes;
INSERT INTO revlog SELECT id + 100000, id, 1 + id % 4, id % 9000 FROM cards;
INSERT INTO graves VALUES (1, 2, 3), (1, 1, 3), (-5, 0, 0);
INSERT INTO config VALUES ('activeDecks', 0, 1, '[1]'), ('curDeck', 0, 1, 1), ('x', -1, 0, x'7b7d');
INSERT INTO deck_names VALUES (1, 'Default', x''), (2, 'Über' || char(31) || 'deck', x'0801'), (3, 'default2', 'text');
-- then
INSERT INTO graves SELECT id, 0, -1 FROM cards WHERE did = 3;
DELETE FROM cards WHERE did = 3;
UPDATE notes SET sfld = sfld + 1 WHERE typeof(sfld) = 'integer';
INSERT OR REPLACE INTO deck_names VALUES (9, 'DEFAULT', x'01');
CREATE TABLE found AS SELECT id, sfld, typeof(sfld) AS type FROM notes WHERE mid = 2 ORDER BY mid, sfld COLLATE NOCASE LIMIT 100;
