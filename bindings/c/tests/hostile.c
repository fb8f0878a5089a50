// Arguments that no correct program gives have a code as their result, and never more than that. The argument is an
// empty directory.

#include "expect.h"

// NULL in place of each handle and output, the wrong handle, and lengths that cannot be.
#define MISUSE(call) EXPECT(PANDO_MISUSE, call)
#define INVALID(call) EXPECT(PANDO_INVALID, call)

static pando_db *db, *other_db;
static pando_table *table, *other_table;
static pando_tx *tx;
static pando_snapshot *snapshot;
static pando_cursor *cursor;
static pando_options *options;

static void *value;
static char *text;
static char **names;
static char buffer[16];
static size_t len;
static uint64_t number;
static int flag;
static pando_bytes bytes;
static pando_db *new_db;
static pando_table *new_table;
static pando_tx *new_tx;
static pando_snapshot *new_snapshot;
static pando_cursor *new_cursor;
static pando_hold *hold;

static void null_in_every_place(const char *path) {
  MISUSE(pando_options_set(NULL, "read_only", "no", &error));
  MISUSE(pando_options_set(options, NULL, "no", &error));
  MISUSE(pando_options_set(options, "read_only", NULL, &error));
  MISUSE(pando_open(NULL, NULL, &new_db, &error));
  MISUSE(pando_open(path, NULL, NULL, &error));
  MISUSE(pando_create(NULL, NULL, &new_db, &error));
  MISUSE(pando_create(path, NULL, NULL, &error));
  MISUSE(pando_in_memory(NULL, NULL, &error));
  MISUSE(pando_db_close(NULL, &error));
  MISUSE(pando_db_get(NULL, table, "k", 1, &value, &len, &error));
  MISUSE(pando_db_get(db, NULL, "k", 1, &value, &len, &error));
  MISUSE(pando_db_get(db, table, NULL, 1, &value, &len, &error));
  MISUSE(pando_db_get(db, table, "k", 1, NULL, &len, &error));
  MISUSE(pando_db_get(db, table, "k", 1, &value, NULL, &error));
  MISUSE(pando_db_get_into(NULL, table, "k", 1, buffer, 16, &len, &error));
  MISUSE(pando_db_get_into(db, NULL, "k", 1, buffer, 16, &len, &error));
  MISUSE(pando_db_get_into(db, table, NULL, 1, buffer, 16, &len, &error));
  MISUSE(pando_db_get_into(db, table, "k", 1, NULL, 16, &len, &error));
  MISUSE(pando_db_get_into(db, table, "k", 1, buffer, 16, NULL, &error));
  MISUSE(pando_db_put(NULL, table, "k", 1, "v", 1, &error));
  MISUSE(pando_db_put(db, NULL, "k", 1, "v", 1, &error));
  MISUSE(pando_db_put(db, table, NULL, 1, "v", 1, &error));
  MISUSE(pando_db_put(db, table, "k", 1, NULL, 1, &error));
  MISUSE(pando_db_delete(NULL, table, "k", 1, &error));
  MISUSE(pando_db_delete(db, NULL, "k", 1, &error));
  MISUSE(pando_db_delete(db, table, NULL, 1, &error));
  MISUSE(pando_db_put_with_ttl(NULL, table, "k", 1, "v", 1, 9, &error));
  MISUSE(pando_db_put_with_ttl(db, NULL, "k", 1, "v", 1, 9, &error));
  MISUSE(pando_db_put_with_ttl(db, table, NULL, 1, "v", 1, 9, &error));
  MISUSE(pando_db_put_with_ttl(db, table, "k", 1, NULL, 1, 9, &error));
  MISUSE(pando_tx_put_with_ttl(NULL, table, "k", 1, "v", 1, 9, &error));
  MISUSE(pando_tx_put_with_ttl(tx, NULL, "k", 1, "v", 1, 9, &error));
  MISUSE(pando_tx_put_with_ttl(tx, table, NULL, 1, "v", 1, 9, &error));
  MISUSE(pando_tx_put_with_ttl(tx, table, "k", 1, NULL, 1, 9, &error));
  MISUSE(pando_tx_set_expiry(NULL, table, "k", 1, 9, &error));
  MISUSE(pando_tx_set_expiry(tx, NULL, "k", 1, 9, &error));
  MISUSE(pando_tx_set_expiry(tx, table, NULL, 1, 9, &error));
  MISUSE(pando_db_expiry(NULL, table, "k", 1, &number, &error));
  MISUSE(pando_db_expiry(db, NULL, "k", 1, &number, &error));
  MISUSE(pando_db_expiry(db, table, NULL, 1, &number, &error));
  MISUSE(pando_db_expiry(db, table, "k", 1, NULL, &error));
  MISUSE(pando_snapshot_expiry(NULL, table, "k", 1, &number, &error));
  MISUSE(pando_snapshot_expiry(snapshot, NULL, "k", 1, &number, &error));
  MISUSE(pando_snapshot_expiry(snapshot, table, NULL, 1, &number, &error));
  MISUSE(pando_snapshot_expiry(snapshot, table, "k", 1, NULL, &error));
  MISUSE(pando_tx_expiry(NULL, table, "k", 1, &number, &error));
  MISUSE(pando_tx_expiry(tx, NULL, "k", 1, &number, &error));
  MISUSE(pando_tx_expiry(tx, table, NULL, 1, &number, &error));
  MISUSE(pando_tx_expiry(tx, table, "k", 1, NULL, &error));
  MISUSE(pando_db_checkpoint(NULL, &error));
  MISUSE(pando_db_sync(NULL, &error));
  MISUSE(pando_db_catch_up(NULL, &error));
  MISUSE(pando_db_check(NULL, NULL, NULL, &error));
  MISUSE(pando_db_stats(NULL, &text, &error));
  MISUSE(pando_db_stats(db, NULL, &error));
  MISUSE(pando_db_backup(db, NULL, 0, NULL, NULL, &text, &error));
  MISUSE(pando_restore(NULL, NULL, path, NULL, NULL, &error));
  MISUSE(pando_table_open(NULL, "t", &new_table, &error));
  MISUSE(pando_table_open(db, NULL, &new_table, &error));
  MISUSE(pando_table_open(db, "t", NULL, &error));
  MISUSE(pando_table_create(NULL, "u", 0, 0, 0, &new_table, &error));
  MISUSE(pando_table_create(db, NULL, 0, 0, 0, &new_table, &error));
  MISUSE(pando_table_create(db, "u", 0, 0, 0, NULL, &error));
  MISUSE(pando_table_ensure(NULL, "t", 0, 0, 0, &new_table, &error));
  MISUSE(pando_table_ensure(db, NULL, 0, 0, 0, &new_table, &error));
  MISUSE(pando_table_ensure(db, "t", 0, 0, 0, NULL, &error));
  MISUSE(pando_table_drop(NULL, "t", &error));
  MISUSE(pando_table_drop(db, NULL, &error));
  MISUSE(pando_table_list(NULL, &names, &len, &error));
  MISUSE(pando_table_list(db, NULL, &len, &error));
  MISUSE(pando_table_list(db, &names, NULL, &error));
  MISUSE(pando_snapshot_take(NULL, &new_snapshot, &error));
  MISUSE(pando_snapshot_take(db, NULL, &error));
  MISUSE(pando_snapshot_get(NULL, table, "k", 1, &value, &len, &error));
  MISUSE(pando_snapshot_get(snapshot, NULL, "k", 1, &value, &len, &error));
  MISUSE(pando_snapshot_get_into(NULL, table, "k", 1, buffer, 16, &len, &error));
  MISUSE(pando_snapshot_exists(NULL, table, "k", 1, &error));
  MISUSE(pando_snapshot_exists(snapshot, table, NULL, 1, &error));
  MISUSE(pando_snapshot_multi_get(NULL, table, &bytes, 1, &bytes, &value, &error));
  MISUSE(pando_snapshot_multi_get(snapshot, table, NULL, 1, &bytes, &value, &error));
  MISUSE(pando_snapshot_multi_get(snapshot, table, &bytes, 1, NULL, &value, &error));
  MISUSE(pando_snapshot_multi_get(snapshot, table, &bytes, 1, &bytes, NULL, &error));
  MISUSE(pando_snapshot_cursor(NULL, table, NULL, &new_cursor, &error));
  MISUSE(pando_snapshot_cursor(snapshot, NULL, NULL, &new_cursor, &error));
  MISUSE(pando_snapshot_cursor(snapshot, table, NULL, NULL, &error));
  MISUSE(pando_snapshot_commit_number(NULL, &number, &error));
  MISUSE(pando_snapshot_commit_number(snapshot, NULL, &error));
  MISUSE(pando_tx_begin(NULL, 0, 0, &new_tx, &error));
  MISUSE(pando_tx_begin(db, 0, 0, NULL, &error));
  MISUSE(pando_tx_get(NULL, table, "k", 1, &value, &len, &error));
  MISUSE(pando_tx_get_into(NULL, table, "k", 1, buffer, 16, &len, &error));
  MISUSE(pando_tx_exists(NULL, table, "k", 1, &error));
  MISUSE(pando_tx_multi_get(NULL, table, &bytes, 1, &bytes, &value, &error));
  MISUSE(pando_tx_put(NULL, table, "k", 1, "v", 1, &error));
  MISUSE(pando_tx_put(tx, NULL, "k", 1, "v", 1, &error));
  MISUSE(pando_tx_put(tx, table, NULL, 1, "v", 1, &error));
  MISUSE(pando_tx_put(tx, table, "k", 1, NULL, 1, &error));
  MISUSE(pando_tx_insert(NULL, table, "k", 1, "v", 1, &error));
  MISUSE(pando_tx_delete(NULL, table, "k", 1, &error));
  MISUSE(pando_tx_compare_and_swap(NULL, table, "k", 1, "v", 1, "w", 1, &flag, &error));
  MISUSE(pando_tx_compare_and_swap(tx, table, "k", 1, NULL, 1, "w", 1, &flag, &error));
  MISUSE(pando_tx_compare_and_swap(tx, table, "k", 1, "v", 1, "w", 1, NULL, &error));
  MISUSE(pando_tx_delete_range(NULL, table, NULL, &error));
  MISUSE(pando_tx_delete_range(tx, NULL, NULL, &error));
  MISUSE(pando_tx_table_open(NULL, "t", &new_table, &error));
  MISUSE(pando_tx_table_open(tx, "t", NULL, &error));
  MISUSE(pando_tx_table_create(NULL, "u", 0, 0, 0, &new_table, &error));
  MISUSE(pando_tx_table_drop(NULL, table, &error));
  MISUSE(pando_tx_table_drop(tx, NULL, &error));
  MISUSE(pando_tx_savepoint(NULL, &number, &error));
  MISUSE(pando_tx_savepoint(tx, NULL, &error));
  MISUSE(pando_tx_rollback_to(NULL, 1, &error));
  MISUSE(pando_tx_release(NULL, 1, &error));
  MISUSE(pando_tx_cursor(NULL, table, NULL, &new_cursor, &error));
  MISUSE(pando_tx_commit(NULL, NULL, &error));
  MISUSE(pando_db_try_hold_commits(NULL, &hold, &error));
  MISUSE(pando_db_try_hold_commits(db, NULL, &error));
  MISUSE(pando_hold_commit(NULL, tx, NULL, &error));
  MISUSE(pando_hold_release(NULL, &error));
  OK(pando_db_try_hold_commits(db, &hold, &error));
  MISUSE(pando_hold_commit(hold, NULL, NULL, &error));
  pando_hold_free(hold);
  pando_hold_free(NULL);
  MISUSE(pando_tx_rollback(NULL, &error));
  MISUSE(pando_cursor_next(NULL, &bytes, &bytes, &error));
  MISUSE(pando_cursor_prev(NULL, &bytes, &bytes, &error));
  MISUSE(pando_cursor_seek(NULL, "k", 1, &error));
  MISUSE(pando_cursor_seek(cursor, NULL, 1, &error));
  CHECK(new_db == NULL && new_table == NULL && new_tx == NULL && new_snapshot == NULL && new_cursor == NULL);
  CHECK(value == NULL && text == NULL && names == NULL);

  CHECK(pando_error_code(NULL) == PANDO_MISUSE && strcmp(pando_error_message(NULL), "") == 0);
  CHECK(pando_error_table(NULL) == NULL && pando_error_key(NULL, &len) == NULL && len == 0);
  CHECK(pando_table_name(NULL) == NULL && pando_table_layout(NULL) == 0 && pando_db_is_read_only(NULL) == 0);
  CHECK(strcmp(pando_code_name(-1), "unknown") == 0 && !pando_code_is_retryable(1 << 30));
  pando_free(NULL);
  pando_error_free(NULL);
  pando_options_free(NULL);
  pando_db_free(NULL);
  pando_table_free(NULL);
  pando_snapshot_free(NULL);
  pando_tx_free(NULL);
  pando_cursor_free(NULL);
}

// A caller that does not want the error gets the code all the same.
static void without_an_error_object(void) {
  CHECK(pando_db_put(NULL, table, "k", 1, "v", 1, NULL) == PANDO_MISUSE);
  CHECK(pando_db_put(db, table, "k", 1, "v", 1, NULL) == PANDO_OK);
}

static void handles_of_other_types(void) {
  MISUSE(pando_db_put((pando_db *)tx, table, "k", 1, "v", 1, &error));
  MISUSE(pando_db_put(db, (pando_table *)db, "k", 1, "v", 1, &error));
  MISUSE(pando_db_put(db, (pando_table *)snapshot, "k", 1, "v", 1, &error));
  MISUSE(pando_tx_commit((pando_tx *)cursor, NULL, &error));
  MISUSE(pando_cursor_next((pando_cursor *)options, NULL, NULL, &error));
  MISUSE(pando_open("x", (pando_options *)table, &new_db, &error));
  MISUSE(pando_tx_put((pando_tx *)((char *)tx + 1), table, "k", 1, "v", 1, &error));
  CHECK(pando_table_name((pando_table *)tx) == NULL);
  pando_db_free((pando_db *)tx);  // Not freed: it is none.
  pando_tx_free((pando_tx *)snapshot);
  OK(pando_tx_put(tx, table, "k", 1, "v", 1, &error));
  OK(pando_snapshot_commit_number(snapshot, &number, &error));
}

static void tables_of_another_database(void) {
  INVALID(pando_db_put(db, other_table, "k", 1, "v", 1, &error));
  INVALID(pando_db_get(db, other_table, "k", 1, &value, &len, &error));
  INVALID(pando_tx_put(tx, other_table, "k", 1, "v", 1, &error));
  INVALID(pando_tx_delete_range(tx, other_table, NULL, &error));
  INVALID(pando_snapshot_exists(snapshot, other_table, "k", 1, &error));
  OK(pando_snapshot_cursor(snapshot, other_table, NULL, &new_cursor, &error));
  INVALID(pando_cursor_next(new_cursor, NULL, NULL, &error));
  pando_cursor_free(new_cursor);
}

static void lengths(void) {
  // Nothing is read at such a length.
  INVALID(pando_db_put(db, table, "k", SIZE_MAX, "v", 1, &error));
  INVALID(pando_db_put(db, table, "k", SIZE_MAX / 2, "v", 1, &error));
  INVALID(pando_db_put(db, table, "k", 1, "v", SIZE_MAX, &error));
  INVALID(pando_db_put(db, table, "k", 1, "v", (size_t)1 << 40, &error));
  INVALID(pando_db_get(db, table, "k", SIZE_MAX, &value, &len, &error));
  INVALID(pando_snapshot_multi_get(snapshot, table, &bytes, SIZE_MAX, &bytes, &value, &error));
  INVALID(pando_snapshot_multi_get(snapshot, table, &bytes, (size_t)1 << 40, &bytes, &value, &error));
  pando_bytes huge = {"k", SIZE_MAX};
  INVALID(pando_snapshot_multi_get(snapshot, table, &huge, 1, &bytes, &value, &error));
  pando_range range = {.end = huge};
  INVALID(pando_snapshot_cursor(snapshot, table, &range, &new_cursor, &error));
  range = (pando_range){.prefix = {NULL, 3}};
  MISUSE(pando_tx_delete_range(tx, table, &range, &error));
  char *long_key = calloc(1, 20000);
  INVALID(pando_db_put(db, table, long_key, 20000, "v", 1, &error));
  INVALID(pando_db_put(db, table, long_key, 10000, "v", 1, &error));
  free(long_key);
  // Nothing is a key, and a value.
  OK(pando_db_put(db, table, NULL, 0, NULL, 0, &error));
  OK(pando_db_get(db, table, "", 0, &value, &len, &error));
  CHECK(value != NULL && len == 0);
  pando_free(value);
  OK(pando_db_get_into(db, table, NULL, 0, NULL, 0, &len, &error));
  OK(pando_db_delete(db, table, NULL, 0, &error));
  OK(pando_snapshot_multi_get(snapshot, table, NULL, 0, NULL, &value, &error));
  pando_free(value);
  // One array for keys and values.
  OK(pando_tx_put(tx, table, "one", 3, "two", 3, &error));
  bytes = (pando_bytes){"one", 3};
  OK(pando_tx_multi_get(tx, table, &bytes, 1, &bytes, &value, &error));
  CHECK(is(bytes.data, bytes.len, "two"));
  pando_free(value);
}

static void names_and_choices(void) {
  INVALID(pando_table_open(db, "\xff", &new_table, &error));
  INVALID(pando_table_create(db, "", 0, 0, 0, &new_table, &error));
  char name[300];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  INVALID(pando_table_create(db, name, 0, 0, 0, &new_table, &error));
  INVALID(pando_table_create(db, "u", -1, 0, 0, &new_table, &error));
  INVALID(pando_table_create(db, "u", 0, 99, 0, &new_table, &error));
  INVALID(pando_tx_begin(db, 4, 0, &new_tx, &error));
  INVALID(pando_tx_begin(db, 0, -1, &new_tx, &error));
  INVALID(pando_tx_rollback_to(tx, 0, &error));
  INVALID(pando_tx_release(tx, UINT64_MAX, &error));
  INVALID(pando_options_set(options, "memory_bytes", "99999999999999999999", &error));
  INVALID(pando_options_set(options, "read_only", "perhaps", &error));
  OK(pando_options_set(options, "page_bytes", "5000", &error));
  INVALID(pando_in_memory(options, &new_db, &error));
  CHECK(new_table == NULL && new_tx == NULL && new_db == NULL);
}

static void files_that_are_no_database(const char *root) {
  char path[4096];
  snprintf(path, sizeof path, "%s/none", root);
  EXPECT(PANDO_MISSING, pando_open(path, NULL, &new_db, &error));
  EXPECT(PANDO_MISSING, pando_restore(path, NULL, "/nowhere", NULL, NULL, &error));
  snprintf(path, sizeof path, "%s/foreign", root);
  OK(pando_create(path, NULL, &new_db, &error));
  OK(pando_db_close(new_db, &error));
  pando_db_free(new_db);
  snprintf(path, sizeof path, "%s/foreign/data", root);
  FILE *file = fopen(path, "r+");
  CHECK(file != NULL);
  for (int i = 0; i < 100; i++) CHECK(fwrite("not a database, or one that was overwritten with this. ", 1, 55, file) == 55);
  CHECK(fclose(file) == 0);
  snprintf(path, sizeof path, "%s/foreign", root);
  pando_code code = pando_open(path, NULL, &new_db, &error);
  CHECK(PANDO_EXIT_CODE(code) == 3 && new_db == NULL);
  pando_error_free(error);
  error = NULL;
}

static void objects_of_a_closed_database(void) {
  OK(pando_db_close(db, &error));
  EXPECT(PANDO_CLOSED, pando_db_put(db, table, "k", 1, "v", 1, &error));
  EXPECT(PANDO_CLOSED, pando_db_get(db, table, "k", 1, &value, &len, &error));
  EXPECT(PANDO_CLOSED, pando_tx_put(tx, table, "k", 1, "v", 1, &error));
  EXPECT(PANDO_CLOSED, pando_tx_get(tx, table, "k", 1, &value, &len, &error));
  EXPECT(PANDO_CLOSED, pando_tx_commit(tx, NULL, &error));
  EXPECT(PANDO_CLOSED, pando_db_try_hold_commits(db, &hold, &error));
  EXPECT(PANDO_CLOSED, pando_snapshot_get(snapshot, table, "k", 1, &value, &len, &error));
  EXPECT(PANDO_CLOSED, pando_snapshot_take(db, &new_snapshot, &error));
  EXPECT(PANDO_CLOSED, pando_tx_begin(db, 0, 0, &new_tx, &error));
  EXPECT(PANDO_CLOSED, pando_cursor_next(cursor, NULL, NULL, &error));
  EXPECT(PANDO_CLOSED, pando_db_stats(db, &text, &error));
  EXPECT(PANDO_CLOSED, pando_table_open(db, "t", &new_table, &error));
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  options = pando_options_new();
  OK(pando_in_memory(NULL, &db, &error));
  OK(pando_in_memory(NULL, &other_db, &error));
  OK(pando_table_ensure(db, "t", 0, 0, 0, &table, &error));
  OK(pando_table_ensure(other_db, "t", 0, 0, 0, &other_table, &error));
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_tx_begin(db, 0, 0, &tx, &error));
  OK(pando_tx_cursor(tx, table, NULL, &cursor, &error));
  null_in_every_place(argv[1]);
  without_an_error_object();
  handles_of_other_types();
  tables_of_another_database();
  lengths();
  names_and_choices();
  files_that_are_no_database(argv[1]);
  objects_of_a_closed_database();
  // The database first, and what depends on it later.
  pando_db_free(db);
  pando_db_free(other_db);
  pando_table_free(other_table);
  pando_table_free(table);
  pando_tx_free(tx);
  pando_cursor_free(cursor);
  pando_snapshot_free(snapshot);
  pando_options_free(options);
  return 0;
}
