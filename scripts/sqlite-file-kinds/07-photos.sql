-- A library of photos: an R*Tree of places, small pictures, values of other types than declared, odd numbers.
PRAGMA page_size = 1024;
CREATE TABLE Version_Table (id INTEGER PRIMARY KEY, version INTEGER, note CHAR(10));
CREATE TABLE Adobe_images (id_local INTEGER PRIMARY KEY, id_global UNIQUE NOT NULL, captureTime, rating, pick NOT NULL DEFAULT 0,
  aspectRatioCache NOT NULL DEFAULT -1, colorLabels NOT NULL DEFAULT '', xmp BLOB DEFAULT (x'00'), exposure NUMERIC(6,4),
  taken AS (substr(captureTime, 1, 4)) STORED, stars AS (CASE WHEN rating >= 4 THEN 'best' END) VIRTUAL);
CREATE INDEX images_year ON Adobe_images(taken, rating DESC) WHERE rating IS NOT NULL;
CREATE INDEX images_upper ON Adobe_images(upper(colorLabels), abs(exposure));
CREATE TABLE thumbnails(image INTEGER PRIMARY KEY REFERENCES Adobe_images ON DELETE CASCADE, width, height, jpeg BLOB NOT NULL);
CREATE TABLE tags(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT COLLATE NOCASE UNIQUE, lft INT, rgt INT);
CREATE TABLE image_tags(image INTEGER, tag INTEGER, PRIMARY KEY(image, tag)) WITHOUT ROWID;
CREATE VIRTUAL TABLE places USING rtree(id, lat0, lat1, lon0, lon1, +name);
CREATE VIEW by_tag AS WITH RECURSIVE up(id, path) AS (SELECT id, name FROM tags WHERE lft = 1
  UNION ALL SELECT t.id, up.path || '/' || t.name FROM tags t JOIN up ON t.lft = up.id + 1)
  SELECT up.path, count(image_tags.image) AS images FROM up LEFT JOIN image_tags ON tag = up.id GROUP BY up.id;
INSERT INTO Version_Table VALUES (1, 1300021, 'a note that is longer than ten');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
  INSERT INTO Adobe_images(id_local, id_global, captureTime, rating, colorLabels, xmp, exposure)
  SELECT i * 3, CASE i % 3 WHEN 0 THEN i WHEN 1 THEN i || '' ELSE i + 0.5 END, printf('20%02d-05-%02dT10:00:00', i % 25, i % 28 + 1),
    CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN '5' WHEN 2 THEN 3.5 ELSE i % 6 END, CASE i % 4 WHEN 0 THEN 'rot' ELSE 'Grün' END,
    CASE i % 5 WHEN 0 THEN randomblob(2000) WHEN 1 THEN '<xmp/>' END,
    CASE i % 9 WHEN 0 THEN 9e999 WHEN 1 THEN -9e999 WHEN 2 THEN -0.0 WHEN 3 THEN '1e3' WHEN 4 THEN 1.0 / i WHEN 5 THEN 'auto'
      WHEN 6 THEN 9007199254740993 WHEN 7 THEN -9223372036854775807 ELSE 4503599627370497.5 END FROM n;
INSERT INTO thumbnails SELECT id_local, 160, 120, randomblob(3000 + id_local) FROM Adobe_images WHERE id_local % 10 = 0;
INSERT INTO thumbnails VALUES (1, 4000, 3000, randomblob(2500000));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO tags SELECT i, 'Tag ' || i, i, 41 - i FROM n;
INSERT INTO tags VALUES (900, 'gone', 0, 0); DELETE FROM tags WHERE id = 900;
INSERT OR IGNORE INTO image_tags SELECT id_local, id_local * 7 % 20 + 1 FROM Adobe_images;
INSERT INTO places SELECT id_local, id_local % 90, id_local % 90 + 0.001, id_local % 180, id_local % 180 + 1, 'Ort ' || id_local FROM Adobe_images;
-- then
INSERT INTO tags(name) VALUES ('new');
INSERT OR IGNORE INTO tags(name) VALUES ('TAG 3');
DELETE FROM Adobe_images WHERE id_local % 100 = 0;
UPDATE Adobe_images SET rating = 5 WHERE taken = '2011';
CREATE TABLE found AS SELECT id_local, taken, stars FROM Adobe_images INDEXED BY images_year WHERE rating IS NOT NULL AND taken > '2010';
CREATE TABLE by_label AS SELECT id_local FROM Adobe_images WHERE upper(colorLabels) = 'ROT' AND abs(exposure) > 1;
CREATE TABLE near AS SELECT id, name, lat0 FROM places WHERE lat0 > 10 AND lat1 < 20;
CREATE TABLE paths AS SELECT * FROM by_tag;
