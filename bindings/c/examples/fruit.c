// Opens a database, changes it in a transaction, and reads it: cc fruit.c $(pkg-config --cflags --libs pando)

#include <pando.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program after a failure.
static void check(pando_code code, pando_error *error) {
  if (code == PANDO_OK) return;
  fprintf(stderr, "%s: %s\n", pando_code_name(code), pando_error_message(error));
  pando_error_free(error);
  exit(PANDO_EXIT_CODE(code));
}

// Moves one fruit from shelf to basket. Both change, or none.
static pando_code move(pando_db *db, pando_table *shelf, pando_table *basket, pando_error **error) {
  pando_tx *tx = NULL;
  void *color = NULL;
  size_t color_len = 0;
  pando_code code = pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, error);
  if (code == PANDO_OK) code = pando_tx_get(tx, shelf, "lemon", 5, &color, &color_len, error);
  if (code == PANDO_OK) code = pando_tx_put(tx, basket, "lemon", 5, color, color_len, error);
  if (code == PANDO_OK) code = pando_tx_delete(tx, shelf, "lemon", 5, error);
  if (code == PANDO_OK) code = pando_tx_commit(tx, NULL, error);
  pando_free(color);
  pando_tx_free(tx);  // Rolls back, if it was not committed.
  return code;
}

int main(int argc, char **argv) {
  pando_error *error = NULL;
  pando_db *db = NULL;
  pando_table *shelf = NULL, *basket = NULL;
  check(pando_create(argc > 1 ? argv[1] : "fruit.pando", NULL, &db, &error), error);
  check(pando_table_ensure(db, "shelf", PANDO_DEFAULT, PANDO_DEFAULT, 0, &shelf, &error), error);
  check(pando_table_ensure(db, "basket", PANDO_LSM, PANDO_LZ4, 0, &basket, &error), error);
  check(pando_db_put(db, shelf, "apple", 5, "red", 3, &error), error);
  check(pando_db_put(db, shelf, "lemon", 5, "yellow", 6, &error), error);

  pando_code code;
  while (pando_code_is_retryable(code = move(db, shelf, basket, &error))) {
    const char *table = pando_error_table(error);
    fprintf(stderr, "conflict in table %s, again\n", table ? table : "?");
    pando_error_free(error);
  }
  check(code, error);

  pando_snapshot *snapshot = NULL;  // One moment, for as long as it lives.
  pando_cursor *cursor = NULL;
  pando_bytes key, value;
  check(pando_snapshot_take(db, &snapshot, &error), error);
  check(pando_snapshot_cursor(snapshot, basket, NULL, &cursor, &error), error);
  while ((code = pando_cursor_next(cursor, &key, &value, &error)) == PANDO_OK)
    printf("%.*s is %.*s\n", (int)key.len, (const char *)key.data, (int)value.len, (const char *)value.data);
  check(code == PANDO_ABSENT ? PANDO_OK : code, error);

  pando_cursor_free(cursor);
  pando_snapshot_free(snapshot);
  pando_table_free(basket);
  pando_table_free(shelf);
  check(pando_db_close(db, &error), error);
  pando_db_free(db);
  return 0;
}
