// What the interface does when it is used as it should be. The argument is an empty directory.

#include "expect.h"
#include <pthread.h>
#include <time.h>

enum { COUNT = 5000 };

static char path[4096];

static const char *at(const char *root, const char *name) {
  snprintf(path, sizeof path, "%s/%s", root, name);
  return path;
}

static pando_table *table_of(pando_db *db, const char *name) {
  pando_table *table;
  OK(pando_table_ensure(db, name, PANDO_DEFAULT, PANDO_DEFAULT, 0, &table, &error));
  return table;
}

static void put(pando_db *db, pando_table *table, const char *key, const char *value) {
  OK(pando_db_put(db, table, key, strlen(key), value, strlen(value), &error));
}

static void expect_value(pando_db *db, pando_table *table, const char *key, const char *value) {
  void *found;
  size_t len;
  if (value == NULL) {
    EXPECT(PANDO_ABSENT, pando_db_get(db, table, key, strlen(key), &found, &len, &error));
    CHECK(found == NULL && len == 0);
    return;
  }
  OK(pando_db_get(db, table, key, strlen(key), &found, &len, &error));
  CHECK(is(found, len, value));
  pando_free(found);
}

static void it_is_there_after_reopening(const char *root) {
  pando_options *options = pando_options_new();
  pando_db *db;
  EXPECT(PANDO_INVALID, pando_options_set(options, "no_such_option", "1", &error));
  EXPECT(PANDO_INVALID, pando_options_set(options, "memory_bytes", "much", &error));
  OK(pando_options_set(options, "memory_bytes", "33554432", &error));
  OK(pando_options_set(options, "durability", "buffered", &error));
  EXPECT(PANDO_MISSING, pando_open(at(root, "a"), options, &db, &error));
  CHECK(db == NULL);
  OK(pando_create(at(root, "a"), options, &db, &error));
  pando_table *table = table_of(db, "t");
  put(db, table, "k", "v");
  put(db, table, "empty", "");
  pando_db *second;
  EXPECT(PANDO_LOCKED, pando_open(at(root, "a"), NULL, &second, &error));

  // Another opener that only reads follows the writer.
  OK(pando_options_set(options, "read_only", "yes", &error));
  OK(pando_open(at(root, "a"), options, &second, &error));
  CHECK(pando_db_is_read_only(second) && !pando_db_is_read_only(db));
  put(db, table, "later", "seen");
  OK(pando_db_catch_up(second, &error));
  pando_table *beside;
  OK(pando_table_open(second, "t", &beside, &error));
  expect_value(second, beside, "later", "seen");
  EXPECT(PANDO_READ_ONLY, pando_db_put(second, beside, "k", 1, "w", 1, &error));
  pando_table_free(beside);
  OK(pando_db_close(second, &error));
  pando_db_free(second);

  OK(pando_db_checkpoint(db, &error));
  OK(pando_db_sync(db, &error));
  OK(pando_db_close(db, &error));
  EXPECT(PANDO_CLOSED, pando_db_put(db, table, "k", 1, "w", 1, &error));
  OK(pando_db_close(db, &error));
  pando_table_free(table);
  pando_db_free(db);
  pando_options_free(options);

  OK(pando_open(at(root, "a"), NULL, &db, &error));
  table = table_of(db, "t");
  expect_value(db, table, "k", "v");
  expect_value(db, table, "empty", "");
  expect_value(db, table, "later", "seen");
  expect_value(db, table, "absent", NULL);
  OK(pando_db_check(db, NULL, NULL, &error));
  pando_table_free(table);
  pando_db_free(db);
}

static void *close_it(void *given) {
  CHECK(pando_db_close(given, NULL) == PANDO_OK);
  return NULL;
}

static void a_second_close_waits_for_the_first(const char *root) {
  for (int attempt = 0; attempt < 3; attempt++) {
    char name[] = {'c', (char)('0' + attempt), 0};
    pando_db *db, *again;
    pando_tx *tx;
    pthread_t first;
    void *found;
    size_t len;
    pando_options *options = pando_options_new();
    at(root, name);
    OK(pando_options_set(options, "durability", "lazy", &error));
    OK(pando_create(path, options, &db, &error));
    pando_options_free(options);
    pando_table *table = table_of(db, "t");
    OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
    for (int number = 0; number < 20000; number++)
      OK(pando_tx_put(tx, table, &number, sizeof number, path, 200, &error));
    OK(pando_tx_commit(tx, NULL, &error));
    pando_tx_free(tx);
    CHECK(pthread_create(&first, NULL, close_it, db) == 0);
    while (pando_db_get(db, table, "k", 1, &found, &len, NULL) != PANDO_CLOSED)
      continue;
    OK(pando_db_close(db, &error));
    OK(pando_open(path, NULL, &again, &error));
    pando_db_free(again);
    pthread_join(first, NULL);
    pando_table_free(table);
    pando_db_free(db);
  }
}

static void tables_have_names_and_layouts(pando_db *db) {
  pando_table *table, *other;
  OK(pando_table_create(db, "events", PANDO_LSM, PANDO_LZ4, 60000, &table, &error));
  CHECK(strcmp(pando_table_name(table), "events") == 0 && pando_table_layout(table) == PANDO_LSM);
  EXPECT(PANDO_EXISTS, pando_table_create(db, "events", PANDO_LSM, PANDO_LZ4, 60000, &other, &error));
  EXPECT(PANDO_MISMATCH, pando_table_ensure(db, "events", PANDO_BTREE, PANDO_DEFAULT, 0, &other, &error));
  OK(pando_table_ensure(db, "events", PANDO_DEFAULT, PANDO_DEFAULT, 0, &other, &error));
  pando_table_free(other);
  EXPECT(PANDO_MISSING, pando_table_open(db, "none", &other, &error));
  EXPECT(PANDO_INVALID, pando_table_create(db, "x", 7, PANDO_DEFAULT, 0, &other, &error));
  pando_table_free(table_of(db, "a"));
  char **names;
  size_t count;
  OK(pando_table_list(db, &names, &count, &error));
  CHECK(count == 2 && strcmp(names[0], "a") == 0 && strcmp(names[1], "events") == 0 && names[2] == NULL);
  pando_free(names);
  OK(pando_table_drop(db, "events", &error));
  EXPECT(PANDO_MISSING, pando_table_drop(db, "events", &error));
  EXPECT(PANDO_MISSING, pando_db_put(db, table, "k", 1, "v", 1, &error));
  OK(pando_table_drop(db, "a", &error));
  pando_table_free(table);
}

static void tables_change_their_names_and_options(pando_db *db) {
  pando_table *table, *other;
  OK(pando_table_create(db, "old", PANDO_BTREE, PANDO_DEFAULT, 60000, &table, &error));
  OK(pando_db_put(db, table, "k", 1, "v", 1, &error));
  OK(pando_table_set_layout(db, "old", PANDO_LSM, &error));
  OK(pando_table_set_compression(db, "old", PANDO_LZ4, &error));
  OK(pando_table_set_ttl(db, "old", 7200000, &error));
  OK(pando_table_ensure(db, "old", PANDO_LSM, PANDO_LZ4, 7200000, &other, &error));
  CHECK(pando_table_layout(other) == PANDO_LSM);
  pando_table_free(other);
  expect_value(db, table, "k", "v");
  OK(pando_table_set_ttl(db, "old", 0, &error));
  EXPECT(PANDO_MISMATCH, pando_table_ensure(db, "old", PANDO_LSM, PANDO_LZ4, 7200000, &other, &error));
  EXPECT(PANDO_INVALID, pando_table_set_layout(db, "old", PANDO_DEFAULT, &error));
  EXPECT(PANDO_INVALID, pando_table_set_layout(db, "old", 7, &error));
  EXPECT(PANDO_INVALID, pando_table_set_compression(db, "old", PANDO_DEFAULT, &error));
  EXPECT(PANDO_INVALID, pando_table_set_ttl(db, "old", PANDO_TTL_BY_KEY, &error));
  EXPECT(PANDO_INVALID, pando_table_set_ttl(db, "old", PANDO_NEVER, &error));
  EXPECT(PANDO_INVALID, pando_table_create(db, "never", PANDO_DEFAULT, PANDO_DEFAULT, PANDO_NEVER, &other, &error));
  EXPECT(PANDO_INVALID, pando_table_ensure(db, "never", PANDO_DEFAULT, PANDO_DEFAULT, PANDO_NEVER, &other, &error));
  EXPECT(PANDO_MISSING, pando_table_set_layout(db, "none", PANDO_LSM, &error));
  EXPECT(PANDO_MISSING, pando_table_set_compression(db, "none", PANDO_LZ4, &error));
  EXPECT(PANDO_MISSING, pando_table_set_ttl(db, "none", 1000, &error));
  EXPECT(PANDO_MISSING, pando_table_rename(db, "none", "new", &error));
  OK(pando_table_rename(db, "old", "new", &error));
  EXPECT(PANDO_MISSING, pando_db_put(db, table, "k", 1, "v", 1, &error));
  pando_table_free(table);
  OK(pando_table_open(db, "new", &table, &error));
  expect_value(db, table, "k", "v");
  pando_table_free(table_of(db, "taken"));
  EXPECT(PANDO_EXISTS, pando_table_rename(db, "new", "taken", &error));
  pando_table_free(table);
  OK(pando_table_drop(db, "new", &error));
  OK(pando_table_drop(db, "taken", &error));
}

static void entries_expire_at_times_of_their_own(pando_db *db) {
  pando_table *table, *plain = table_of(db, "plain");
  OK(pando_table_create(db, "cache", PANDO_BTREE, PANDO_DEFAULT, PANDO_TTL_BY_KEY, &table, &error));
  pando_table *same;
  OK(pando_table_ensure(db, "cache", PANDO_BTREE, PANDO_DEFAULT, PANDO_TTL_BY_KEY, &same, &error));
  pando_table_free(same);
  EXPECT(PANDO_MISMATCH, pando_table_ensure(db, "cache", PANDO_BTREE, PANDO_DEFAULT, 1000, &same, &error));
  uint64_t ttl_ms;
  OK(pando_db_put_with_ttl(db, table, "k", 1, "v", 1, 3600000, &error));
  OK(pando_db_expiry(db, table, "k", 1, &ttl_ms, &error));
  CHECK(ttl_ms > 1800000 && ttl_ms <= 3600000);
  OK(pando_db_put_with_ttl(db, table, "n", 1, "v", 1, PANDO_NEVER, &error));
  OK(pando_db_expiry(db, table, "n", 1, &ttl_ms, &error));
  CHECK(ttl_ms == PANDO_NEVER);
  EXPECT(PANDO_ABSENT, pando_db_expiry(db, table, "x", 1, &ttl_ms, &error));
  CHECK(ttl_ms == 0);

  pando_tx *tx;
  pando_snapshot *before;
  OK(pando_snapshot_take(db, &before, &error));
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_put_with_ttl(tx, table, "short", 5, "v", 1, 1, &error));
  OK(pando_tx_set_expiry(tx, table, "n", 1, 3600000, &error));
  OK(pando_tx_set_expiry(tx, table, "k", 1, PANDO_NEVER, &error));
  EXPECT(PANDO_ABSENT, pando_tx_set_expiry(tx, table, "x", 1, 5000, &error));
  OK(pando_tx_expiry(tx, table, "n", 1, &ttl_ms, &error));
  /* It counts from the beginning of the transaction, which was before the call. */
  CHECK(ttl_ms > 1800000 && ttl_ms <= 3660000);
  OK(pando_tx_expiry(tx, table, "k", 1, &ttl_ms, &error));
  CHECK(ttl_ms == PANDO_NEVER);
  EXPECT(PANDO_ABSENT, pando_tx_expiry(tx, table, "x", 1, &ttl_ms, &error));
  EXPECT(PANDO_INVALID, pando_tx_put_with_ttl(tx, plain, "k", 1, "v", 1, 60000, &error));
  EXPECT(PANDO_INVALID, pando_tx_put_with_ttl(tx, plain, "k", 1, "v", 1, PANDO_NEVER, &error));
  EXPECT(PANDO_INVALID, pando_db_put_with_ttl(db, plain, "never", 5, "v", 1, PANDO_NEVER, &error));
  EXPECT(PANDO_INVALID, pando_tx_put_with_ttl(tx, table, "k", 1, "v", 1, 0, &error));
  EXPECT(PANDO_INVALID, pando_tx_set_expiry(tx, plain, "k", 1, 60000, &error));
  EXPECT(PANDO_INVALID, pando_tx_expiry(tx, plain, "k", 1, &ttl_ms, &error));
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);
  OK(pando_snapshot_expiry(before, table, "n", 1, &ttl_ms, &error));
  CHECK(ttl_ms == PANDO_NEVER);
  EXPECT(PANDO_ABSENT, pando_snapshot_expiry(before, table, "short", 5, &ttl_ms, &error));
  pando_snapshot_free(before);
  struct timespec pause = {0, 50000000};
  nanosleep(&pause, NULL);
  expect_value(db, table, "short", NULL);
  expect_value(db, table, "k", "v");
  OK(pando_table_drop(db, "cache", &error));
  OK(pando_table_drop(db, "plain", &error));
  pando_table_free(table);
  pando_table_free(plain);
}

static void values_fit_or_say_how_long_they_are(pando_db *db) {
  pando_table *table = table_of(db, "t");
  char buffer[8];
  size_t len;
  put(db, table, "k", "0123456");
  OK(pando_db_get_into(db, table, "k", 1, buffer, sizeof buffer, &len, &error));
  CHECK(is(buffer, len, "0123456"));
  memset(buffer, '-', sizeof buffer);
  EXPECT(PANDO_TOO_SMALL, pando_db_get_into(db, table, "k", 1, buffer, 6, &len, &error));
  CHECK(len == 7 && buffer[0] == '-');
  EXPECT(PANDO_TOO_SMALL, pando_db_get_into(db, table, "k", 1, NULL, 0, &len, &error));
  CHECK(len == 7);
  EXPECT(PANDO_ABSENT, pando_db_get_into(db, table, "n", 1, buffer, sizeof buffer, &len, &error));
  CHECK(len == 0);
  OK(pando_db_delete(db, table, "k", 1, &error));
  expect_value(db, table, "k", NULL);

  size_t large = 3 << 20;
  char *value = malloc(large);
  memset(value, 'L', large);
  OK(pando_db_put(db, table, "large", 5, value, large, &error));
  void *found;
  OK(pando_db_get(db, table, "large", 5, &found, &len, &error));
  CHECK(len == large && memcmp(found, value, large) == 0);
  pando_free(found);
  free(value);
  OK(pando_table_drop(db, "t", &error));
  pando_table_free(table);
}

static void many_keys_are_one_call(pando_db *db) {
  pando_table *table = table_of(db, "t");
  put(db, table, "a", "1");
  put(db, table, "b", "");
  pando_bytes keys[] = {{"a", 1}, {"x", 1}, {"b", 1}, {"a", 1}}, values[4];
  void *block;
  pando_snapshot *snapshot;
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_snapshot_multi_get(snapshot, table, keys, 4, values, &block, &error));
  CHECK(is(values[0].data, values[0].len, "1") && values[1].data == NULL);
  CHECK(values[2].data != NULL && values[2].len == 0 && is(values[3].data, values[3].len, "1"));
  pando_free(block);
  OK(pando_snapshot_exists(snapshot, table, "a", 1, &error));
  EXPECT(PANDO_ABSENT, pando_snapshot_exists(snapshot, table, "x", 1, &error));

  // A snapshot is one moment.
  put(db, table, "a", "2");
  void *found;
  size_t len;
  OK(pando_snapshot_get(snapshot, table, "a", 1, &found, &len, &error));
  CHECK(is(found, len, "1"));
  pando_free(found);
  uint64_t number = 0;
  OK(pando_snapshot_commit_number(snapshot, &number, &error));
  CHECK(number > 0);
  pando_snapshot_free(snapshot);
  OK(pando_table_drop(db, "t", &error));
  pando_table_free(table);
}

static void transactions_are_all_or_nothing(pando_db *db) {
  pando_table *table = table_of(db, "t"), *own;
  pando_tx *tx;
  OK(pando_tx_begin(db, PANDO_BUFFERED, PANDO_SERIALIZABLE, &tx, &error));
  OK(pando_tx_put(tx, table, "a", 1, "1", 1, &error));
  uint64_t first, second;
  OK(pando_tx_savepoint(tx, &first, &error));
  OK(pando_tx_put(tx, table, "b", 1, "2", 1, &error));
  OK(pando_tx_savepoint(tx, &second, &error));
  OK(pando_tx_rollback_to(tx, first, &error));
  EXPECT(PANDO_INVALID, pando_tx_rollback_to(tx, second, &error));
  EXPECT(PANDO_ABSENT, pando_tx_exists(tx, table, "b", 1, &error));
  OK(pando_tx_release(tx, first, &error));
  EXPECT(PANDO_INVALID, pando_tx_release(tx, first, &error));
  EXPECT(PANDO_EXISTS, pando_tx_insert(tx, table, "a", 1, "2", 1, &error));
  OK(pando_tx_insert(tx, table, "c", 1, "3", 1, &error));
  int swapped;
  OK(pando_tx_compare_and_swap(tx, table, "c", 1, "4", 1, "5", 1, &swapped, &error));
  CHECK(!swapped);
  OK(pando_tx_compare_and_swap(tx, table, "c", 1, "3", 1, "5", 1, &swapped, &error));
  CHECK(swapped);
  OK(pando_tx_compare_and_swap(tx, table, "c", 1, "5", 1, NULL, 0, &swapped, &error));
  CHECK(swapped);
  EXPECT(PANDO_ABSENT, pando_tx_exists(tx, table, "c", 1, &error));
  OK(pando_tx_table_create(tx, "made", PANDO_DEFAULT, PANDO_DEFAULT, 0, &own, &error));
  OK(pando_tx_put(tx, own, "k", 1, "v", 1, &error));
  expect_value(db, table, "a", NULL);
  uint64_t number = 0;
  OK(pando_tx_commit(tx, &number, &error));
  CHECK(number > 0);
  EXPECT(PANDO_CLOSED, pando_tx_put(tx, table, "a", 1, "1", 1, &error));
  EXPECT(PANDO_CLOSED, pando_tx_commit(tx, NULL, &error));
  OK(pando_tx_rollback(tx, &error));
  pando_tx_free(tx);
  expect_value(db, table, "a", "1");
  expect_value(db, own, "k", "v");

  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_delete_range(tx, table, NULL, &error));
  OK(pando_tx_table_drop(tx, own, &error));
  pando_tx_free(tx);  // Rolled back.
  expect_value(db, table, "a", "1");
  expect_value(db, own, "k", "v");
  pando_table_free(own);
  OK(pando_table_drop(db, "made", &error));
  OK(pando_table_drop(db, "t", &error));
  pando_table_free(table);
}

static void a_conflict_names_table_and_key(pando_db *db) {
  pando_table *table = table_of(db, "accounts");
  put(db, table, "anna", "1");
  pando_tx *tx;
  void *found;
  size_t len;
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_get(tx, table, "anna", 4, &found, &len, &error));
  pando_free(found);
  put(db, table, "anna", "2");
  OK(pando_tx_put(tx, table, "bert", 4, "1", 1, &error));
  pando_error *conflict;
  CHECK(pando_tx_commit(tx, NULL, &conflict) == PANDO_CONFLICT);
  CHECK(pando_code_is_retryable(pando_error_code(conflict)) && PANDO_EXIT_CODE(PANDO_CONFLICT) == 5);
  CHECK(strcmp(pando_error_table(conflict), "accounts") == 0);
  const void *key = pando_error_key(conflict, &len);
  CHECK(is(key, len, "anna"));
  pando_error_free(conflict);
  pando_tx_free(tx);
  expect_value(db, table, "bert", NULL);
  OK(pando_table_drop(db, "accounts", &error));
  pando_table_free(table);
}

static void a_hold_keeps_other_commits_out(pando_db *db) {
  pando_table *table = table_of(db, "held");
  pando_hold *hold, *second;
  pando_tx *tx;
  uint64_t number;
  OK(pando_db_try_hold_commits(db, &hold, &error));
  EXPECT(PANDO_ABSENT, pando_db_try_hold_commits(db, &second, &error));
  CHECK(second == NULL);
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_put(tx, table, "a", 1, "1", 1, &error));
  OK(pando_hold_commit(hold, tx, &number, &error));
  CHECK(number > 0);
  EXPECT(PANDO_CLOSED, pando_hold_commit(hold, tx, &number, &error));
  pando_tx_free(tx);
  expect_value(db, table, "a", "1");
  OK(pando_hold_release(hold, &error));
  OK(pando_hold_release(hold, &error));
  put(db, table, "b", "2");
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_put(tx, table, "c", 1, "3", 1, &error));
  OK(pando_db_try_hold_commits(db, &second, &error));
  OK(pando_hold_commit(second, tx, NULL, &error));
  pando_hold_free(second);
  // Without a hold it is a commit as any other.
  pando_tx_free(tx);
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_hold_commit(hold, tx, NULL, &error));
  pando_tx_free(tx);
  pando_hold_free(hold);
  OK(pando_table_drop(db, "held", &error));
  pando_table_free(table);
}

static void no_bytes_have_an_address(pando_db *db) {
  pando_table *table = table_of(db, "empty");
  pando_snapshot *snapshot;
  pando_cursor *cursor;
  pando_bytes key, value;
  OK(pando_db_put(db, table, "", 0, "", 0, &error));
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_snapshot_cursor(snapshot, table, NULL, &cursor, &error));
  OK(pando_cursor_next(cursor, &key, &value, &error));
  CHECK(key.len == 0 && is_address(key.data) && value.len == 0 && is_address(value.data));
  EXPECT(PANDO_ABSENT, pando_cursor_next(cursor, &key, &value, &error));
  OK(pando_cursor_prev(cursor, &key, &value, &error));
  CHECK(is_address(key.data) && is_address(value.data));
  pando_cursor_free(cursor);
  void *block;
  OK(pando_snapshot_multi_get(snapshot, table, &(pando_bytes){"", 0}, 1, &value, &block, &error));
  CHECK(value.len == 0 && is_address(value.data));
  pando_free(block);
  pando_snapshot_free(snapshot);
  // The key of a conflict.
  pando_tx *tx;
  void *found;
  size_t len;
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_get(tx, table, "", 0, &found, &len, &error));
  CHECK(len == 0 && is_address(found));
  pando_free(found);
  OK(pando_db_put(db, table, "", 0, "1", 1, &error));
  OK(pando_tx_put(tx, table, "k", 1, "2", 1, &error));
  pando_error *conflict;
  CHECK(pando_tx_commit(tx, NULL, &conflict) == PANDO_CONFLICT);
  CHECK(is_address(pando_error_key(conflict, &len)) && len == 0);
  pando_error_free(conflict);
  pando_tx_free(tx);
  OK(pando_table_drop(db, "empty", &error));
  pando_table_free(table);
}

static void key_of(char *key, int number) { snprintf(key, 12, "key%06d", number); }

// The cursor comes to the record of this number.
static void expect_step(pando_code code, pando_bytes key, pando_bytes value, int number) {
  char wanted[12], length[12];
  key_of(wanted, number);
  snprintf(length, sizeof length, "%d", number);
  EXPECT(PANDO_OK, code);
  CHECK(is(key.data, key.len, wanted));
  CHECK(is(value.data, value.len, length));
}

static void cursors_go_both_ways(pando_db *db) {
  pando_table *table = table_of(db, "t");
  pando_tx *tx;
  OK(pando_tx_begin(db, PANDO_BUFFERED, PANDO_DEFAULT, &tx, &error));
  for (int i = 0; i < COUNT; i++) {
    char key[12], value[12];
    key_of(key, i);
    snprintf(value, sizeof value, "%d", i);
    OK(pando_tx_put(tx, table, key, strlen(key), value, strlen(value), &error));
  }
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);

  pando_snapshot *snapshot;
  pando_cursor *cursor;
  pando_bytes key, value;
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_snapshot_cursor(snapshot, table, NULL, &cursor, &error));
  pando_snapshot_free(snapshot);  // The cursor keeps what it sees.
  OK(pando_table_drop(db, "t", &error));
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < COUNT; i++) expect_step(pando_cursor_next(cursor, &key, &value, &error), key, value, i);
    EXPECT(PANDO_ABSENT, pando_cursor_next(cursor, &key, &value, &error));
    EXPECT(PANDO_ABSENT, pando_cursor_next(cursor, &key, &value, &error));
    CHECK(key.data == NULL && value.len == 0);
    for (int i = COUNT; i-- > 0;) expect_step(pando_cursor_prev(cursor, &key, &value, &error), key, value, i);
    EXPECT(PANDO_ABSENT, pando_cursor_prev(cursor, &key, &value, &error));
    EXPECT(PANDO_ABSENT, pando_cursor_prev(cursor, &key, &value, &error));
  }
  // A walk at random, beside a number that goes with it.
  int place = -1;
  unsigned state = 7;
  for (int step = 0; step < 3 * COUNT; step++) {
    state = state * 1664525 + 1013904223;
    int forward = state >> 30 != 0;
    int next = place + (forward ? 1 : -1);
    pando_code code = forward ? pando_cursor_next(cursor, &key, &value, &error)
                              : pando_cursor_prev(cursor, &key, &value, &error);
    if (next < 0 || next >= COUNT) {
      EXPECT(PANDO_ABSENT, code);
      place = next < 0 ? -1 : COUNT;
    } else {
      expect_step(code, key, value, next);
      place = next;
    }
    if (state % 997 == 0) {
      char from[12];
      int number = (int)(state / 997 % COUNT);
      key_of(from, number);
      OK(pando_cursor_seek(cursor, from, strlen(from), &error));
      expect_step(pando_cursor_next(cursor, &key, &value, &error), key, value, number);
      place = number;
    }
  }
  OK(pando_cursor_seek(cursor, "key000100", 9, &error));
  expect_step(pando_cursor_prev(cursor, &key, &value, &error), key, value, 99);
  pando_cursor_free(cursor);
  pando_table_free(table);
}

static void a_cursor_over_keys_leaves_out_values(pando_db *db) {
  pando_table *table = table_of(db, "keys");
  pando_tx *tx;
  pando_cursor *cursor;
  pando_bytes key, value;
  pando_snapshot *snapshot;
  put(db, table, "a", "1");
  put(db, table, "b", "2");
  pando_range range = {.start = {"b", 1}, .keys_only = 1};
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_snapshot_cursor(snapshot, table, &range, &cursor, &error));
  OK(pando_cursor_prev(cursor, &key, &value, &error));
  CHECK(is(key.data, key.len, "b") && is(value.data, value.len, "") && is_address(value.data));
  EXPECT(PANDO_ABSENT, pando_cursor_prev(cursor, &key, &value, &error));
  pando_cursor_free(cursor);
  pando_snapshot_free(snapshot);
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  OK(pando_tx_put(tx, table, "c", 1, "3", 1, &error));
  OK(pando_tx_cursor(tx, table, &(pando_range){.keys_only = 1}, &cursor, &error));
  for (const char *wanted = "abc"; *wanted != 0; wanted++) {
    OK(pando_cursor_next(cursor, &key, &value, &error));
    CHECK(key.len == 1 && *(const char *)key.data == *wanted && value.len == 0 && is_address(value.data));
  }
  EXPECT(PANDO_ABSENT, pando_cursor_next(cursor, &key, &value, &error));
  pando_cursor_free(cursor);
  pando_tx_free(tx);
  OK(pando_table_drop(db, "keys", &error));
  pando_table_free(table);
}

static void expect_range(pando_tx *tx, pando_table *table, const pando_range *range, const char *wanted) {
  pando_cursor *cursor;
  pando_bytes key;
  char found[64] = "";
  OK(pando_tx_cursor(tx, table, range, &cursor, &error));
  pando_code code;
  while ((code = pando_cursor_next(cursor, &key, NULL, &error)) == PANDO_OK)
    strncat(found, key.data, key.len);
  EXPECT(PANDO_ABSENT, code);
  if (strcmp(found, wanted) != 0) fprintf(stderr, "found %s instead of %s\n", found, wanted);
  CHECK(strcmp(found, wanted) == 0);
  pando_cursor_free(cursor);
}

static void records_read_ahead_end_with_the_transaction(pando_db *db) {
  pando_table *table = table_of(db, "t");
  for (int commits = 0; commits < 2; commits++) {
    pando_tx *tx;
    pando_cursor *cursor;
    pando_bytes key;
    OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
    for (int i = 0; i < 3; i++) OK(pando_tx_put(tx, table, &"abc"[i], 1, "", 0, &error));
    OK(pando_tx_cursor(tx, table, NULL, &cursor, &error));
    OK(pando_cursor_next(cursor, &key, NULL, &error));
    OK(commits ? pando_tx_commit(tx, NULL, &error) : pando_tx_rollback(tx, &error));
    EXPECT(PANDO_CLOSED, pando_cursor_next(cursor, &key, NULL, &error));
    CHECK(key.data == NULL);
    EXPECT(PANDO_CLOSED, pando_cursor_prev(cursor, &key, NULL, &error));
    pando_tx_free(tx);
    pando_cursor_free(cursor);
  }
  OK(pando_table_drop(db, "t", &error));
  pando_table_free(table);
}

static void ranges_have_ends(pando_db *db) {
  pando_table *table = table_of(db, "t");
  pando_tx *tx;
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  const char *keys[] = {"a", "ab", "b", "ba", "c"};
  for (int i = 0; i < 5; i++) OK(pando_tx_put(tx, table, keys[i], strlen(keys[i]), "", 0, &error));
  pando_range all = {0};
  pando_range middle = {.start = {"ab", 2}, .end = {"c", 1}};
  pando_range inner = {.start = {"ab", 2}, .end = {"c", 1}, .excludes_start = 1, .includes_end = 1};
  pando_range prefix = {.prefix = {"b", 1}};
  pando_range both = {.prefix = {"b", 1}, .start = {"b", 1}, .excludes_start = 1};
  pando_range nothing = {.start = {"b", 1}, .end = {"a", 1}};
  pando_range before_all = {.end = {"", 0}};
  expect_range(tx, table, &all, "aabbbac");
  expect_range(tx, table, NULL, "aabbbac");
  expect_range(tx, table, &middle, "abbba");
  expect_range(tx, table, &inner, "bbac");
  expect_range(tx, table, &prefix, "bba");
  expect_range(tx, table, &both, "ba");
  expect_range(tx, table, &nothing, "");
  expect_range(tx, table, &before_all, "");

  // A cursor sees what its transaction writes between two steps.
  pando_cursor *cursor;
  pando_bytes key;
  OK(pando_tx_cursor(tx, table, NULL, &cursor, &error));
  OK(pando_cursor_next(cursor, &key, NULL, &error));
  OK(pando_tx_put(tx, table, "aa", 2, "", 0, &error));
  OK(pando_tx_delete(tx, table, "ab", 2, &error));
  OK(pando_cursor_next(cursor, &key, NULL, &error));
  CHECK(is(key.data, key.len, "aa"));
  OK(pando_cursor_next(cursor, &key, NULL, &error));
  CHECK(is(key.data, key.len, "b"));
  OK(pando_tx_delete_range(tx, table, &prefix, &error));
  expect_range(tx, table, NULL, "aaac");
  OK(pando_cursor_next(cursor, &key, NULL, &error));
  CHECK(is(key.data, key.len, "c"));
  OK(pando_tx_rollback(tx, &error));
  EXPECT(PANDO_CLOSED, pando_cursor_prev(cursor, &key, NULL, &error));
  pando_tx_free(tx);
  pando_cursor_free(cursor);
  OK(pando_table_drop(db, "t", &error));
  pando_table_free(table);
}

struct calls {
  int count, most;
  uint64_t done, expected;
};

// Ends the work after the most calls.
static int note(void *context, uint64_t done, uint64_t expected) {
  struct calls *calls = context;
  calls->done = done;
  calls->expected = expected;
  return ++calls->count > calls->most;
}

static void long_work_reports_its_progress(const char *root) {
  pando_db *db;
  char folder[4096], target[4096], value[1000] = {0};
  snprintf(folder, sizeof folder, "%s/watched", root);
  snprintf(target, sizeof target, "%s/rebuilt", root);
  OK(pando_create(at(root, "p"), NULL, &db, &error));
  pando_table *table = table_of(db, "t");
  pando_tx *tx;
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  for (int key = 0; key < 500; key++)
    OK(pando_tx_put(tx, table, &key, sizeof key, value, sizeof value, &error));
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);
  OK(pando_db_checkpoint(db, &error));
  struct calls calls = {.most = 1 << 30}, none = {0};
  OK(pando_db_check(db, note, &calls, &error));
  CHECK(calls.count > 0 && calls.done >= 1 && calls.expected >= 500);
  calls.count = 0;
  OK(pando_db_compact(db, note, &calls, &error));
  CHECK(calls.count > 0 && calls.done > 0);
  calls.count = 0;
  OK(pando_db_backup(db, folder, 0, note, &calls, NULL, &error));
  CHECK(calls.count > 0 && calls.done > 500 * sizeof value);
  EXPECT(PANDO_INTERRUPTED, pando_db_check(db, note, &none, &error));
  EXPECT(PANDO_INTERRUPTED, pando_db_compact(db, note, &none, &error));
  EXPECT(PANDO_INTERRUPTED, pando_db_backup(db, folder, 0, note, &none, NULL, &error));
  pando_table_free(table);
  pando_db_free(db);
  EXPECT(PANDO_INTERRUPTED, pando_restore(folder, NULL, target, note, &none, &error));
  EXPECT(PANDO_MISSING, pando_open(target, NULL, &db, &error));
  strcat(target, "2");
  calls.count = 0;
  OK(pando_restore(folder, NULL, target, note, &calls, &error));
  CHECK(calls.count > 0 && calls.done == calls.expected);
}

static void backups_can_be_restored(const char *root) {
  pando_db *db;
  char folder[4096], target[4096], *name, *json;
  snprintf(folder, sizeof folder, "%s/backups", root);
  snprintf(target, sizeof target, "%s/restored", root);
  OK(pando_create(at(root, "b"), NULL, &db, &error));
  pando_table *table = table_of(db, "t");
  put(db, table, "k", "1");
  OK(pando_db_backup(db, folder, 0, NULL, NULL, &name, &error));
  CHECK(strlen(name) > 0);
  put(db, table, "k", "2");
  OK(pando_db_backup(db, folder, 1, NULL, NULL, NULL, &error));
  OK(pando_db_stats(db, &json, &error));
  CHECK(json[0] == '{' && strstr(json, "\"last_commit\": ") != NULL && json[strlen(json) - 1] == '}');
  pando_free(json);
  pando_table_free(table);
  pando_db_free(db);

  OK(pando_restore(folder, name, target, NULL, NULL, &error));
  OK(pando_open(target, NULL, &db, &error));
  table = table_of(db, "t");
  expect_value(db, table, "k", "1");
  pando_table_free(table);
  pando_db_free(db);
  strcat(target, "2");
  OK(pando_restore(folder, NULL, target, NULL, NULL, &error));
  OK(pando_open(target, NULL, &db, &error));
  table = table_of(db, "t");
  expect_value(db, table, "k", "2");
  pando_table_free(table);
  pando_db_free(db);
  pando_free(name);
}

enum { THREADS = 4, ROUNDS = 200 };

struct shared {
  pando_db *db;
  pando_table *table;
  pando_snapshot *snapshot;
};

// Adds one to a number, again after each conflict, and reads from a snapshot that all threads use.
static void *count_up(void *argument) {
  struct shared *shared = argument;
  for (int i = 0; i < ROUNDS;) {
    pando_tx *tx;
    char text[16] = "0";
    size_t len;
    if (pando_tx_begin(shared->db, PANDO_BUFFERED, PANDO_DEFAULT, &tx, NULL) != PANDO_OK) abort();
    pando_code code = pando_tx_get_into(tx, shared->table, "n", 1, text, sizeof text - 1, &len, NULL);
    if (code != PANDO_OK && code != PANDO_ABSENT) abort();
    text[code == PANDO_OK ? len : 1] = '\0';
    snprintf(text, sizeof text, "%d", atoi(text) + 1);
    if (pando_tx_put(tx, shared->table, "n", 1, text, strlen(text), NULL) != PANDO_OK) abort();
    code = pando_tx_commit(tx, NULL, NULL);
    pando_tx_free(tx);
    if (code == PANDO_OK) i++;
    else if (!pando_code_is_retryable(code)) abort();
    code = pando_snapshot_exists(shared->snapshot, shared->table, "n", 1, NULL);
    if (code != PANDO_ABSENT && code != PANDO_IN_USE) abort();
  }
  return NULL;
}

static void threads_share_a_database(pando_db *db) {
  struct shared shared = {db, table_of(db, "t"), NULL};
  OK(pando_snapshot_take(db, &shared.snapshot, &error));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, count_up, &shared) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  char wanted[16];
  snprintf(wanted, sizeof wanted, "%d", THREADS * ROUNDS);
  expect_value(db, shared.table, "n", wanted);
  pando_snapshot_free(shared.snapshot);
  OK(pando_table_drop(db, "t", &error));
  pando_table_free(shared.table);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  CHECK(strcmp(pando_version(), PANDO_VERSION) == 0);
  it_is_there_after_reopening(argv[1]);
  a_second_close_waits_for_the_first(argv[1]);
  long_work_reports_its_progress(argv[1]);
  backups_can_be_restored(argv[1]);
  pando_db *db;
  OK(pando_in_memory(NULL, &db, &error));
  tables_have_names_and_layouts(db);
  tables_change_their_names_and_options(db);
  entries_expire_at_times_of_their_own(db);
  values_fit_or_say_how_long_they_are(db);
  many_keys_are_one_call(db);
  transactions_are_all_or_nothing(db);
  a_conflict_names_table_and_key(db);
  a_hold_keeps_other_commits_out(db);
  no_bytes_have_an_address(db);
  cursors_go_both_ways(db);
  records_read_ahead_end_with_the_transaction(db);
  a_cursor_over_keys_leaves_out_values(db);
  ranges_have_ends(db);
  threads_share_a_database(db);
  OK(pando_db_close(db, &error));
  pando_db_free(db);
  return 0;
}
