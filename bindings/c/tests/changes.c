// Changes and named consumers, used well and badly. The argument is an empty directory.

#include "expect.h"
#include <pthread.h>

static pando_db *db;
static pando_table *table;
static pando_changes *changes;
static pando_change *change;
static const pando_operation *operations;
static size_t count;
static const pando_bytes none;

static void next(pando_changes *from) {
  pando_change_free(change);
  OK(pando_changes_next(from, 10000, &change, &error));
  operations = pando_change_operations(change, &count);
}

static void put(const char *key, const char *value) {
  OK(pando_db_put(db, table, key, strlen(key), value, strlen(value), &error));
}

static void every_kind_of_operation(void) {
  pando_tx *tx;
  OK(pando_changes_open(db, 0, NULL, 0, none, &changes, &error));
  next(changes);
  CHECK(count == 1 && operations[0].kind == PANDO_CREATE_TABLE && strcmp(operations[0].table, "t") == 0);
  CHECK(operations[0].key.data == NULL && operations[0].former == NULL);
  pando_change *absent;
  EXPECT(PANDO_ABSENT, pando_changes_next(changes, 0, &absent, &error));
  CHECK(absent == NULL);
  uint64_t number, position;
  OK(pando_tx_begin(db, 0, 0, &tx, &error));
  pando_range range = {.start = {"x", 1}, .end = {"y", 1}};
  OK(pando_tx_delete_range(tx, table, &range, &error));
  OK(pando_tx_put(tx, table, "a", 1, "", 0, &error));
  OK(pando_tx_delete(tx, table, "b", 1, &error));
  OK(pando_tx_commit(tx, &number, &error));
  pando_tx_free(tx);
  next(changes);
  CHECK(pando_change_commit_number(change) == number && count == 3);
  CHECK(operations[0].kind == PANDO_DELETE_RANGE && is(operations[0].key.data, operations[0].key.len, "x"));
  CHECK(is(operations[0].end.data, operations[0].end.len, "y"));
  CHECK(operations[1].kind == PANDO_PUT && is(operations[1].key.data, operations[1].key.len, "a"));
  CHECK(is_address(operations[1].value.data) && operations[1].value.len == 0);
  CHECK(operations[2].kind == PANDO_DELETE && operations[2].value.data == NULL);
  EXPECT(PANDO_ABSENT, pando_changes_next(changes, 1, &absent, &error));
  OK(pando_changes_position(changes, &position, &error));
  CHECK(position == number);
  pando_changes_free(changes);
  // Only some keys of some tables.
  const char *names[] = {"t"};
  OK(pando_changes_open(db, number, names, 1, (pando_bytes){"k", 1}, &changes, &error));
  put("other", "1");
  put("key", "2");
  next(changes);
  CHECK(pando_change_commit_number(change) == number + 2 && count == 1 && pando_change_time_ms(change) > 0);
  pando_changes_free(changes);
}

static void a_place_survives(const char *path) {
  pando_consumer *consumer, *second;
  uint64_t position, first;
  OK(pando_consumer_open(db, "mails", &consumer, &error));
  EXPECT(PANDO_LOCKED, pando_consumer_open(db, "mails", &second, &error));
  CHECK(second == NULL);
  put("1", "one");
  put("2", "two");
  OK(pando_consumer_changes(consumer, NULL, 0, none, &changes, &error));
  next(changes);
  first = pando_change_commit_number(change);
  OK(pando_consumer_acknowledge(consumer, first, &error));
  EXPECT(PANDO_INVALID, pando_consumer_acknowledge(consumer, first + 1000, &error));
  pando_changes_free(changes);
  pando_consumer_free(consumer);
  OK(pando_db_close(db, &error));
  pando_db_free(db);
  pando_table_free(table);
  OK(pando_open(path, NULL, &db, &error));
  OK(pando_table_open(db, "t", &table, &error));
  OK(pando_consumer_open(db, "mails", &consumer, &error));
  OK(pando_consumer_position(consumer, &position, &error));
  CHECK(position == first);
  OK(pando_consumer_changes(consumer, NULL, 0, none, &changes, &error));
  next(changes);
  CHECK(pando_change_commit_number(change) == first + 1 && is(operations[0].value.data, operations[0].value.len, "two"));
  EXPECT(PANDO_LOCKED, pando_consumer_drop(db, "mails", &error));
  pando_changes_free(changes);
  pando_consumer_free(consumer);
  // Another one, which begins after the newest commit.
  OK(pando_consumer_open(db, "audit", &consumer, &error));
  pando_consumer_free(consumer);
  pando_consumer_info *known;
  OK(pando_consumer_list(db, &known, &count, &error));
  CHECK(count == 2 && strcmp(known[0].name, "audit") == 0 && strcmp(known[1].name, "mails") == 0);
  CHECK(known[0].position == first + 1 && known[1].position == first && !known[0].is_lost && !known[1].is_lost);
  pando_free(known);
  OK(pando_consumer_drop(db, "audit", &error));
  OK(pando_consumer_drop(db, "mails", &error));
  OK(pando_consumer_list(db, &known, &count, &error));
  CHECK(count == 0);
  pando_free(known);
  EXPECT(PANDO_MISSING, pando_consumer_drop(db, "mails", &error));
}

static pando_code waited;

static void *wait_for_change(void *given) {
  pando_change *found;
  waited = pando_changes_next(given, PANDO_FOREVER, &found, NULL);
  pando_change_free(found);
  return NULL;
}

static void a_wait_ends(void) {
  pthread_t thread;
  pando_changes *reader;
  uint64_t newest;
  OK(pando_changes_open(db, 0, NULL, 0, none, &reader, &error));
  while (pando_changes_next(reader, 0, &change, NULL) == PANDO_OK) pando_change_free(change);
  OK(pando_changes_position(reader, &newest, &error));
  // By a commit, by a close.
  for (int by_commit = 1; by_commit >= 0; by_commit--) {
    CHECK(pthread_create(&thread, NULL, wait_for_change, reader) == 0);
    while (pando_changes_position(reader, &newest, NULL) != PANDO_IN_USE) pause_briefly();
    if (by_commit) put("wake", "up");
    else OK(pando_changes_close(reader, &error));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(waited == (by_commit ? PANDO_OK : PANDO_CLOSED));
  }
  OK(pando_changes_close(reader, &error));
  EXPECT(PANDO_CLOSED, pando_changes_next(reader, 0, &change, &error));
  pando_changes_free(reader);
}

static void hostile_arguments(void) {
  pando_consumer *consumer;
  uint64_t position;
  const char *names[] = {"t", NULL}, *bad[] = {"\xff"};
  pando_consumer_info *known;
  EXPECT(PANDO_MISUSE, pando_consumer_list(NULL, &known, &count, &error));
  CHECK(known == NULL && count == 0);
  EXPECT(PANDO_MISUSE, pando_consumer_list(db, NULL, &count, &error));
  EXPECT(PANDO_MISUSE, pando_consumer_list(db, &known, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_changes_open(NULL, 0, NULL, 0, none, &changes, &error));
  EXPECT(PANDO_MISUSE, pando_changes_open(db, 0, NULL, 0, none, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_changes_open(db, 0, NULL, 1, none, &changes, &error));
  EXPECT(PANDO_MISUSE, pando_changes_open(db, 0, names, 2, none, &changes, &error));
  EXPECT(PANDO_INVALID, pando_changes_open(db, 0, bad, 1, none, &changes, &error));
  EXPECT(PANDO_INVALID, pando_changes_open(db, 0, names, SIZE_MAX, none, &changes, &error));
  EXPECT(PANDO_MISUSE, pando_changes_open(db, 0, NULL, 0, (pando_bytes){NULL, 1}, &changes, &error));
  EXPECT(PANDO_INVALID, pando_changes_open(db, UINT64_MAX / 2, NULL, 0, none, &changes, &error));
  EXPECT(PANDO_MISUSE, pando_changes_next(NULL, 0, &change, &error));
  EXPECT(PANDO_MISUSE, pando_changes_next((pando_changes *)db, 0, &change, &error));
  EXPECT(PANDO_MISUSE, pando_changes_position(NULL, &position, &error));
  EXPECT(PANDO_MISUSE, pando_changes_close(NULL, &error));
  EXPECT(PANDO_MISUSE, pando_consumer_open(db, NULL, &consumer, &error));
  EXPECT(PANDO_INVALID, pando_consumer_open(db, "", &consumer, &error));
  EXPECT(PANDO_MISUSE, pando_consumer_open(db, "c", NULL, &error));
  EXPECT(PANDO_MISUSE, pando_consumer_drop(NULL, "c", &error));
  EXPECT(PANDO_MISUSE, pando_consumer_changes(NULL, NULL, 0, none, &changes, &error));
  EXPECT(PANDO_MISUSE, pando_consumer_position(NULL, &position, &error));
  EXPECT(PANDO_MISUSE, pando_consumer_acknowledge(NULL, 1, &error));
  CHECK(pando_change_operations(NULL, &count) == NULL && count == 0);
  CHECK(pando_change_commit_number(NULL) == 0 && pando_change_time_ms((pando_change *)db) == 0);
  pando_changes_free(NULL);
  pando_change_free(NULL);
  pando_consumer_free((pando_consumer *)db);
  // After the database is closed.
  OK(pando_changes_open(db, 0, NULL, 0, none, &changes, &error));
  OK(pando_consumer_open(db, "c", &consumer, &error));
  OK(pando_db_close(db, &error));
  EXPECT(PANDO_CLOSED, pando_changes_next(changes, 0, &change, &error));
  EXPECT(PANDO_CLOSED, pando_consumer_acknowledge(consumer, 1, &error));
  EXPECT(PANDO_CLOSED, pando_consumer_list(db, &known, &count, &error));
  pando_db_free(db);
  pando_changes_free(changes);
  pando_consumer_free(consumer);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  char path[4096];
  snprintf(path, sizeof path, "%s/db", argv[1]);
  OK(pando_create(path, NULL, &db, &error));
  OK(pando_table_ensure(db, "t", 0, 0, 0, &table, &error));
  uint64_t oldest = 1;
  OK(pando_changes_oldest(db, &oldest, &error));
  CHECK(oldest == 0);
  EXPECT(PANDO_MISUSE, pando_changes_oldest(db, NULL, &error));
  every_kind_of_operation();
  a_place_survives(path);
  pando_change_free(change);
  a_wait_ends();
  change = NULL;
  hostile_arguments();
  pando_table_free(table);
  return 0;
}
