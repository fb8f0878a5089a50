-- An archive of files, in WAL mode: values of several MiB, texts that are no text, every type in every column, a table of 1,500 columns.
PRAGMA journal_mode = WAL;
CREATE TABLE sqlar(name TEXT PRIMARY KEY, mode INT, mtime INT, sz INT, data BLOB);
CREATE TABLE texts(id INTEGER PRIMARY KEY, t TEXT, b BLOB, n NUMERIC, r REAL, i INTEGER, a);
CREATE INDEX texts_t ON texts(t, a);
CREATE INDEX texts_all ON texts(a DESC, b, n, r, i);
CREATE TABLE long_keys(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE UNIQUE INDEX long_values ON long_keys(v, k DESC);
CREATE TABLE vacant(a, b);
CREATE TABLE many(id INTEGER PRIMARY KEY, a INT, b INT, c INT, d INT);
CREATE INDEX many_a ON many(a); CREATE INDEX many_b ON many(b DESC, c); CREATE INDEX many_c ON many(c, d, a, b);
INSERT INTO sqlar VALUES ('dir', 16877, 0, 0, NULL), ('dir/random', 33188, 1, 4194304, randomblob(4194304)),
  ('dir/zeros', 33188, 2, 3000000, zeroblob(3000000)), ('ü', 33188, 3, 0, x''), ('text', 33188, 4, 9, 'a text in a blob');
INSERT INTO texts(t) VALUES (''), ('a' || char(0) || 'b'), (CAST(x'ff6100c3' AS TEXT)), (CAST(x'eda080' AS TEXT)), (char(1114111)), (char(0)),
  (printf('%.*c', 2000000, 'x')), (char(65279) || 'bom'), ('é'), ('é'), ('line' || char(13, 10) || 'end');
INSERT INTO texts(a, b, n, r, i)
  SELECT v, v, v, v, v FROM (SELECT 1 AS v UNION ALL SELECT 1.0 UNION ALL SELECT '1' UNION ALL SELECT x'31' UNION ALL SELECT NULL UNION ALL SELECT '1e2'
    UNION ALL SELECT ' 7 ' UNION ALL SELECT '0x10' UNION ALL SELECT 9223372036854775807 UNION ALL SELECT '9223372036854775808'
    UNION ALL SELECT 9e999 UNION ALL SELECT -9e999 UNION ALL SELECT -0.0 UNION ALL SELECT 1e-320 UNION ALL SELECT 0.1 UNION ALL SELECT 1e15
    UNION ALL SELECT 123456789012345678 UNION ALL SELECT x'' UNION ALL SELECT '' UNION ALL SELECT zeroblob(70000) UNION ALL SELECT 'a' || char(0));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
  INSERT INTO long_keys SELECT printf('%.*c', 850 + i, 'k') || CASE i % 3 WHEN 0 THEN char(0) WHEN 1 THEN 'k' ELSE '' END || i,
    CASE i % 2 WHEN 0 THEN printf('%.*c', 1500, 'v') ELSE zeroblob(i * 40) END FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO many SELECT i, i * 7919 % 20011, i % 100, NULLIF(i % 5, 3), i * i FROM n;
-- wide: 1500
-- then
UPDATE many SET a = a + 1, c = NULL WHERE b = 50;
DELETE FROM long_keys WHERE length(k) % 5 = 0;
CREATE TABLE found AS SELECT id, typeof(a) AS type, a FROM texts ORDER BY a, id;
CREATE TABLE keys AS SELECT length(k) AS n, hex(substr(k, -3)) AS ends FROM long_keys WHERE k > printf('%.*c', 870, 'k');
