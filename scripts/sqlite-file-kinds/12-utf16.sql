-- A file whose texts are UTF-16, as programs for Windows make them.
PRAGMA encoding = 'UTF-16le';
PRAGMA user_version = 3;
CREATE TABLE "Kontakte"("Id" INTEGER PRIMARY KEY AUTOINCREMENT, "Name" TEXT COLLATE NOCASE UNIQUE, "Straße" TEXT DEFAULT 'Größe', bild BLOB);
CREATE INDEX "nach Straße" ON "Kontakte"("Straße" DESC, "Name");
CREATE TABLE texte(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE VIRTUAL TABLE suche USING fts5("Name", tokenize = 'unicode61');
CREATE TRIGGER "Änderung" AFTER INSERT ON "Kontakte" BEGIN INSERT INTO suche(rowid, "Name") VALUES (new."Id", new."Name"); END;
CREATE VIEW "Übersicht" AS SELECT "Id", "Name" || ', ' || "Straße" AS "Zeile" FROM "Kontakte";
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
  INSERT INTO "Kontakte"("Name", "Straße", bild) SELECT 'Jürgen ' || i, CASE i % 3 WHEN 0 THEN '𝄞 ' || i WHEN 1 THEN NULL ELSE '漢字 ' || i END,
    CASE i % 50 WHEN 0 THEN randomblob(5000) END FROM n;
INSERT INTO texte VALUES ('', ''), ('😀', 1), ('ﬀ', 1.5), ('z', x'fffe'), (char(65535), 'last'), (char(66000), 'after it in UTF-8');
-- left out: encoding UTF-16le: texts are stored in UTF-8
-- then
INSERT INTO "Kontakte"("Name") VALUES ('Ärger');
DELETE FROM texte WHERE k = '';
CREATE TABLE found AS SELECT rowid AS id, "Name" FROM suche WHERE suche MATCH 'arger OR 77';
CREATE TABLE lines AS SELECT * FROM "Übersicht" ORDER BY 1;
