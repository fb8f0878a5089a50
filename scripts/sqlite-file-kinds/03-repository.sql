-- A repository of a version control system such as Fossil: large blobs, deltas, views, an application id.
PRAGMA application_id = 252006673;
CREATE TABLE blob(
  rid INTEGER PRIMARY KEY,        -- Record ID
  rcvid INTEGER,                  -- Origin of this record
  size INTEGER,                   -- Size of content. -1 for a phantom.
  uuid TEXT UNIQUE NOT NULL,      -- hash of the content
  content BLOB,                   -- Compressed content of this record
  CHECK( length(uuid)>=40 AND rid>0 )
);
CREATE TABLE delta(rid INTEGER PRIMARY KEY, srcid INTEGER NOT NULL REFERENCES blob);
CREATE INDEX delta_i1 ON delta(srcid);
CREATE TABLE event(type TEXT, mtime DATETIME, objid INTEGER PRIMARY KEY, tagid INTEGER, uid INTEGER REFERENCES user,
  bgcolor TEXT, euser TEXT, user TEXT, ecomment TEXT, comment TEXT, brief TEXT, omtime DATETIME);
CREATE INDEX event_i1 ON event(mtime);
CREATE TABLE user(uid INTEGER PRIMARY KEY, login TEXT UNIQUE, pw TEXT, cap TEXT, mtime DATE, photo BLOB, jx TEXT DEFAULT '{}');
CREATE TABLE plink(pid INTEGER REFERENCES blob, cid INTEGER REFERENCES blob, isprim BOOLEAN, mtime DATETIME,
  baseid INTEGER REFERENCES blob, UNIQUE(pid, cid));
CREATE INDEX plink_i2 ON plink(cid,pid);
CREATE TABLE phantom(rid INTEGER PRIMARY KEY);
CREATE TABLE unversioned(uvid INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, content BLOB);
CREATE TABLE config(name TEXT PRIMARY KEY NOT NULL, value CLOB, mtime DATE, CHECK( typeof(name)='text' AND length(name)>=1 )
) WITHOUT ROWID;
CREATE VIEW artifact(rid,rcvid,size,atype,srcid,hash,content) AS
  SELECT blob.rid,rcvid,size,1,srcid,uuid,content FROM blob LEFT JOIN delta ON (blob.rid=delta.rid);
CREATE VIEW timeline AS SELECT event.mtime, uuid, coalesce(ecomment, comment) AS comment FROM event, blob
  WHERE blob.rid = event.objid ORDER BY event.mtime DESC;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
  INSERT INTO blob SELECT i, 1, i * 17, lower(hex(randomblob(32))), randomblob(i * 53 % 20000) FROM n;
INSERT INTO blob VALUES (500, 1, 3000000, lower(hex(randomblob(20))), randomblob(3000000));
INSERT INTO blob VALUES (501, 1, 0, lower(hex(randomblob(20))), x'');
INSERT INTO blob VALUES (502, 1, -1, lower(hex(randomblob(20))), NULL);
INSERT INTO delta SELECT rid, rid + 1 FROM blob WHERE rid < 300 AND rid % 2;
INSERT INTO user VALUES (1, 'drh', 'x''y', 's', 2460000.5, NULL, '{"a":[1,2]}'), (2, 'guest', NULL, 'gjorz', NULL, x'ffd8', '{}');
INSERT INTO event(type, mtime, objid, uid, comment)
  SELECT 'ci', 2460000.5 + rid / 7.0, rid, 1 + rid % 2, 'check-in #' || rid || ' äöü' FROM blob WHERE rid <= 400;
INSERT INTO plink SELECT rid, rid + 1, 1, 2460000 + rid, NULL FROM blob WHERE rid < 399;
INSERT INTO unversioned(name, content) VALUES ('a/b.txt', 'text in a blob column'), ('c', randomblob(100000));
DELETE FROM unversioned WHERE name = 'c';
INSERT INTO config VALUES ('project-name', 'p', 1), ('schema', 2011, 2.5), ('blob', x'00', NULL);
-- then
INSERT INTO unversioned(name, content) VALUES ('d', zeroblob(70000));
PRAGMA foreign_keys = OFF;
DELETE FROM blob WHERE rid % 10 = 3;
CREATE TABLE found AS SELECT * FROM timeline LIMIT 50;
CREATE TABLE kinds AS SELECT atype, count(*) AS n, sum(length(content)) AS bytes FROM artifact GROUP BY srcid IS NULL;
