-- An app of a telephone: rows by key, STRICT tables, the tables of Android and Room.
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = TRUNCATE;
PRAGMA user_version = 34;
CREATE TABLE android_metadata (locale TEXT);
CREATE TABLE room_master_table (id INTEGER PRIMARY KEY,identity_hash TEXT);
CREATE TABLE IF NOT EXISTS `WorkSpec` (`id` TEXT NOT NULL, `state` INTEGER NOT NULL, `worker_class_name` TEXT NOT NULL,
  `input` BLOB NOT NULL, `initial_delay` INTEGER NOT NULL, `run_attempt_count` INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(`id`));
CREATE INDEX IF NOT EXISTS `index_WorkSpec_schedule` ON `WorkSpec` (`state`, `initial_delay`);
CREATE TABLE IF NOT EXISTS `Dependency` (`work_spec_id` TEXT NOT NULL, `prerequisite_id` TEXT NOT NULL,
  PRIMARY KEY(`work_spec_id`, `prerequisite_id`),
  FOREIGN KEY(`work_spec_id`) REFERENCES `WorkSpec`(`id`) ON UPDATE CASCADE ON DELETE CASCADE );
CREATE TABLE settings(scope TEXT, name TEXT, value ANY, PRIMARY KEY(scope, name)) WITHOUT ROWID, STRICT;
CREATE TABLE measures(id INTEGER PRIMARY KEY, at INT NOT NULL, value REAL, raw BLOB, unit TEXT DEFAULT 'm') STRICT;
CREATE TABLE steps(day TEXT, device INTEGER, count INTEGER CHECK (count >= 0), PRIMARY KEY(day DESC, device)) WITHOUT ROWID;
CREATE INDEX steps_count ON steps(count DESC);
CREATE UNIQUE INDEX steps_best ON steps(device, count) WHERE count > 900;
CREATE TABLE pairs(a TEXT COLLATE NOCASE, b TEXT COLLATE RTRIM, c, PRIMARY KEY(b, a, c), UNIQUE(c, a)) WITHOUT ROWID;
INSERT INTO android_metadata VALUES ('de_DE');
INSERT INTO room_master_table VALUES (42, '86254750241babac4b8d52996a675549');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  INSERT INTO WorkSpec SELECT lower(hex(randomblob(16))), i % 5, 'androidx.work.W' || i % 9, zeroblob(i), i * 1000, i % 3 FROM n;
INSERT INTO Dependency SELECT a.id, b.id FROM WorkSpec a, WorkSpec b WHERE a.rowid = b.rowid + 1;
INSERT INTO settings VALUES ('a', 'int', 1), ('a', 'real', 1.0), ('a', 'text', '1'), ('b', 'blob', x'31'), ('b', 'null', NULL),
  ('c', 'big', 9007199254740993), ('', '', '');
INSERT INTO measures(at, value, raw) VALUES (1, 2, x'00'), (-5, -0.0, NULL), (9223372036854775807, 1e308, x''), (0, NULL, NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
  INSERT INTO steps SELECT printf('2025-%02d-%02d', i % 12 + 1, i % 28 + 1), i, i * 37 % 1000 FROM n;
INSERT INTO pairs VALUES ('A', 'x  ', 1), ('b', 'x', 2), ('a', 'y', '1'), ('ä', 'Y', x'01'), ('Ä', 'Y  ', 1.5);
-- then
UPDATE WorkSpec SET id = 'renamed' || rowid WHERE state = 3;
DELETE FROM WorkSpec WHERE state = 1;
INSERT INTO measures(at) VALUES (77);
INSERT OR REPLACE INTO pairs VALUES ('B', 'x ', 2);
CREATE TABLE found AS SELECT day, count FROM steps WHERE count > 500 ORDER BY count DESC, day;
