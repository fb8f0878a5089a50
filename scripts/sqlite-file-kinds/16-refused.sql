-- A collection with an index in the program's own collation. It is refused by name, and the database stays as it was.
-- refused: 16-refused.sql.db: no such collation sequence: unicase
PRAGMA user_version = 18;
CREATE TABLE fine(a);
INSERT INTO fine VALUES (1);
CREATE TABLE notetypes (id integer NOT NULL PRIMARY KEY, name text NOT NULL COLLATE unicase, config blob NOT NULL);
CREATE UNIQUE INDEX idx_notetypes_name ON notetypes (name);
INSERT INTO notetypes VALUES (1, 'Basic', x'00'), (2, 'Cloze', x'01');
