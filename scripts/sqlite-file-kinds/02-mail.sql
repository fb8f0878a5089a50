-- An index of mails: full text with and without content of its own, kept by triggers.
PRAGMA user_version = 12;
CREATE TABLE folders(id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE, parent INTEGER, UNIQUE(parent, name));
CREATE TABLE mails(id INTEGER PRIMARY KEY AUTOINCREMENT, folder INTEGER NOT NULL REFERENCES folders(id) ON DELETE CASCADE,
  message_id TEXT UNIQUE, subject TEXT, sender TEXT, body TEXT, headers BLOB, received INTEGER, flags INTEGER DEFAULT 0);
CREATE INDEX mails_unread ON mails(folder, received DESC) WHERE flags & 1 = 0;
CREATE VIRTUAL TABLE mail_text USING fts5(subject, sender, body, content='mails', content_rowid='id',
  tokenize="unicode61 remove_diacritics 2", prefix='2 3');
CREATE VIRTUAL TABLE mail_words USING fts5vocab(mail_text, 'instance');
CREATE VIRTUAL TABLE contacts USING fts4(name, address, tokenize=unicode61, order=desc);
CREATE VIRTUAL TABLE own_text USING fts5(line, note UNINDEXED, tokenize='trigram', detail='full');
CREATE VIRTUAL TABLE no_content USING fts5(word, content='');
CREATE TRIGGER mails_added AFTER INSERT ON mails BEGIN
  INSERT INTO mail_text(rowid, subject, sender, body) VALUES (new.id, new.subject, new.sender, new.body); END;
CREATE TRIGGER mails_removed AFTER DELETE ON mails BEGIN
  INSERT INTO mail_text(mail_text, rowid, subject, sender, body)
    VALUES ('delete', old.id, old.subject, old.sender, old.body); END;
CREATE TRIGGER mails_changed AFTER UPDATE OF subject, sender, body ON mails BEGIN
  INSERT INTO mail_text(mail_text, rowid, subject, sender, body)
    VALUES ('delete', old.id, old.subject, old.sender, old.body);
  INSERT INTO mail_text(rowid, subject, sender, body) VALUES (new.id, new.subject, new.sender, new.body); END;
INSERT INTO folders VALUES (1, 'Inbox', NULL), (2, 'Sent', NULL), (3, 'Äpfel', 1), (4, 'Archive', NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
  INSERT INTO mails(folder, message_id, subject, sender, body, headers, received, flags)
  SELECT i % 4 + 1, '<' || i || '@example.org>', 'Re: ' || CASE i % 5 WHEN 0 THEN 'Füße und Élan' ELSE 'invoice ' || i END,
    'person' || (i % 17) || '@example.org', printf('%.*c', i % 40, 'x') || ' quick brown ' || (i * 7 % 31) || ' fox 漢字',
    zeroblob(i % 300), 1700000000 + i * 61, i % 4 FROM n;
DELETE FROM mails WHERE id > 590;
INSERT INTO contacts SELECT DISTINCT 'Person ' || sender, sender FROM mails;
INSERT INTO own_text SELECT subject, id FROM mails WHERE id % 3 = 0;
INSERT INTO no_content(rowid, word) SELECT id, subject FROM mails WHERE id < 50;
INSERT INTO mail_text(mail_text, rank) VALUES ('rank', 'bm25(10.0, 5.0)');
-- then
INSERT INTO mails(folder, message_id, subject, sender, body) VALUES (1, '<new>', 'Grüße', 'me', 'a quick look');
UPDATE mails SET subject = 'changed ' || id WHERE id % 50 = 0;
DELETE FROM mails WHERE id % 77 = 0;
CREATE TABLE found AS SELECT rowid AS id, bm25(mail_text) < 0 AS ranked, snippet(mail_text, 2, '<', '>', '...', 5) AS part
  FROM mail_text WHERE mail_text MATCH 'quick AND (fusse OR chang*)';
CREATE TABLE lines AS SELECT rowid AS id, note FROM own_text WHERE own_text MATCH 'voice 3';
CREATE TABLE people AS SELECT docid, offsets(contacts) AS at FROM contacts WHERE contacts MATCH 'person3*';
CREATE TABLE words AS SELECT term, count(*) AS n FROM mail_words GROUP BY term;
CREATE TABLE empty AS SELECT rowid AS id FROM no_content WHERE no_content MATCH 'elan';
INSERT INTO mail_text(mail_text) VALUES ('integrity-check');
INSERT INTO contacts(contacts) VALUES ('integrity-check');
