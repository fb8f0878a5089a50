// SQL: statements, rows, transactions of several connections, and hostile arguments. The argument is an empty directory.

#include "expect.h"
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static pando_db *db;
static pando_sql *sql;
static const pando_value *row;
static size_t count;

static pando_stmt *prepared(pando_sql *on, const char *text) {
  pando_stmt *stmt;
  OK(pando_stmt_prepare(on, text, &stmt, &error));
  return stmt;
}

static int64_t number(pando_sql *on, const char *text) {
  pando_stmt *stmt = prepared(on, text);
  OK(pando_stmt_step(stmt, &row, &count, &error));
  CHECK(count == 1 && row[0].kind == PANDO_INTEGER);
  int64_t found = row[0].integer;
  EXPECT(PANDO_ABSENT, pando_stmt_step(stmt, &row, &count, &error));
  CHECK(row == NULL && count == 0);
  pando_stmt_free(stmt);
  return found;
}

static void every_kind_of_value_returns(void) {
  OK(pando_sql_execute(sql, "CREATE TABLE v(id INTEGER PRIMARY KEY, a, b REAL, c VARCHAR(9), d BLOB); -- two\n"
                            "CREATE INDEX by_c ON v(c)", &error));
  pando_stmt *insert = prepared(sql, "INSERT INTO v(a, b, c, d) VALUES (?, ?, :text, ?)");
  size_t place;
  OK(pando_stmt_parameter_count(insert, &place, &error));
  CHECK(place == 4);
  OK(pando_stmt_parameter(insert, ":text", &place, &error));
  CHECK(place == 3);
  EXPECT(PANDO_ABSENT, pando_stmt_parameter(insert, ":none", &place, &error));
  OK(pando_stmt_bind_integer(insert, 1, INT64_MIN, &error));
  OK(pando_stmt_bind_real(insert, 2, 0.5, &error));
  OK(pando_stmt_bind_text(insert, 3, "h\0llo", 5, &error));
  OK(pando_stmt_bind_blob(insert, 4, NULL, 0, &error));
  EXPECT(PANDO_ABSENT, pando_stmt_step(insert, NULL, NULL, &error));
  uint64_t changes;
  OK(pando_stmt_changes(insert, &changes, &error));
  CHECK(changes == 1);
  int64_t id;
  OK(pando_sql_last_row_id(sql, &id, &error));
  CHECK(id == 1);
  // The other parameters keep their values.
  OK(pando_stmt_bind_null(insert, 1, &error));
  EXPECT(PANDO_ABSENT, pando_stmt_step(insert, NULL, NULL, &error));
  pando_stmt_free(insert);

  pando_stmt *query = prepared(sql, "SELECT a, b, c, d, id + 1 AS next FROM v ORDER BY id");
  const pando_column *columns;
  OK(pando_stmt_columns(query, &columns, &count, &error));
  CHECK(count == 5 && strcmp(columns[2].declared, "VARCHAR(9)") == 0);
  CHECK(strcmp(columns[4].name, "next") == 0 && columns[4].declared == NULL);
  OK(pando_stmt_step(query, &row, &count, &error));
  CHECK(count == 5 && row[0].kind == PANDO_INTEGER && row[0].integer == INT64_MIN);
  CHECK(row[1].kind == PANDO_REAL && row[1].real == 0.5);
  CHECK(row[2].kind == PANDO_TEXT && row[2].len == 5 && memcmp(row[2].data, "h\0llo", 5) == 0);
  CHECK(row[3].kind == PANDO_BLOB && row[3].len == 0);
  pando_value one;
  OK(pando_stmt_value(query, 4, &one, &error));
  CHECK(one.kind == PANDO_INTEGER && one.integer == 2);
  EXPECT(PANDO_INVALID, pando_stmt_value(query, 5, &one, &error));
  CHECK(one.kind == PANDO_NULL);
  // A second statement of the same connection between two steps.
  CHECK(number(sql, "SELECT count(*) FROM v") == 2);
  OK(pando_stmt_step(query, &row, &count, &error));
  CHECK(row[0].kind == PANDO_NULL && row[4].integer == 3);
  EXPECT(PANDO_ABSENT, pando_stmt_step(query, &row, &count, &error));
  EXPECT(PANDO_INVALID, pando_stmt_value(query, 0, &one, &error));
  // After the last row it runs again, and after a reset.
  OK(pando_stmt_step(query, &row, &count, &error));
  CHECK(row[4].integer == 2);
  OK(pando_stmt_reset(query, &error));
  OK(pando_stmt_step(query, &row, &count, &error));
  CHECK(row[4].integer == 2);
  pando_stmt_free(query);
}

static void no_bytes_have_an_address(void) {
  pando_stmt *stmt = prepared(sql, "SELECT x'', '', x'' WHERE ?1 IS NULL");
  pando_value value;
  const pando_column *columns;
  OK(pando_stmt_step(stmt, &row, &count, &error));
  for (size_t i = 0; i < count; i++) {
    OK(pando_stmt_value(stmt, i, &value, &error));
    CHECK(row[i].len == 0 && is_address(row[i].data) && is_address(value.data));
  }
  pando_stmt_free(stmt);
  stmt = prepared(sql, "CREATE TABLE IF NOT EXISTS v(a)");
  OK(pando_stmt_columns(stmt, &columns, &count, &error));
  CHECK(count == 0 && is_address(columns));
  pando_stmt_free(stmt);
}

static void errors_have_codes(void) {
  pando_stmt *stmt;
  EXPECT(PANDO_INVALID, pando_stmt_prepare(sql, "SELEC 1", &stmt, &error));
  CHECK(stmt == NULL);
  EXPECT(PANDO_INVALID, pando_stmt_prepare(sql, "SELECT 1; SELECT 2", &stmt, &error));
  EXPECT(PANDO_INVALID, pando_stmt_prepare(sql, "SELECT * FROM none", &stmt, &error));
  OK(pando_sql_execute(sql, "CREATE TABLE u(k INTEGER PRIMARY KEY, n TEXT UNIQUE); INSERT INTO u VALUES (1, 'a')", &error));
  CHECK(pando_sql_execute(sql, "INSERT INTO u VALUES (2, 'a')", &error) == PANDO_CONSTRAINT);
  CHECK(pando_error_code(error) == PANDO_CONSTRAINT && pando_error_sqlite_code(error) == 2067);
  CHECK(PANDO_EXIT_CODE(PANDO_CONSTRAINT) == 1 && pando_error_sqlite_code(NULL) == 0);
  pando_error_free(error);
  error = NULL;
  CHECK(number(sql, "SELECT count(*) FROM u") == 1);
}

// That `call` fails by a conflict about the table `name`, at a key that ends with a byte; at any key if that is ANY_KEY.
enum { ANY_KEY = -1 };
static void expect_conflict(pando_code got, const char *name, int last, int line) {
  size_t len;
  const char *found = pando_error_table(error);
  const unsigned char *key = pando_error_key(error, &len);
  int is_there = key != NULL && len > 0 && (last == ANY_KEY || key[len - 1] == last);
  if (got != PANDO_CONFLICT || found == NULL || strcmp(found, name) != 0 || !is_there) {
    fprintf(stderr, "line %d: %s about %s, a key of %zu bytes: %s\n", line, pando_code_name(got), found ? found : "none",
            len, pando_error_message(error));
    exit(1);
  }
  pando_error_free(error);
  error = NULL;
}

#define CONFLICT(name, last, call) expect_conflict(call, name, last, __LINE__)

static void conflicts_have_a_table_and_a_key(void) {
  pando_sql *second;
  OK(pando_sql_open(db, &second, &error));
  OK(pando_sql_execute(sql, "CREATE TABLE account(id INTEGER PRIMARY KEY, cents INT); INSERT INTO account VALUES (1, 5)", &error));
  int is_open;
  OK(pando_sql_in_transaction(sql, &is_open, &error));
  CHECK(!is_open);
  OK(pando_sql_execute(sql, "BEGIN; UPDATE account SET cents = cents + 1", &error));
  OK(pando_sql_in_transaction(sql, &is_open, &error));
  CHECK(is_open);
  OK(pando_sql_execute(second, "UPDATE account SET cents = cents + 10", &error));
  CONFLICT("account", 1, pando_sql_execute(sql, "COMMIT", &error));
  CHECK(pando_code_is_retryable(PANDO_CONFLICT));
  OK(pando_sql_in_transaction(sql, &is_open, &error));
  if (is_open) OK(pando_sql_execute(sql, "ROLLBACK", &error));
  // Of an index, the table to which it belongs, and the key of the entry.
  OK(pando_sql_execute(sql, "CREATE UNIQUE INDEX by_cents ON account(cents); BEGIN; INSERT INTO account VALUES (2, 7)", &error));
  OK(pando_sql_execute(second, "INSERT INTO account VALUES (3, 7)", &error));
  CONFLICT("account", ANY_KEY, pando_sql_execute(sql, "COMMIT", &error));
  OK(pando_sql_in_transaction(sql, &is_open, &error));
  if (is_open) OK(pando_sql_execute(sql, "ROLLBACK", &error));
  OK(pando_sql_execute(second, "DELETE FROM account WHERE id = 3; DROP INDEX by_cents", &error));
  CHECK(number(second, "SELECT cents FROM account") == 15);
  // What is not committed is rolled back with its connection, which its statements keep.
  OK(pando_sql_set_options(second, PANDO_BUFFERED, PANDO_SNAPSHOT_ISOLATION, &error));
  OK(pando_sql_execute(second, "BEGIN; UPDATE account SET cents = 0", &error));
  pando_stmt *kept = prepared(second, "SELECT cents FROM account");
  pando_sql_free(second);
  OK(pando_stmt_step(kept, &row, &count, &error));
  CHECK(row[0].integer == 0);
  pando_stmt_free(kept);
  CHECK(number(sql, "SELECT cents FROM account") == 15);
}

static void *stop(void *given) {
  for (int *has_ended = given; !__atomic_load_n(has_ended, __ATOMIC_SEQ_CST);) {
    OK(pando_sql_interrupt(sql, NULL));
    pause_briefly();
  }
  return NULL;
}

static void a_statement_is_stopped(void) {
  pthread_t thread;
  int has_ended = 0;
  pando_stmt *endless = prepared(sql, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n");
  CHECK(pthread_create(&thread, NULL, stop, &has_ended) == 0);
  pando_error *stopped;
  CHECK(pando_stmt_step(endless, NULL, NULL, &stopped) == PANDO_INTERRUPTED);
  pando_error_free(stopped);
  __atomic_store_n(&has_ended, 1, __ATOMIC_SEQ_CST);
  CHECK(pthread_join(thread, NULL) == 0);
  pando_stmt_free(endless);
  CHECK(number(sql, "SELECT 1") == 1);
}

static void *go_on(void *given) {
  pando_error *none;
  CHECK(pando_stmt_step(given, &row, &count, &none) == PANDO_OK && row[0].integer == 2);
  pando_stmt_free(given);
  return NULL;
}

static void another_thread_goes_on(void) {
  OK(pando_sql_execute(sql, "CREATE TABLE t(k INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)", &error));
  pando_stmt *stmt = prepared(sql, "SELECT k FROM t");
  OK(pando_stmt_step(stmt, &row, &count, &error));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, go_on, stmt) == 0 && pthread_join(thread, NULL) == 0);
}

static int long_has_ended;

static void *run_long(void *given) {
  pando_code code;
  do {
    pause_briefly();
    code = pando_stmt_step(given, NULL, NULL, NULL);
  } while (code == PANDO_IN_USE);
  CHECK(code == PANDO_INTERRUPTED);
  __atomic_store_n(&long_has_ended, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void two_calls_at_a_time(void) {
  pando_stmt *endless = prepared(sql, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n");
  pando_stmt *other = prepared(sql, "SELECT 1");
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_long, endless) == 0);
  pando_code code;
  do {
    pause_briefly();
    code = pando_stmt_bind_null(endless, 1, NULL);
    CHECK(code == PANDO_IN_USE || code == PANDO_INVALID);
  } while (code != PANDO_IN_USE);
  EXPECT(PANDO_IN_USE, pando_stmt_step(other, NULL, NULL, &error));
  EXPECT(PANDO_IN_USE, pando_sql_close(sql, &error));
  // To free a statement is possible all the same.
  pando_stmt_free(other);
  // Before the statement has begun, there is nothing to stop.
  stop(&long_has_ended);
  CHECK(pthread_join(thread, NULL) == 0);
  pando_stmt_free(endless);
}

static void a_database_that_is_only_read(const char *root) {
  char path[4096];
  snprintf(path, sizeof path, "%s/shared", root);
  pando_db *writer, *reader;
  pando_options *options = pando_options_new();
  OK(pando_create(path, NULL, &writer, &error));
  pando_sql *writes, *reads;
  OK(pando_sql_open(writer, &writes, &error));
  OK(pando_sql_execute(writes, "CREATE TABLE t(k INTEGER PRIMARY KEY); INSERT INTO t VALUES (7)", &error));
  OK(pando_options_set(options, "read_only", "yes", &error));
  OK(pando_open(path, options, &reader, &error));
  OK(pando_sql_open(reader, &reads, &error));
  CHECK(number(reads, "SELECT k FROM t") == 7);
  EXPECT(PANDO_READ_ONLY, pando_sql_execute(reads, "INSERT INTO t VALUES (8)", &error));
  OK(pando_sql_set_read_only(reads, 0, &error));
  EXPECT(PANDO_READ_ONLY, pando_sql_execute(reads, "INSERT INTO t VALUES (8)", &error));
  OK(pando_sql_set_read_only(writes, 1, &error));
  EXPECT(PANDO_READ_ONLY, pando_sql_execute(writes, "DELETE FROM t", &error));
  OK(pando_sql_set_read_only(writes, 0, &error));
  OK(pando_sql_execute(writes, "DELETE FROM t", &error));
  pando_sql_free(reads);
  pando_sql_free(writes);
  OK(pando_db_close(writer, &error));
  pando_db_free(reader);
  pando_db_free(writer);
  pando_options_free(options);
}

static void hostile_arguments(void) {
  pando_stmt *stmt = prepared(sql, "SELECT ?"), *other;
  pando_sql *new_sql;
  pando_value value;
  int yes;
  int64_t id;
  uint64_t changes;
  EXPECT(PANDO_MISUSE, pando_sql_open(NULL, &new_sql, &error));
  EXPECT(PANDO_MISUSE, pando_sql_open(db, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_sql_open((pando_db *)stmt, &new_sql, &error));
  EXPECT(PANDO_MISUSE, pando_sql_execute(NULL, "SELECT 1", &error));
  EXPECT(PANDO_MISUSE, pando_sql_execute(sql, NULL, &error));
  EXPECT(PANDO_INVALID, pando_sql_execute(sql, "SELECT '\xff'", &error));
  EXPECT(PANDO_INVALID, pando_sql_set_options(sql, 99, 0, &error));
  EXPECT(PANDO_MISUSE, pando_sql_set_options(NULL, 0, 0, &error));
  EXPECT(PANDO_MISUSE, pando_sql_set_read_only(NULL, 0, &error));
  EXPECT(PANDO_MISUSE, pando_sql_in_transaction(NULL, &yes, &error));
  EXPECT(PANDO_MISUSE, pando_sql_in_transaction(sql, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_sql_last_row_id(sql, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_sql_last_row_id((pando_sql *)db, &id, &error));
  EXPECT(PANDO_MISUSE, pando_sql_interrupt(NULL, &error));
  EXPECT(PANDO_MISUSE, pando_sql_close(NULL, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_prepare((pando_sql *)db, "SELECT 1", &other, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_prepare(sql, NULL, &other, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_prepare(sql, "SELECT 1", NULL, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_parameter_count(stmt, NULL, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_parameter(stmt, NULL, &count, &error));
  EXPECT(PANDO_INVALID, pando_stmt_bind_null(stmt, 0, &error));
  EXPECT(PANDO_INVALID, pando_stmt_bind_integer(stmt, 2, 1, &error));
  EXPECT(PANDO_INVALID, pando_stmt_bind_real(stmt, SIZE_MAX, 1, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_bind_text(stmt, 1, NULL, 3, &error));
  EXPECT(PANDO_INVALID, pando_stmt_bind_text(stmt, 1, "\xc3", 1, &error));
  EXPECT(PANDO_INVALID, pando_stmt_bind_blob(stmt, 1, "x", SIZE_MAX, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_bind_null((pando_stmt *)sql, 1, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_step(NULL, &row, &count, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_value(stmt, 0, NULL, &error));
  EXPECT(PANDO_INVALID, pando_stmt_value(stmt, 0, &value, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_columns(stmt, NULL, &count, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_changes(NULL, &changes, &error));
  EXPECT(PANDO_MISUSE, pando_stmt_reset(NULL, &error));
  OK(pando_stmt_step(stmt, &row, &count, &error));
  CHECK(row[0].kind == PANDO_NULL);
  EXPECT(PANDO_INVALID, pando_stmt_bind_null(stmt, 1, &error));
  OK(pando_stmt_reset(stmt, &error));
  OK(pando_stmt_bind_real(stmt, 1, NAN, &error));
  OK(pando_stmt_step(stmt, &row, &count, &error));
  CHECK(row[0].kind == PANDO_NULL);
  pando_sql_free((pando_sql *)stmt);
  pando_stmt_free((pando_stmt *)sql);
  pando_stmt_free(NULL);
  pando_sql_free(NULL);
  pando_stmt_free(stmt);
}

static void in_a_child(void) {
  pando_value value;
  pando_stmt *other, *running = prepared(sql, "SELECT 1 UNION SELECT 2");
  OK(pando_stmt_step(running, &row, &count, &error));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const pando_code codes[] = {
      pando_stmt_prepare(sql, "SELECT 1", &other, NULL), pando_sql_execute(sql, "SELECT 1", NULL),
      pando_stmt_value(running, 0, &value, NULL),        pando_stmt_step(running, &row, &count, NULL),
      pando_stmt_reset(running, NULL),
      pando_sql_interrupt(sql, NULL),                    pando_sql_close(sql, NULL),
      pando_sql_execute(sql, "SELECT 1", NULL),
    };
    int is_right = 1;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
      is_right &= codes[i] == PANDO_FORKED;
    // Another program ends the child, since valgrind would look for leaks of what only its parent may free.
    execlp(is_right ? "true" : "false", "child", NULL);
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(pando_stmt_step(running, &row, &count, &error));
  CHECK(row[0].integer == 2);
  pando_stmt_free(running);
}

static void after_the_end(void) {
  pando_stmt *open = prepared(sql, "SELECT 1 UNION SELECT 2"), *other;
  OK(pando_stmt_step(open, &row, &count, &error));
  pando_sql *second;
  OK(pando_sql_open(db, &second, &error));
  pando_stmt *late = prepared(second, "SELECT k FROM t");
  OK(pando_stmt_step(late, &row, &count, &error));
  OK(pando_sql_close(sql, &error));
  OK(pando_sql_close(sql, &error));
  OK(pando_sql_interrupt(sql, &error));
  EXPECT(PANDO_CLOSED, pando_stmt_step(open, &row, &count, &error));
  EXPECT(PANDO_CLOSED, pando_stmt_reset(open, &error));
  EXPECT(PANDO_CLOSED, pando_sql_execute(sql, "SELECT 1", &error));
  OK(pando_db_close(db, &error));
  EXPECT(PANDO_CLOSED, pando_stmt_step(late, &row, &count, &error));
  EXPECT(PANDO_CLOSED, pando_stmt_prepare(second, "SELECT 1", &other, &error));
  pando_sql *third;
  EXPECT(PANDO_CLOSED, pando_sql_open(db, &third, &error));
  CHECK(third == NULL);
  pando_sql_free(second);
  pando_stmt_free(open);
  pando_db_free(db);
  pando_stmt_free(late);
}

int main(int argc, char **argv) {
  CHECK(argc == 2 && strchr(pando_sqlite_version(), '.') != NULL);
  char path[4096];
  snprintf(path, sizeof path, "%s/db", argv[1]);
  OK(pando_create(path, NULL, &db, &error));
  OK(pando_sql_open(db, &sql, &error));
  every_kind_of_value_returns();
  no_bytes_have_an_address();
  errors_have_codes();
  conflicts_have_a_table_and_a_key();
  a_statement_is_stopped();
  another_thread_goes_on();
  two_calls_at_a_time();
  a_database_that_is_only_read(argv[1]);
  hostile_arguments();
  in_a_child();
  pando_sql *first = sql;
  after_the_end();
  pando_sql_free(first);
  return 0;
}
