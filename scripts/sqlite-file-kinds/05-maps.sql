-- A GeoPackage: R*Trees kept by triggers with functions that only map programs have, an application id.
PRAGMA application_id = 1196444487;
PRAGMA user_version = 10300;
CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER NOT NULL PRIMARY KEY, organization TEXT NOT NULL,
  organization_coordsys_id INTEGER NOT NULL, definition  TEXT NOT NULL, description TEXT);
CREATE TABLE gpkg_contents (table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, identifier TEXT UNIQUE,
  description TEXT DEFAULT '', last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, srs_id INTEGER,
  CONSTRAINT fk_gc_r_srs_id FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
CREATE TABLE gpkg_geometry_columns (table_name TEXT NOT NULL, column_name TEXT NOT NULL, geometry_type_name TEXT NOT NULL,
  srs_id INTEGER NOT NULL, z TINYINT NOT NULL, m TINYINT NOT NULL, CONSTRAINT pk_geom_cols PRIMARY KEY (table_name, column_name),
  CONSTRAINT uk_gc_table_name UNIQUE (table_name),
  CONSTRAINT fk_gc_tn FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name));
CREATE TABLE "roads" ( "fid" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, "geom" LINESTRING, "name" TEXT(80), "width" DOUBLE,
  "lanes" MEDIUMINT, "oneway" BOOLEAN, "x" DOUBLE, "y" DOUBLE);
CREATE VIRTUAL TABLE "rtree_roads_geom" USING rtree(id, minx, maxx, miny, maxy);
CREATE VIRTUAL TABLE tiles_index USING rtree_i32(id, x0, x1, y0, y1, +label TEXT, +size);
CREATE TABLE tiles(id INTEGER PRIMARY KEY AUTOINCREMENT, zoom_level INTEGER NOT NULL, tile_column INTEGER NOT NULL,
  tile_row INTEGER NOT NULL, tile_data BLOB NOT NULL, UNIQUE (zoom_level, tile_column, tile_row));
CREATE VIEW wide AS SELECT r.fid, r.name, t.minx, t.maxy FROM roads r JOIN rtree_roads_geom t ON t.id = r.fid WHERE r.width > 5;
INSERT INTO gpkg_spatial_ref_sys VALUES ('WGS 84', 4326, 'EPSG', 4326, 'GEOGCS["WGS 84"]', NULL), ('Undefined', -1, 'NONE', -1, 'undefined', '');
INSERT INTO gpkg_contents VALUES ('roads', 'features', 'roads', '', '2025-01-01T00:00:00.000Z', -180, -90, 180, 90, 4326);
INSERT INTO gpkg_geometry_columns VALUES ('roads', 'geom', 'LINESTRING', 4326, 0, 0);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
  INSERT INTO roads SELECT i, x'47500001' || randomblob(i % 90), 'Weg ' || i, i % 13 / 2.0, i % 4, i % 2, i % 37 - 18, i % 29 - 14 FROM n;
INSERT INTO rtree_roads_geom SELECT fid, x, x + 0.25, y, y + width FROM roads;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
  INSERT INTO tiles_index SELECT i, i, i + 3, -i, 0, 'tile ' || i, i / 2.0 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
  INSERT INTO tiles(zoom_level, tile_column, tile_row, tile_data) SELECT i / 30, i % 30, i % 7, randomblob(4000 + i) FROM n;
CREATE TRIGGER "rtree_roads_geom_insert" AFTER INSERT ON "roads"
  WHEN (new."geom" NOT NULL AND NOT ST_IsEmpty(NEW."geom")) BEGIN INSERT OR REPLACE INTO "rtree_roads_geom"
  VALUES (NEW."fid", ST_MinX(NEW."geom"), ST_MaxX(NEW."geom"), ST_MinY(NEW."geom"), ST_MaxY(NEW."geom")); END;
CREATE TRIGGER "rtree_roads_geom_delete" AFTER DELETE ON "roads" WHEN old."geom" NOT NULL BEGIN
  DELETE FROM "rtree_roads_geom" WHERE id = OLD."fid"; END;
CREATE TRIGGER 'tile_zoom' BEFORE INSERT ON tiles FOR EACH ROW BEGIN
  SELECT RAISE(ABORT, 'insert on table ''tiles'' violates constraint') WHERE NEW.zoom_level < 0 OR NEW.zoom_level > 24; END;
-- then
DELETE FROM roads WHERE fid % 9 = 0;
INSERT INTO tiles(zoom_level, tile_column, tile_row, tile_data) VALUES (20, 1, 1, x'00');
UPDATE tiles_index SET x1 = x1 + 10, label = label || '!' WHERE id % 5 = 0;
CREATE TABLE found AS SELECT * FROM wide WHERE minx > 0;
CREATE TABLE near AS SELECT id, label, size FROM tiles_index WHERE x0 < 50 AND x1 > 40 AND y0 < -30;
