-- Names and definitions that tools trip over: quotes, keywords, empty names, comments, the names of rowids, columns that were added.
CREATE TABLE "quo""ted; DROP TABLE x"("a""b" TEXT DEFAULT 'it''s; --', [c d] INT, `e``f`, 'g''h', CHECK("a""b" <> '--'));
CREATE TABLE [select]("from", [where], `order` TEXT, "group" INTEGER PRIMARY KEY, UNIQUE("from", [where]));
CREATE TABLE ""("" TEXT, " " INT, "	" INT);
CREATE TABLE "ÄÖÜ 漢字 😀"("ß" TEXT PRIMARY KEY, "‮rtl" INT);
CREATE TABLE rowid_text(rowid TEXT, _rowid_ INT, a);
CREATE TABLE oid_only(oid INTEGER, a, PRIMARY KEY(oid));
CREATE TABLE /* a comment */ commented -- and another; with a semicolon
(
	a INT, /* inside */
	b TEXT -- 'quoted' in a comment
	, c DEFAULT (1 + 2 /* three */)
);
create table lower_case (a int primary key, B int default -1, c default +1.5, d default x'ab', e default CURRENT_DATE, f default true, g default 'x');
CREATE TABLE added(a, b);
ALTER TABLE added ADD COLUMN c INTEGER NOT NULL DEFAULT 7;
INSERT INTO added(a, b) VALUES (1, 2), (3, NULL);
ALTER TABLE added ADD COLUMN d TEXT DEFAULT 'später' COLLATE NOCASE;
ALTER TABLE added ADD COLUMN e AS (a + c);
ALTER TABLE added RENAME COLUMN b TO "b ""renamed""";
ALTER TABLE added ADD COLUMN f REFERENCES [select]("group");
INSERT INTO added(a) VALUES ('x');
CREATE TABLE gone(a, b, c); INSERT INTO gone VALUES (1, 2, 3); ALTER TABLE gone DROP COLUMN b;
CREATE TABLE made AS SELECT 1 AS a, 'x' AS "b c", 2.5 AS "count(*)", x'00' AS d, NULL AS "";
CREATE TABLE typed(a "VARCHAR (10)", b DOUBLE PRECISION, c UNSIGNED BIG INT, d DECIMAL(10, 5), e NATIVE CHARACTER(70), f FLOATING POINT, g CHARINT, h "", i 'text');
CREATE TABLE sqlitelike(sqlite_x, pando, main, temp);
CREATE TABLE "pando"("table" TEXT, "main.t" INT);
CREATE TABLE twice(a UNIQUE, b UNIQUE, a2 REFERENCES twice(a), PRIMARY KEY(a), UNIQUE(a, b), UNIQUE(b, a));
CREATE INDEX "index ""of"" quotes" ON "quo""ted; DROP TABLE x"("a""b" COLLATE "NOCASE", [c d] desc);
CREATE INDEX [ ] ON ""("" COLLATE RTRIM);
CREATE UNIQUE INDEX "main" ON sqlitelike(main, temp) WHERE "main" IS NOT NULL;
CREATE VIEW "view ""v"""("x ""y""", z) AS SELECT "a""b", [c d] FROM "quo""ted; DROP TABLE x" /* end */;
CREATE TRIGGER "tri'gger" AFTER INSERT ON [select] WHEN new."from" = ';' BEGIN UPDATE [select] SET "order" = 'END; --' || ';' WHERE "group" = new."group"; SELECT 1; END;
CREATE TRIGGER 後 AFTER DELETE ON "ÄÖÜ 漢字 😀" BEGIN INSERT INTO ""("") VALUES (old."ß"); END;
INSERT INTO "quo""ted; DROP TABLE x" VALUES ('1', 2, 3, 4), (NULL, NULL, NULL, NULL), ('it''s', '2', x'', 1e-5);
INSERT INTO [select]("from", [where], "group") VALUES (1, 2, 3), (';', NULL, NULL), (NULL, NULL, NULL);
INSERT INTO "" VALUES ('', 1, 2), (' ', NULL, 3);
INSERT INTO "ÄÖÜ 漢字 😀" VALUES ('ß', 1), ('ẞ', 2), ('ss', 3), (NULL, 4), (NULL, 5);
INSERT INTO rowid_text(oid, rowid, _rowid_, a) VALUES (70, 'r', 1, 2), (-3, NULL, NULL, NULL);
INSERT INTO oid_only(a) VALUES (1), (2);
INSERT INTO commented(a) VALUES (1), ('two'); INSERT INTO lower_case(a, e) VALUES (1, '2025-01-01'), (NULL, 'x');
INSERT INTO typed VALUES ('1', '1', '1', '1', 1, '1', '1', '1', 1), (1.0, 1, 1.0, 1.5, 1.0, 1, 'x', 1.0, 1.0), (x'31', x'31', x'31', x'31', x'31', x'31', x'31', x'31', x'31');
INSERT INTO sqlitelike VALUES (1, 2, 3, 4), (1, 2, NULL, 4); INSERT INTO pando VALUES ('t', 1);
INSERT INTO twice VALUES (1, 2, NULL), ('1', NULL, 1), (NULL, 3, 9), (NULL, 4, NULL);
-- then
INSERT INTO [select]("from", [where]) VALUES (';', 5);
DELETE FROM "ÄÖÜ 漢字 😀" WHERE "ß" = 'ẞ';
ALTER TABLE "quo""ted; DROP TABLE x" RENAME COLUMN "a""b" TO plain;
CREATE TABLE found AS SELECT * FROM "view ""v""";
