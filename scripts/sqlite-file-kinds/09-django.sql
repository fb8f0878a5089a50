-- A Django project: counters, deferred foreign keys, checks of JSON, migrations that have rebuilt tables.
CREATE TABLE IF NOT EXISTS "django_migrations" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app" varchar(255) NOT NULL,
  "name" varchar(255) NOT NULL, "applied" datetime NOT NULL);
CREATE TABLE IF NOT EXISTS "django_content_type" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "app_label" varchar(100) NOT NULL, "model" varchar(100) NOT NULL);
CREATE TABLE IF NOT EXISTS "auth_permission" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "content_type_id" integer NOT NULL REFERENCES "django_content_type" ("id") DEFERRABLE INITIALLY DEFERRED,
  "codename" varchar(100) NOT NULL, "name" varchar(255) NOT NULL);
CREATE TABLE IF NOT EXISTS "new__auth_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "password" varchar(128) NOT NULL,
  "last_login" datetime NULL, "is_superuser" bool NOT NULL, "username" varchar(150) NOT NULL UNIQUE, "first_name" varchar(150) NOT NULL);
ALTER TABLE "new__auth_user" RENAME TO "auth_user";
CREATE TABLE IF NOT EXISTS "auth_user_permissions" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED,
  "permission_id" integer NOT NULL REFERENCES "auth_permission" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "shop_order" ("uuid" char(32) NOT NULL PRIMARY KEY, "total" decimal NOT NULL, "placed" date NOT NULL,
  "data" text NOT NULL CHECK ((JSON_VALID("data") OR "data" IS NULL)), "state" smallint unsigned NOT NULL CHECK ("state" >= 0),
  "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED, "paid" bool NOT NULL,
  CONSTRAINT "total_not_negative" CHECK ("total" >= '0'), CONSTRAINT "one_a_day" UNIQUE ("user_id", "placed"));
CREATE TABLE "django_session" ("session_key" varchar(40) NOT NULL PRIMARY KEY, "session_data" text NOT NULL, "expire_date" datetime NOT NULL);
CREATE UNIQUE INDEX "auth_permission_content_type_id_codename_01ab375a_uniq" ON "auth_permission" ("content_type_id", "codename");
CREATE INDEX "auth_permission_content_type_id_2f476e4b" ON "auth_permission" ("content_type_id");
CREATE INDEX "django_session_expire_date_a5c62663" ON "django_session" ("expire_date");
CREATE INDEX "shop_order_lower" ON "shop_order" ((LOWER("uuid")), "placed" DESC);
CREATE UNIQUE INDEX "shop_open" ON "shop_order" ("user_id") WHERE ("state" = 0 AND NOT "paid");
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
  INSERT INTO django_migrations(app, name, applied) SELECT 'auth', printf('%04d_alter', i), '2025-01-01 10:00:00.' || i FROM n;
INSERT INTO django_content_type(app_label, model) VALUES ('admin', 'logentry'), ('auth', 'user'), ('shop', 'order');
INSERT INTO auth_permission(content_type_id, codename, name)
  SELECT id, verb || '_' || model, 'Can ' || verb FROM django_content_type, (SELECT 'add' AS verb UNION SELECT 'change' UNION SELECT 'view');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
  INSERT INTO auth_user(password, is_superuser, username, first_name, last_login)
  SELECT 'pbkdf2_sha256$720000$' || hex(i), i = 1, 'user' || i, CASE i % 3 WHEN 0 THEN 'Zoë' ELSE '' END, NULL FROM n;
DELETE FROM auth_user WHERE id > 195;
INSERT INTO auth_user_permissions(user_id, permission_id) SELECT u.id, p.id FROM auth_user u, auth_permission p WHERE (u.id + p.id) % 11 = 0;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
  INSERT INTO shop_order SELECT printf('%032x', i * 7919), CASE i % 3 WHEN 0 THEN '12.50' WHEN 1 THEN i ELSE i / 3.0 END,
    date('2020-01-01', i || ' days'), json_object('n', i, 'q', '"'), 1 + i % 3, i % 195 + 1, i % 2 FROM n;
INSERT INTO django_session VALUES ('k1', 'e30:1t', '2025-02-01 00:00:00'), ('k2', '', '2024-02-01 00:00:00');
-- then
INSERT INTO auth_user(password, is_superuser, username, first_name) VALUES ('!', 0, 'last', '');
BEGIN; INSERT INTO auth_user_permissions(user_id, permission_id) VALUES (900, 1);
INSERT INTO auth_user(id, password, is_superuser, username, first_name) VALUES (900, '!', 0, 'late', ''); COMMIT;
DELETE FROM django_session WHERE expire_date < '2025';
CREATE TABLE found AS SELECT uuid, placed FROM shop_order WHERE LOWER(uuid) > '0000000000000000000000000000f000' ORDER BY 1 LIMIT 99;
