-- A messenger: JSON, a search that triggers maintain, recursive triggers, and rows without their parents.
PRAGMA user_version = 1090;
PRAGMA recursive_triggers = ON;
CREATE TABLE conversations(id STRING PRIMARY KEY ASC, json TEXT, active_at INTEGER, type STRING, members TEXT, name TEXT,
  profileLastFetchedAt INTEGER, e164 TEXT, serviceId TEXT, unread INTEGER GENERATED ALWAYS AS (json_extract(json, '$.unread')));
CREATE TABLE messages(rowid INTEGER PRIMARY KEY ASC, id STRING UNIQUE, json TEXT, readStatus INTEGER, expires_at INTEGER,
  sent_at INTEGER, conversationId STRING, received_at INTEGER, body TEXT, isStory INTEGER NOT NULL DEFAULT 0,
  isErased INTEGER AS (json_extract(json, '$.erased')) STORED,
  shouldAffect INTEGER GENERATED ALWAYS AS (type IS NULL OR type NOT IN ('keychange', 'verified-change')), type TEXT);
CREATE INDEX messages_unread ON messages(conversationId, readStatus) WHERE readStatus IS NOT NULL;
CREATE INDEX messages_order ON messages(conversationId, isStory, received_at DESC, sent_at);
CREATE INDEX messages_erased ON messages(isErased, json_extract(json, '$.expireTimer'));
CREATE TABLE reactions(messageId STRING NOT NULL REFERENCES messages(id) ON DELETE CASCADE, emoji TEXT, fromId TEXT,
  UNIQUE(messageId, fromId) ON CONFLICT REPLACE);
CREATE TABLE jobs(id TEXT PRIMARY KEY, queueType TEXT, timestamp INTEGER, data STRING TEXT);
CREATE TABLE mentions(messageId REFERENCES messages(id) ON DELETE CASCADE, mentionAci STRING, start INTEGER, length INTEGER);
CREATE TABLE threads(id INTEGER PRIMARY KEY, parent REFERENCES threads, replies INTEGER DEFAULT 0);
CREATE VIRTUAL TABLE messages_fts USING fts5(body, tokenize = 'porter unicode61');
CREATE TRIGGER messages_on_insert AFTER INSERT ON messages WHEN new.isStory IS NOT 1 BEGIN
  INSERT INTO messages_fts(rowid, body) VALUES (new.rowid, new.body); END;
CREATE TRIGGER messages_on_delete AFTER DELETE ON messages BEGIN
  DELETE FROM messages_fts WHERE rowid = old.rowid; END;
CREATE TRIGGER messages_on_update AFTER UPDATE OF body ON messages WHEN new.body IS NOT old.body BEGIN
  UPDATE messages_fts SET body = new.body WHERE rowid = new.rowid; END;
CREATE TRIGGER threads_count AFTER UPDATE OF replies ON threads WHEN new.parent IS NOT NULL BEGIN
  UPDATE threads SET replies = replies + 1 WHERE id = new.parent; END;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
  INSERT INTO conversations(id, json, active_at, type, name)
  SELECT 'c' || i, json_object('unread', i % 5, 'name', '👋 ' || i), i, 'private', CASE i % 4 WHEN 0 THEN i * 1.0 END FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
  INSERT INTO messages(id, json, readStatus, conversationId, received_at, sent_at, body, type, isStory)
  SELECT CASE i % 6 WHEN 0 THEN i WHEN 1 THEN '0' || i ELSE 'm' || i END,
    json_object('expireTimer', i % 60, 'erased', json(CASE i % 8 WHEN 0 THEN 'true' ELSE 'false' END)),
    nullif(i % 3, 2), 'c' || (i % 50 + 1), i * 10, i * 9, 'hello ' || i || ' 👩‍👩‍👧 ' || hex(i), iif(i % 11, 'incoming', NULL), i % 97 = 0 FROM n;
INSERT INTO reactions SELECT id, '❤️', 'p' || rowid % 3 FROM messages WHERE rowid % 4 = 0;
INSERT INTO mentions VALUES ('gone', 'a', 0, 1), ('m2', 'a', 1.5, '2'), ('m3', NULL, NULL, NULL);
INSERT INTO jobs VALUES ('j', 'q', 1, '{}'), (NULL, 'q', 2, x'7b7d'), (NULL, 'q', 3, 7);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) INSERT INTO threads SELECT i, nullif(i - 1, 0), 0 FROM n;
-- then
PRAGMA recursive_triggers = ON;
UPDATE threads SET replies = replies + 1 WHERE id = 30;
UPDATE messages SET body = 'running away ' || rowid WHERE rowid % 100 = 1;
DELETE FROM messages WHERE isErased;
INSERT INTO reactions VALUES ('m2', '👍', 'p1'), ('m2', '👎', 'p1');
CREATE TABLE found AS SELECT rowid AS id, highlight(messages_fts, 0, '«', '»') AS body FROM messages_fts WHERE body MATCH 'run';
CREATE TABLE unread AS SELECT id, unread FROM conversations WHERE unread > 2;
INSERT INTO messages_fts(messages_fts) VALUES ('integrity-check');
