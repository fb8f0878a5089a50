-- The history of a browser: hashed addresses, counters kept by triggers, statistics.
PRAGMA page_size = 32768;
PRAGMA user_version = 75;
CREATE TABLE moz_origins (id INTEGER PRIMARY KEY, prefix TEXT NOT NULL, host TEXT NOT NULL, frecency INTEGER NOT NULL,
  UNIQUE (prefix, host) );
CREATE TABLE moz_places (   id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR,
  visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL,
  frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER , guid TEXT, foreign_count INTEGER DEFAULT 0 NOT NULL,
  url_hash INTEGER DEFAULT 0 NOT NULL , description TEXT, preview_image_url TEXT,
  origin_id INTEGER REFERENCES moz_origins(id));
CREATE TABLE moz_historyvisits (  id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER, visit_date INTEGER,
  visit_type INTEGER, session INTEGER, source INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE moz_inputhistory (  place_id INTEGER NOT NULL, input LONGVARCHAR NOT NULL, use_count INTEGER,
  PRIMARY KEY (place_id, input));
CREATE TABLE moz_meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID ;
CREATE INDEX moz_places_url_hashindex ON moz_places (url_hash);
CREATE INDEX moz_places_hostindex ON moz_places (rev_host);
CREATE INDEX moz_places_visitcount ON moz_places (visit_count);
CREATE UNIQUE INDEX moz_places_guid_uniqueindex ON moz_places (guid);
CREATE INDEX moz_historyvisits_placedateindex ON moz_historyvisits (place_id, visit_date);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
  INSERT INTO moz_origins SELECT i, 'https://', 'host' || i || '.example', i * 31 % 97 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
  INSERT INTO moz_places(id, url, title, rev_host, guid, url_hash, origin_id, last_visit_date)
  SELECT i, 'https://host' || (i % 40 + 1) || '.example/' || hex(i * 7919), CASE i % 9 WHEN 0 THEN NULL ELSE 'Straße ' || i END,
    'elpmaxe.' || (i % 40 + 1) || 'tsoh.', printf('g%011d', i), (i * 2654435761) % 281474976710656, i % 40 + 1,
    1700000000000000 + i * 977 FROM n;
CREATE TRIGGER moz_historyvisits_afterinsert AFTER INSERT ON moz_historyvisits FOR EACH ROW BEGIN
  UPDATE moz_places SET visit_count = visit_count + (NEW.visit_type NOT IN (0, 4, 7, 8, 9)),
    last_visit_date = MAX(IFNULL(last_visit_date, 0), NEW.visit_date) WHERE id = NEW.place_id; END;
CREATE TRIGGER moz_historyvisits_afterdelete AFTER DELETE ON moz_historyvisits FOR EACH ROW BEGIN
  UPDATE moz_places SET visit_count = visit_count - (OLD.visit_type NOT IN (0, 4, 7, 8, 9)) WHERE id = OLD.place_id; END;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
  INSERT INTO moz_historyvisits(from_visit, place_id, visit_date, visit_type)
  SELECT i / 3, i * 13 % 900 + 1, 1700000000000000 + i * 1999, i % 10 FROM n;
INSERT INTO moz_inputhistory VALUES (1, 'ex', 3.5), (1, 'exa', 0), (2, 'ex', NULL);
INSERT INTO moz_meta VALUES ('origin_frecency_count', 40), ('sync', x'0102'), ('ratio', 0.1);
ANALYZE;
-- left out: table sqlite_stat1: run ANALYZE
-- then
INSERT INTO moz_historyvisits(from_visit, place_id, visit_date, visit_type) VALUES (1, 5, 1800000000000000, 1);
DELETE FROM moz_historyvisits WHERE place_id % 7 = 0;
CREATE TABLE found AS SELECT id, visit_count FROM moz_places INDEXED BY moz_places_visitcount WHERE visit_count > 1;
