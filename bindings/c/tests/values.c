// Values of any length, a piece at a time, used well and badly. The argument is an empty directory.

#include "expect.h"

enum { PART = 100000, LONG = 3 << 20 };

static pando_db *db;
static pando_table *table;
static unsigned char part[PART];

static unsigned char byte_of(unsigned seed, uint64_t position) {
  return (unsigned char)(position / 997 * (seed | 1) ^ position);
}

// The bytes of a value from a place on, as far as the part takes them. Returns how many there are.
static size_t fill(unsigned seed, uint64_t position) {
  size_t count = LONG - position < PART ? (size_t)(LONG - position) : PART;
  for (size_t at = 0; at < count; at++) part[at] = byte_of(seed, position + at);
  return count;
}

static pando_tx *begin(void) {
  pando_tx *tx;
  OK(pando_tx_begin(db, PANDO_DEFAULT, PANDO_DEFAULT, &tx, &error));
  return tx;
}

static pando_value_writer *writer_of(pando_tx *tx, const char *key) {
  pando_value_writer *writer;
  OK(pando_tx_value_writer(tx, table, key, 1, PANDO_NEVER, &writer, &error));
  return writer;
}

static pando_value_reader *reader_of(const char *key) {
  pando_value_reader *reader;
  OK(pando_db_value_reader(db, table, key, 1, &reader, &error));
  return reader;
}

static void expect_value(pando_value_reader *reader, unsigned seed) {
  size_t got;
  CHECK(pando_value_reader_len(reader) == LONG);
  uint64_t position = 0;
  for (;;) {
    OK(pando_value_reader_read(reader, part, PART, &got, &error));
    for (size_t at = 0; at < got; at++) CHECK(part[at] == byte_of(seed, position + at));
    position += got;
    CHECK(got == PART || position == LONG);
    if (position == LONG) break;
  }
  OK(pando_value_reader_read(reader, part, PART, &got, &error));
  CHECK(got == 0);
  pando_value_reader_free(reader);
}

static void values_are_written_by_turns_and_read_in_parts(void) {
  pando_tx *tx = begin();
  pando_value_writer *a = writer_of(tx, "a"), *b = writer_of(tx, "b"), *given_up = writer_of(tx, "c");
  for (uint64_t position = 0; position < LONG; position += PART) {
    OK(pando_value_writer_append(a, part, fill(1, position), &error));
    OK(pando_value_writer_append(b, part, fill(2, position), &error));
    OK(pando_value_writer_append(given_up, part, 10, &error));
  }
  pando_value_reader *reader;
  // The transaction goes on meanwhile, and does not see them.
  EXPECT(PANDO_ABSENT, pando_tx_value_reader(tx, table, "a", 1, &reader, &error));
  CHECK(reader == NULL && pando_value_reader_len(reader) == 0);
  OK(pando_tx_put(tx, table, "a", 1, "older", 5, &error));
  pando_value_writer_free(given_up);
  uint64_t len;
  OK(pando_value_writer_finish(b, NULL, &error));
  OK(pando_value_writer_finish(a, &len, &error));
  CHECK(len == LONG);
  EXPECT(PANDO_CLOSED, pando_value_writer_finish(a, &len, &error));
  EXPECT(PANDO_CLOSED, pando_value_writer_append(a, "x", 1, &error));
  CHECK(len == 0);
  pando_value_writer_free(a);
  pando_value_writer_free(b);
  OK(pando_tx_value_reader(tx, table, "a", 1, &reader, &error));
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);
  // It outlives the transaction.
  expect_value(reader, 1);
  expect_value(reader_of("b"), 2);
  EXPECT(PANDO_ABSENT, pando_db_value_reader(db, table, "c", 1, &reader, &error));
}

static void a_reader_goes_to_any_place_and_keeps_its_value(void) {
  pando_snapshot *snapshot;
  pando_value_reader *reader;
  size_t got;
  OK(pando_snapshot_take(db, &snapshot, &error));
  OK(pando_snapshot_value_reader(snapshot, table, "b", 1, &reader, &error));
  pando_value_reader *absent;
  EXPECT(PANDO_ABSENT, pando_snapshot_value_reader(snapshot, table, "x", 1, &absent, &error));
  pando_snapshot_free(snapshot);
  OK(pando_db_put(db, table, "b", 1, "short", 5, &error));
  OK(pando_db_checkpoint(db, &error));
  // Across the end of a piece, at the end, after it, and at the beginning.
  const struct {
    uint64_t position;
    size_t wanted;
  } places[] = {{(256 << 10) - 7, 20}, {LONG - 3, 3}, {LONG + 9, 0}, {0, 20}};
  for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
    uint64_t position = places[place].position;
    OK(pando_value_reader_seek(reader, position, &error));
    OK(pando_value_reader_read(reader, part, 20, &got, &error));
    CHECK(got == places[place].wanted);
    for (size_t at = 0; at < got; at++) CHECK(part[at] == byte_of(2, position + at));
  }
  OK(pando_value_reader_read(reader, NULL, 0, &got, &error));
  CHECK(got == 0);
  pando_value_reader_free(reader);
  // A value that is not long.
  reader = reader_of("b");
  CHECK(pando_value_reader_len(reader) == 5);
  OK(pando_value_reader_seek(reader, 2, &error));
  OK(pando_value_reader_read(reader, part, PART, &got, &error));
  CHECK(is(part, got, "ort"));
  pando_value_reader_free(reader);
  // An empty one.
  pando_tx *tx = begin();
  pando_value_writer *writer = writer_of(tx, "e");
  OK(pando_value_writer_finish(writer, NULL, &error));
  pando_value_writer_free(writer);
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);
  reader = reader_of("e");
  CHECK(pando_value_reader_len(reader) == 0);
  pando_value_reader_free(reader);
}

static void entries_expire(void) {
  pando_table *plain = table;
  uint64_t ttl_ms;
  OK(pando_table_create(db, "cache", PANDO_DEFAULT, PANDO_DEFAULT, PANDO_TTL_BY_KEY, &table, &error));
  pando_tx *tx = begin();
  pando_value_writer *writer, *forever = writer_of(tx, "n");
  OK(pando_tx_value_writer(tx, table, "k", 1, 3600000, &writer, &error));
  OK(pando_value_writer_append(writer, "v", 1, &error));
  OK(pando_value_writer_finish(writer, NULL, &error));
  OK(pando_value_writer_finish(forever, NULL, &error));
  pando_value_writer_free(writer);
  pando_value_writer_free(forever);
  EXPECT(PANDO_INVALID, pando_tx_value_writer(tx, plain, "k", 1, 60000, &writer, &error));
  EXPECT(PANDO_INVALID, pando_tx_value_writer(tx, table, "k", 1, 0, &writer, &error));
  OK(pando_tx_commit(tx, NULL, &error));
  pando_tx_free(tx);
  OK(pando_db_expiry(db, table, "k", 1, &ttl_ms, &error));
  CHECK(ttl_ms > 1800000 && ttl_ms <= 3600000);
  OK(pando_db_expiry(db, table, "n", 1, &ttl_ms, &error));
  CHECK(ttl_ms == PANDO_NEVER);
  pando_table_free(table);
  table = plain;
}

static void hostile_arguments(void) {
  pando_tx *tx = begin();
  pando_value_writer *writer = writer_of(tx, "w"), *other;
  pando_value_reader *reader = reader_of("a"), *second;
  size_t got;
  uint64_t len;
  EXPECT(PANDO_MISUSE, pando_db_value_reader(NULL, table, "a", 1, &second, &error));
  EXPECT(PANDO_MISUSE, pando_db_value_reader(db, NULL, "a", 1, &second, &error));
  EXPECT(PANDO_MISUSE, pando_db_value_reader(db, table, "a", 1, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_db_value_reader(db, table, NULL, 1, &second, &error));
  EXPECT(PANDO_MISUSE, pando_snapshot_value_reader((pando_snapshot *)tx, table, "a", 1, &second, &error));
  EXPECT(PANDO_MISUSE, pando_tx_value_reader(NULL, table, "a", 1, &second, &error));
  EXPECT(PANDO_MISUSE, pando_value_reader_read(NULL, part, 1, &got, &error));
  EXPECT(PANDO_MISUSE, pando_value_reader_read(reader, NULL, 1, &got, &error));
  EXPECT(PANDO_MISUSE, pando_value_reader_read(reader, part, 1, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_value_reader_read((pando_value_reader *)writer, part, 1, &got, &error));
  EXPECT(PANDO_MISUSE, pando_value_reader_seek(NULL, 0, &error));
  OK(pando_value_reader_seek(reader, UINT64_MAX, &error));
  OK(pando_value_reader_read(reader, part, 1, &got, &error));
  CHECK(got == 0 && pando_value_reader_len((pando_value_reader *)db) == 0);
  EXPECT(PANDO_MISUSE, pando_tx_value_writer(NULL, table, "w", 1, PANDO_NEVER, &other, &error));
  EXPECT(PANDO_MISUSE, pando_tx_value_writer(tx, NULL, "w", 1, PANDO_NEVER, &other, &error));
  EXPECT(PANDO_MISUSE, pando_tx_value_writer(tx, table, "w", 1, PANDO_NEVER, NULL, &error));
  EXPECT(PANDO_INVALID, pando_tx_value_writer(tx, table, part, 60000, PANDO_NEVER, &other, &error));
  EXPECT(PANDO_MISUSE, pando_value_writer_append(NULL, "x", 1, &error));
  EXPECT(PANDO_MISUSE, pando_value_writer_append(writer, NULL, 1, &error));
  // A value that lacks bytes is given up.
  EXPECT(PANDO_CLOSED, pando_value_writer_append(writer, "x", 1, &error));
  EXPECT(PANDO_CLOSED, pando_value_writer_finish(writer, &len, &error));
  pando_value_writer_free(writer);
  writer = writer_of(tx, "w");
  EXPECT(PANDO_INVALID, pando_value_writer_append(writer, "x", SIZE_MAX, &error));
  EXPECT(PANDO_CLOSED, pando_value_writer_finish(writer, &len, &error));
  pando_value_writer_free(writer);
  writer = writer_of(tx, "w");
  EXPECT(PANDO_MISUSE, pando_value_writer_finish((pando_value_writer *)reader, &len, &error));
  pando_value_reader_free((pando_value_reader *)writer);
  pando_value_writer_free((pando_value_writer *)reader);
  pando_value_reader_free(NULL);
  pando_value_writer_free(NULL);
  // After the transaction, and after the database.
  OK(pando_tx_rollback(tx, &error));
  EXPECT(PANDO_CLOSED, pando_value_writer_finish(writer, &len, &error));
  EXPECT(PANDO_CLOSED, pando_tx_value_writer(tx, table, "w", 1, PANDO_NEVER, &other, &error));
  pando_value_writer_free(writer);
  pando_tx_free(tx);
  tx = begin();
  writer = writer_of(tx, "w");
  OK(pando_value_writer_append(writer, part, PART, &error));
  OK(pando_db_check(db, NULL, NULL, &error));
  OK(pando_db_close(db, &error));
  EXPECT(PANDO_CLOSED, pando_value_writer_append(writer, "x", 1, &error));
  EXPECT(PANDO_CLOSED, pando_value_writer_finish(writer, &len, &error));
  EXPECT(PANDO_CLOSED, pando_value_reader_read(reader, part, 1, &got, &error));
  EXPECT(PANDO_CLOSED, pando_value_reader_seek(reader, 0, &error));
  EXPECT(PANDO_CLOSED, pando_db_value_reader(db, table, "a", 1, &second, &error));
  pando_db_free(db);
  pando_table_free(table);
  pando_tx_free(tx);
  pando_value_writer_free(writer);
  pando_value_reader_free(reader);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  char path[4096];
  snprintf(path, sizeof path, "%s/db", argv[1]);
  OK(pando_create(path, NULL, &db, &error));
  OK(pando_table_ensure(db, "t", PANDO_DEFAULT, PANDO_DEFAULT, 0, &table, &error));
  values_are_written_by_turns_and_read_in_parts();
  a_reader_goes_to_any_place_and_keeps_its_value();
  entries_expire();
  hostile_arguments();
  return 0;
}
