// Every call in the child of a fork returns PANDO_FORKED, also one that needs nothing of the database. The argument is an
// empty directory.

#include "expect.h"
#include <sys/wait.h>
#include <unistd.h>

static pando_db *db;
static pando_table *table;
static pando_snapshot *snapshot;
static pando_tx *tx;
static pando_cursor *cursors[2];
static pando_value_reader *reader;
static pando_value_writer *writer;
static pando_consumer *consumer;
static pando_changes *changes;

// Uses everything. Returns how many calls have another result.
static int in_the_child(void) {
  pando_bytes key, value;
  char buffer[4];
  void *copy;
  size_t len;
  uint64_t number;
  pando_change *change;
  const pando_code codes[] = {
    pando_db_get(db, table, "a", 1, &copy, &len, NULL),
    pando_db_put(db, table, "a", 1, "2", 1, NULL),
    pando_cursor_next(cursors[0], &key, &value, NULL),
    pando_cursor_prev(cursors[1], &key, &value, NULL),
    pando_cursor_seek(cursors[0], "a", 1, NULL),
    pando_value_reader_seek(reader, 1, NULL),
    pando_value_reader_read(reader, buffer, 1, &len, NULL),
    pando_value_writer_append(writer, "x", 1, NULL),
    pando_value_writer_finish(writer, &number, NULL),
    pando_consumer_position(consumer, &number, NULL),
    pando_consumer_acknowledge(consumer, 1, NULL),
    pando_changes_next(changes, 0, &change, NULL),
    pando_changes_position(changes, &number, NULL),
    pando_changes_close(changes, NULL),
    pando_changes_oldest(db, &number, NULL),
    pando_snapshot_commit_number(snapshot, &number, NULL),
    pando_tx_put(tx, table, "b", 1, "2", 1, NULL),
    pando_tx_rollback(tx, NULL),
    pando_tx_commit(tx, &number, NULL),
    pando_table_rename(db, "t", "u", NULL),
    pando_db_sync(db, NULL),
    pando_db_close(db, NULL),
    pando_db_sync(db, NULL),
  };
  int wrong = 0;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (codes[i] == PANDO_FORKED) continue;
    fprintf(stderr, "call %zu in the child returns %s\n", i, pando_code_name(codes[i]));
    wrong++;
  }
  return wrong;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  char path[4096];
  snprintf(path, sizeof path, "%s/db", argv[1]);
  OK(pando_create(path, NULL, &db, &error));
  OK(pando_table_ensure(db, "t", 0, 0, 0, &table, &error));
  OK(pando_consumer_open(db, "c", &consumer, &error));
  OK(pando_changes_open(db, 0, NULL, 0, (pando_bytes){NULL, 0}, &changes, &error));
  for (char key = 'a'; key < 'e'; key++) OK(pando_db_put(db, table, &key, 1, "1", 1, &error));
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_tx_begin(db, 0, 0, &tx, &error));
  OK(pando_tx_put(tx, table, "x", 1, "1", 1, &error));
  OK(pando_db_value_reader(db, table, "a", 1, &reader, &error));
  OK(pando_tx_value_writer(tx, table, "w", 1, PANDO_NEVER, &writer, &error));
  OK(pando_snapshot_cursor(snapshot, table, NULL, &cursors[0], &error));
  OK(pando_tx_cursor(tx, table, NULL, &cursors[1], &error));
  pando_bytes key, value;
  OK(pando_cursor_next(cursors[0], &key, &value, &error));
  OK(pando_cursor_prev(cursors[1], &key, &value, &error));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    int wrong = in_the_child();
    // Another program ends the child, since valgrind would look for leaks of what only its parent may free.
    execlp(wrong ? "false" : "true", "child", NULL);
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  // The parent goes on.
  OK(pando_cursor_next(cursors[0], &key, &value, &error));
  CHECK(is(key.data, key.len, "b"));
  OK(pando_cursor_prev(cursors[1], &key, &value, &error));
  CHECK(is(key.data, key.len, "d"));
  pando_cursor_free(cursors[0]);
  pando_cursor_free(cursors[1]);
  pando_value_writer_free(writer);
  pando_value_reader_free(reader);
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);
  pando_snapshot_free(snapshot);
  pando_consumer_free(consumer);
  pando_changes_free(changes);
  OK(pando_db_close(db, &error));
  pando_table_free(table);
  pando_db_free(db);
  return 0;
}
