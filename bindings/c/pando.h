// Pando: an embedded, transactional storage engine. This is its C interface.
//
// scripts/c generates this file from bindings/c/src with cbindgen. Do not edit it.
//
// Results. A function that can fail returns a pando_code. Its last argument, `error`, may be NULL. Otherwise the
// function sets `*error`: to NULL, or to an error that says more, which the caller frees with pando_error_free.
// PANDO_ABSENT has no error, since it is an ordinary result. The low byte of a code is the exit code that the command
// `pando` has for the same kind of failure.
//
// Arguments. A handle must come from this library and must not have been freed; NULL gives PANDO_MISUSE, and a handle
// of another type gives PANDO_MISUSE as well. A pointer to bytes may be NULL if its length is 0. Bytes and strings must
// be readable for the length of the call, and are copied. A string ends with a zero byte and is UTF-8; a path may be
// any bytes. An output must be writable, and overlap with nothing else; it is set to NULL or 0 if the call fails.
//
// Objects. Every object is freed with its own function, in any order: an object keeps what it depends on. To free
// NULL has no effect. pando_db_close, pando_tx_commit and pando_tx_rollback end an object without freeing it: later
// calls return PANDO_CLOSED. Memory that the library hands out as plain pointers is freed with pando_free.
//
// Threads. Databases and tables can be used by any number of threads at the same time. Snapshots, transactions,
// cursors, readers and writers of values, readers of changes and consumers can be used by any thread, but by one call
// at a time: a second call at the same time returns PANDO_IN_USE. A connection of SQL and all of its statements count
// as one object in this.
// Options and errors are plain data: do not change or free one while another thread uses it. No object may be freed
// while a call uses it. The library keeps no state outside of its objects. It installs one signal handler, for SIGBUS,
// which passes on what is not its own.
//
// After fork(), the child must not use objects of its parent: calls return PANDO_FORKED.


#ifndef PANDO_H
#define PANDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this header.
#define PANDO_VERSION "0.1.0"

// Returns the exit code that the command `pando` has for this kind of failure: 0 to 5.
#define PANDO_EXIT_CODE(code) ((int)(code) & 0xff)


// Leaves a choice to the default: of the database for transactions, of Pando for tables.
#define PANDO_DEFAULT 0

// Durability: a commit survives a loss of power.
#define PANDO_SYNC 1

// Durability: a commit survives a killed process, but not a loss of power.
#define PANDO_BUFFERED 2

// Durability: a commit is synced within an interval, and can be lost until then.
#define PANDO_LAZY 3

// Isolation: the result is that of some order of the transactions, one after another.
#define PANDO_SERIALIZABLE 1

// Isolation: reads see one moment, and only writes conflict.
#define PANDO_SNAPSHOT_ISOLATION 2

// Layout: one B+tree, for fast reads and scans. It is the default.
#define PANDO_BTREE 1

// Layout: a log-structured merge tree, for writes far larger than memory.
#define PANDO_LSM 2

// Compression: none. It is the default.
#define PANDO_UNCOMPRESSED 1

// Compression: LZ4, for LSM tables.
#define PANDO_LZ4 2

// As `ttl_ms` of a new table: each entry expires at a time of its own, which pando_tx_put_with_ttl sets.
#define PANDO_TTL_BY_KEY 18446744073709551614ull

// As `ttl_ms` of an entry: it never expires. For a table, 0 means that.
#define PANDO_NEVER 18446744073709551615ull

// As a timeout: wait until there is a change.
#define PANDO_FOREVER 18446744073709551615ull

// Kind of an operation: a key was set.
#define PANDO_PUT 1

// Kind of an operation: a key was deleted.
#define PANDO_DELETE 2

// Kind of an operation: every key from `key` on and before `end` was deleted.
#define PANDO_DELETE_RANGE 3

// Kind of an operation: a table was created.
#define PANDO_CREATE_TABLE 4

// Kind of an operation: a table was dropped.
#define PANDO_DROP_TABLE 5

// Kind of an operation: a table was renamed.
#define PANDO_RENAME_TABLE 6

// Kind of an operation: the options of a table were changed.
#define PANDO_ALTER_TABLE 7

// Kind of a value: NULL.
#define PANDO_NULL 0

// Kind of a value: an integer of 64 bits.
#define PANDO_INTEGER 1

// Kind of a value: a floating-point number.
#define PANDO_REAL 2

// Kind of a value: text. It has no zero byte at its end. It is UTF-8 unless a program has stored other bytes.
#define PANDO_TEXT 3

// Kind of a value: bytes.
#define PANDO_BLOB 4

// What a call returns. The low byte is the exit code of the command `pando` for this kind of failure.
typedef enum {
  // The call succeeded.
  PANDO_OK = 0,
  // The key does not exist, or a cursor is at its end. There is no error object.
  PANDO_ABSENT = 1,
  // The disk, a quota or the memory budget is full. Nothing was written; free space or memory and try again.
  PANDO_FULL = 257,
  // The key, table, database or file already exists.
  PANDO_EXISTS = 513,
  // The key, table, database or file does not exist.
  PANDO_MISSING = 769,
  // A call that must not wait needs something that is not in memory.
  PANDO_WOULD_WAIT = 1025,
  // The database is read-only, and the call would write. Open it for writing.
  PANDO_READ_ONLY = 1281,
  // A call of the operating system failed.
  PANDO_IO = 1537,
  // An earlier failure stopped all writing; reads go on. Close the database, fix the cause, and open it again.
  PANDO_LATCHED = 1793,
  // The commit may or may not survive: it was written, but its sync failed. Open the database again to find out.
  PANDO_INDETERMINATE = 2049,
  // The object has ended: the database was closed, or the transaction was committed or rolled back. Open the
  // database again, or begin a new transaction.
  PANDO_CLOSED = 2305,
  // The object was inherited through a fork. Open the database in the child after the parent has closed it.
  PANDO_FORKED = 2561,
  // A defect in Pando was caught. Please report its message.
  PANDO_INTERNAL = 2817,
  // A failure of a kind that this version of the interface does not know.
  PANDO_FAILED = 3073,
  // The changes that were asked for are no longer kept. The message names a commit from which to begin again.
  PANDO_TOO_OLD = 3329,
  // A row violates a constraint of its table.
  PANDO_CONSTRAINT = 3585,
  // A statement of SQL was stopped by pando_sql_interrupt, and its own transaction was rolled back; or the function
  // that gets the progress of long work has ended it.
  PANDO_INTERRUPTED = 3841,
  // Another writer has taken over the lineage of shipped commits. Stop writing here, and restore from the bucket.
  PANDO_FENCED = 4097,
  // An argument is out of range, or a call does not fit its object.
  PANDO_INVALID = 2,
  // The options contradict the stored ones.
  PANDO_MISMATCH = 258,
  // The arguments are ones that no correct program gives: NULL where a handle or an output is needed, or a handle
  // of another type.
  PANDO_MISUSE = 514,
  // Another call uses the object at this moment. Use one object for each thread.
  PANDO_IN_USE = 770,
  // The buffer is too short. The length that is needed was stored.
  PANDO_TOO_SMALL = 1026,
  // Bytes differ from what was written. Restore a backup, or salvage the database.
  PANDO_CORRUPT = 3,
  // The files are not a Pando database, belong to another one, or have a version that this library does not know.
  PANDO_FOREIGN = 259,
  // Another handle has the database, consumer or folder open, often in another process. Close it there.
  PANDO_LOCKED = 4,
  // Another transaction changed what this one has read. Nothing was written; run the transaction again.
  PANDO_CONFLICT = 5,
  // The snapshot or transaction was open for so long that it has expired. Nothing was written; begin a new one.
  PANDO_SNAPSHOT_TOO_OLD = 261,
} pando_code;

// One commit. Free it with pando_change_free.
typedef struct pando_change pando_change;

// A reader of changes: it goes from commit to commit without gaps. The database keeps what it has still to read, up to
// the option max_changes_bytes; a reader that is later than that gets PANDO_TOO_OLD. Free it with pando_changes_free.
typedef struct pando_changes pando_changes;

// A named consumer, whose position survives restarts. Read with pando_consumer_changes, do the work, then call
// pando_consumer_acknowledge: what was not acknowledged is returned again after a restart. Free it with
// pando_consumer_free, which keeps its position.
typedef struct pando_consumer pando_consumer;

// A cursor over the records of a range. It stands before the first record, on one, or after the last. Free it with
// pando_cursor_free.
//
// A cursor over a transaction sees the transaction's writes up to the last step. It reads ahead by a chunk of at
// most 2048 records: a change of a record that was read ahead is a conflict, too.
typedef struct pando_cursor pando_cursor;

// An open database. Free it with pando_db_free.
typedef struct pando_db pando_db;

// Why a call has failed. Free it with pando_error_free.
typedef struct pando_error pando_error;

// What holds back the commits of all other transactions, so that one that begins after it meets no conflict. Others
// wait for it without a limit of time, so hold them back briefly. Free it with pando_hold_free.
typedef struct pando_hold pando_hold;

// Options with which databases are opened. Free them with pando_options_free.
typedef struct pando_options pando_options;

// A read-only view of one moment. What it sees is kept until it is freed. Free it with pando_snapshot_free.
typedef struct pando_snapshot pando_snapshot;

// A connection that runs SQL, with one transaction at a time: BEGIN, COMMIT and ROLLBACK are statements. Several
// connections can write at the same time. A statement outside of a transaction is a transaction by itself, and runs
// again after a conflict; within a transaction, COMMIT fails with PANDO_CONFLICT, and the program runs the transaction
// again. Free it with pando_sql_free.
//
// A library that was built without its feature `sql` has no function pando_sql_… and pando_stmt_….
typedef struct pando_sql pando_sql;

// A prepared statement. Its parameters are counted from 1, as in SQL, and its columns from 0. Free it with
// pando_stmt_free.
typedef struct pando_stmt pando_stmt;

// A table. It is valid until the table is dropped or renamed; then calls return PANDO_MISSING. Free it with
// pando_table_free.
typedef struct pando_table pando_table;

// A read-write transaction. It ends with pando_tx_commit or pando_tx_rollback. Free it with pando_tx_free, which
// rolls back what was not committed.
typedef struct pando_tx pando_tx;

// A reader of a value of any length, from any place. The value stays as it was when the reader was opened, whatever is
// committed meanwhile. Of a value of more than 1 MiB, memory holds a piece of 256 KiB. A reader keeps the disk space
// of its value, as a snapshot does. Free it with pando_value_reader_free.
typedef struct pando_value_reader pando_value_reader;

// A writer of a value of any length, a piece at a time. Other calls can use the transaction meanwhile, and do not see
// the value before pando_value_writer_finish. Beyond 1 MiB the value is written to the data file as it arrives, and
// memory holds a piece of 256 KiB. Free it with pando_value_writer_free, which gives up a value that is not finished.
typedef struct pando_value_writer pando_value_writer;

// A function that long work calls from time to time, on the thread that called the work, with its `context` and two
// numbers that say how far the work is. It returns 0 to go on. Another number ends the work, which then returns
// PANDO_INTERRUPTED. It can use the database, but must neither close it nor free it with pando_db_free, and must not
// use the other objects that the work uses.
typedef int (*pando_progress)(void *context, uint64_t done, uint64_t expected);

// Bytes somewhere in memory.
typedef struct {
  // Where they begin. NULL: there are none.
  const void *data;
  // How many there are.
  size_t len;
} pando_bytes;

// Which keys: those that begin with `prefix`, from `start` on and before `end`. A part whose `data` is NULL sets no
// limit. `{0}` means every key.
typedef struct {
  // The beginning that all keys have in common.
  pando_bytes prefix;
  // The first key.
  pando_bytes start;
  // The key to stop before.
  pando_bytes end;
  // Not 0: `start` itself is left out.
  int excludes_start;
  // Not 0: `end` itself is taken in.
  int includes_end;
  // Not 0: a cursor does not read the values, and shows them as empty. It is quicker where values are long. Without
  // effect elsewhere.
  int keys_only;
} pando_range;

// An operation of a commit.
typedef struct {
  // PANDO_PUT, PANDO_DELETE, PANDO_DELETE_RANGE, PANDO_CREATE_TABLE, PANDO_DROP_TABLE, PANDO_RENAME_TABLE or
  // PANDO_ALTER_TABLE.
  int kind;
  // The name of the table after the commit.
  const char *table;
  // The name that a renamed table had; otherwise NULL.
  const char *former;
  // The key, or the first key of a range; its data is NULL for an operation on a table.
  pando_bytes key;
  // The value of a put; its data is NULL for every other operation.
  pando_bytes value;
  // The first key after a range; its data is NULL if the range reaches to the end of the table.
  pando_bytes end;
} pando_operation;

// What is known of a consumer.
typedef struct {
  // The name.
  const char *name;
  // The number of the last commit that the consumer has acknowledged.
  uint64_t position;
  // Not 0: the consumer has lost its position, because more was kept for it than max_changes_bytes.
  int is_lost;
} pando_consumer_info;

// A value of a row.
typedef struct {
  // PANDO_NULL, PANDO_INTEGER, PANDO_REAL, PANDO_TEXT or PANDO_BLOB.
  int kind;
  // The number, if the kind is PANDO_INTEGER; otherwise 0.
  int64_t integer;
  // The number, if the kind is PANDO_REAL; otherwise 0.
  double real;
  // The bytes, if the kind is PANDO_TEXT or PANDO_BLOB; otherwise NULL.
  const void *data;
  // How many bytes there are.
  size_t len;
} pando_value;

// A column of a statement's rows.
typedef struct {
  // The name.
  const char *name;
  // The declared type, such as "VARCHAR(20)"; NULL if the column is not one of a table.
  const char *declared;
} pando_column;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the name of a code, for messages, such as "conflict"; "unknown" for a number that is no code. The string
// lives as long as the program. Threads: any.
const char *pando_code_name(int code);

// Returns whether the same transaction can succeed if it runs again: after PANDO_CONFLICT and
// PANDO_SNAPSHOT_TOO_OLD. Threads: any.
bool pando_code_is_retryable(int code);

// Returns the version of the library, such as "0.1.0". The string lives as long as the program. Threads: any.
const char *pando_version(void);

// Frees memory that a function of this library returned as a plain pointer. Threads: any.
void pando_free(void *memory);

// Returns the code of an error; PANDO_MISUSE if `error` is NULL or no error. Threads: any, see the top.
pando_code pando_error_code(const pando_error *error);

// Returns what happened, where, and what to do. The string lives as long as the error. It is never NULL: without an
// error it is empty. Threads: any, see the top.
const char *pando_error_message(const pando_error *error);

// Returns the name of the table of a conflict; NULL if the error is no conflict, or its table is not known. The
// string lives as long as the error. Threads: any, see the top.
const char *pando_error_table(const pando_error *error);

// Returns the key of a conflict and stores its length in bytes; NULL and 0 if the error is no conflict, or is one
// about a table itself. The bytes live as long as the error. Threads: any, see the top.
const void *pando_error_key(const pando_error *error,
                            size_t *key_len);

// Returns SQLite's extended result code of a statement that has failed, such as 2067 for SQLITE_CONSTRAINT_UNIQUE; 0
// for every other error. Threads: any, see the top.
int pando_error_sqlite_code(const pando_error *error);

// Frees an error. Threads: any, see the top.
void pando_error_free(pando_error *error);

// Returns new options, all with their defaults. Threads: any.
pando_options *pando_options_new(void);

// Sets an option by its name, as docs/options.md lists it: a number in the option's unit, or a word. For example
// "memory_bytes" to "67108864", "durability" to "lazy", "read_only" to "yes". pando_open checks the range. Fails
// with PANDO_INVALID if there is no such option. Threads: one call at a time for these options.
pando_code pando_options_set(pando_options *options,
                             const char *name,
                             const char *value,
                             pando_error **error);

// Frees options.
void pando_options_free(pando_options *options);

// Opens the database in the directory `path`. `options` may be NULL. Fails with PANDO_MISSING if there is none, and
// with PANDO_LOCKED if another process has it open for writing. With the option "read_only" it is then read beside
// that process. The call replays the log since the last checkpoint. Threads: any.
pando_code pando_open(const char *path,
                      const pando_options *options,
                      pando_db **db,
                      pando_error **error);

// Opens the database in the directory `path`, or creates it. The rest is as for pando_open. Threads: any.
pando_code pando_create(const char *path,
                        const pando_options *options,
                        pando_db **db,
                        pando_error **error);

// Creates a database in memory, which is gone when its last object is freed. `options` may be NULL. Threads: any.
pando_code pando_in_memory(const pando_options *options,
                           pando_db **db,
                           pando_error **error);

// Closes a database: syncs its log, stops its threads and unlocks its directory. Later calls on every object of the
// database return PANDO_CLOSED. A second call waits for the first, and has the same result. The handle remains to be
// freed. Threads: any.
pando_code pando_db_close(pando_db *db,
                          pando_error **error);

// Frees a database. It is closed when the last object that depends on it is freed; the error of that is lost, so
// call pando_db_close before.
void pando_db_free(pando_db *db);

// Copies the newest value of `key` to a new block, which the caller frees with pando_free, and stores its length.
// Returns PANDO_ABSENT if the key does not exist. Threads: any number at the same time.
pando_code pando_db_get(pando_db *db,
                        const pando_table *table,
                        const void *key,
                        size_t key_len,
                        void **value,
                        size_t *value_len,
                        pando_error **error);

// Copies the newest value of `key` to the caller's buffer and stores its length. If the buffer is too short, nothing
// is copied, the length is stored all the same, and the result is PANDO_TOO_SMALL. Returns PANDO_ABSENT if the key
// does not exist. Threads: any number at the same time.
pando_code pando_db_get_into(pando_db *db,
                             const pando_table *table,
                             const void *key,
                             size_t key_len,
                             void *buffer,
                             size_t buffer_len,
                             size_t *value_len,
                             pando_error **error);

// Sets `key` to `value`, in a transaction of its own that runs again after conflicts. Threads: any number at the
// same time; those that wait for the disk at the same time share a flush.
pando_code pando_db_put(pando_db *db,
                        const pando_table *table,
                        const void *key,
                        size_t key_len,
                        const void *value,
                        size_t value_len,
                        pando_error **error);

// Deletes `key`, whether or not it exists, in a transaction of its own that runs again after conflicts. Threads: any
// number at the same time.
pando_code pando_db_delete(pando_db *db,
                           const pando_table *table,
                           const void *key,
                           size_t key_len,
                           pando_error **error);

// Returns whether the database is read-only: 1 or 0; 0 also if `db` is no database. Threads: any number at the same
// time.
int pando_db_is_read_only(pando_db *db);

// Makes a checkpoint now: writes what is in memory to the data file, so that the next opening has little to replay.
// Threads: any; checkpoints wait for each other.
pando_code pando_db_checkpoint(pando_db *db,
                               pando_error **error);

// Makes everything committed so far durable. Threads: any number at the same time.
pando_code pando_db_sync(pando_db *db, pando_error **error);

// Waits until a database that is read beside its writer shows what the writer has acknowledged. It has no effect on
// other databases. Threads: any number at the same time.
pando_code pando_db_catch_up(pando_db *db,
                             pando_error **error);

// Stores counters and sizes as a JSON object of numbers, such as {"commits": 12, ...}, in a string that the caller
// frees with pando_free. Threads: any number at the same time.
pando_code pando_db_stats(pando_db *db,
                          char **json,
                          pando_error **error);

// Reads everything and verifies it. Fails with the first problem that was found, as PANDO_CORRUPT. It takes as long
// as reading the whole data file. `progress` gets the numbers of tables and of records so far, after each table; it
// may be NULL, and so may `context`. Threads: any.
pando_code pando_db_check(pando_db *db,
                          pando_progress progress,
                          void *context,
                          pando_error **error);

// Makes the files as small as possible, while the database is in use. Every page is read. `progress` gets the length
// of the data file and how much of it is used, in bytes, each time that at most 64 MiB were moved; it may be NULL,
// and so may `context`. Threads: any.
pando_code pando_db_compact(pando_db *db,
                            pando_progress progress,
                            void *context,
                            pando_error **error);

// Adds a backup of the database to the directory `folder`, which is created if it does not exist, while the database
// is in use. Not 0 for `incremental` stores only what changed since the newest backup there, if there is one. Stores
// the name of the backup in a string that the caller frees with pando_free; `name` may be NULL. `progress` gets the
// bytes written so far and the approximate length of a full backup; it may be NULL, and so may `context`. Threads:
// any.
pando_code pando_db_backup(pando_db *db,
                           const char *folder,
                           int incremental,
                           pando_progress progress,
                           void *context,
                           char **name,
                           pando_error **error);

// Restores a backup from the directory `folder` into the directory `target`, which must be empty or not exist. `at`
// is the name of the backup; NULL means the newest. `progress` gets the bytes read so far and the length of the
// backups; it may be NULL, and so may `context`. Threads: any.
pando_code pando_restore(const char *folder,
                         const char *at,
                         const char *target,
                         pando_progress progress,
                         void *context,
                         pando_error **error);

// Opens the table `name`. Fails with PANDO_MISSING if it does not exist. Threads: any number at the same time.
pando_code pando_table_open(pando_db *db,
                            const char *name,
                            pando_table **table,
                            pando_error **error);

// Creates the table `name`. Fails with PANDO_EXISTS if it exists. `layout` is PANDO_BTREE or PANDO_LSM,
// `compression` is PANDO_UNCOMPRESSED or PANDO_LZ4, and PANDO_DEFAULT is possible for both. Entries expire `ttl_ms`
// milliseconds after they were put; 0 means never, and PANDO_TTL_BY_KEY each at its own time. Threads: any number at
// the same time.
pando_code pando_table_create(pando_db *db,
                              const char *name,
                              int layout,
                              int compression,
                              uint64_t ttl_ms,
                              pando_table **table,
                              pando_error **error);

// Opens the table `name`, or creates it with these options, which are those of pando_table_create. Fails with
// PANDO_MISMATCH if it exists with other ones; if all three are 0, it may have any. Threads: any number at the same
// time.
pando_code pando_table_ensure(pando_db *db,
                              const char *name,
                              int layout,
                              int compression,
                              uint64_t ttl_ms,
                              pando_table **table,
                              pando_error **error);

// Drops the table `name` and everything in it. Fails with PANDO_MISSING if it does not exist. Threads: any number at
// the same time.
pando_code pando_table_drop(pando_db *db,
                            const char *name,
                            pando_error **error);

// Renames the table `name` to `new_name`. Handles on the table return PANDO_MISSING from then on: open it by its new
// name. Fails with PANDO_MISSING if there is no table `name`, and with PANDO_EXISTS if there is a table `new_name`.
// Threads: any number at the same time.
pando_code pando_table_rename(pando_db *db,
                              const char *name,
                              const char *new_name,
                              pando_error **error);

// Changes the layout of the table `name` while it is in use: to PANDO_BTREE or PANDO_LSM. New entries are written in
// the new layout, and a thread rewrites the existing ones. Handles remain valid. Fails with PANDO_MISSING if there is
// no such table. Threads: any number at the same time.
pando_code pando_table_set_layout(pando_db *db,
                                  const char *name,
                                  int layout,
                                  pando_error **error);

// Changes the compression of the LSM table `name`: to PANDO_UNCOMPRESSED or PANDO_LZ4. It holds for pages that are
// written from now on. Handles remain valid. Fails with PANDO_MISSING if there is no such table, and with
// PANDO_INVALID if it is a B+tree. Threads: any number at the same time.
pando_code pando_table_set_compression(pando_db *db,
                                       const char *name,
                                       int compression,
                                       pando_error **error);

// Changes how many milliseconds after their put the entries of the table `name` expire, also of entries that exist; 0
// means never. Handles remain valid. Fails with PANDO_MISSING if there is no such table, and with PANDO_INVALID if it
// has a TTL by key, or was created without a TTL and has been written to. Threads: any number at the same time.
pando_code pando_table_set_ttl(pando_db *db,
                               const char *name,
                               uint64_t ttl_ms,
                               pando_error **error);

// Stores the names of all tables, in order, and how many there are. The strings and the array that points to them
// are one block: the caller frees `*names` with pando_free. Threads: any number at the same time.
pando_code pando_table_list(pando_db *db,
                            char ***names,
                            size_t *count,
                            pando_error **error);

// Returns the name of a table, which lives as long as the handle; NULL if `table` is none. Threads: any number at
// the same time.
const char *pando_table_name(const pando_table *table);

// Returns the layout that the table had when the handle was made, PANDO_BTREE or PANDO_LSM; 0 if `table` is none.
// Threads: any number at the same time.
int pando_table_layout(const pando_table *table);

// Frees a handle on a table; the table remains.
void pando_table_free(pando_table *table);

// Takes a snapshot of everything that was acknowledged so far. It copies nothing and waits for nobody. Threads: any
// number at the same time.
pando_code pando_snapshot_take(pando_db *db,
                               pando_snapshot **snapshot,
                               pando_error **error);

// Copies the value of `key` in the snapshot to a new block, which the caller frees with pando_free, and stores its
// length. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time for each snapshot.
pando_code pando_snapshot_get(const pando_snapshot *snapshot,
                              const pando_table *table,
                              const void *key,
                              size_t key_len,
                              void **value,
                              size_t *value_len,
                              pando_error **error);

// Copies the value of `key` in the snapshot to the caller's buffer and stores its length. If the buffer is too
// short, nothing is copied, the length is stored all the same, and the result is PANDO_TOO_SMALL. Returns
// PANDO_ABSENT if the key does not exist. Threads: one call at a time for each snapshot.
pando_code pando_snapshot_get_into(const pando_snapshot *snapshot,
                                   const pando_table *table,
                                   const void *key,
                                   size_t key_len,
                                   void *buffer,
                                   size_t buffer_len,
                                   size_t *value_len,
                                   pando_error **error);

// Returns PANDO_OK if `key` exists in the snapshot, PANDO_ABSENT if it does not. Threads: one call at a time for
// each snapshot.
pando_code pando_snapshot_exists(const pando_snapshot *snapshot,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 pando_error **error);

// Copies the values of `count` keys in the snapshot to one new block, and stores in each of the `count` elements of
// `values` where the value of its key is; `data` is NULL if the key does not exist. The caller frees `*block` with
// pando_free. Threads: one call at a time for each snapshot.
pando_code pando_snapshot_multi_get(const pando_snapshot *snapshot,
                                    const pando_table *table,
                                    const pando_bytes *keys,
                                    size_t count,
                                    pando_bytes *values,
                                    void **block,
                                    pando_error **error);

// Opens a cursor over the keys of `range` in the snapshot; NULL means every key. The caller frees it with
// pando_cursor_free. Threads: one call at a time for each snapshot.
pando_code pando_snapshot_cursor(const pando_snapshot *snapshot,
                                 const pando_table *table,
                                 const pando_range *range,
                                 pando_cursor **cursor,
                                 pando_error **error);

// Stores the number of the last commit that the snapshot sees. Threads: one call at a time for each snapshot.
pando_code pando_snapshot_commit_number(const pando_snapshot *snapshot,
                                        uint64_t *number,
                                        pando_error **error);

// Frees a snapshot. Cursors over it keep what it sees until they are freed, too.
void pando_snapshot_free(pando_snapshot *snapshot);

// Begins a transaction. `durability` is PANDO_SYNC, PANDO_BUFFERED or PANDO_LAZY, `isolation` is PANDO_SERIALIZABLE
// or PANDO_SNAPSHOT_ISOLATION, and PANDO_DEFAULT means what the database was opened with. Threads: any number at the
// same time.
pando_code pando_tx_begin(pando_db *db,
                          int durability,
                          int isolation,
                          pando_tx **tx,
                          pando_error **error);

// Sets `key` to `value`. Threads: one call at a time for each transaction.
pando_code pando_tx_put(pando_tx *tx,
                        const pando_table *table,
                        const void *key,
                        size_t key_len,
                        const void *value,
                        size_t value_len,
                        pando_error **error);

// Sets `key` to `value` if the key does not exist. Fails with PANDO_EXISTS if it does; the transaction goes on.
// Threads: one call at a time for each transaction.
pando_code pando_tx_insert(pando_tx *tx,
                           const pando_table *table,
                           const void *key,
                           size_t key_len,
                           const void *value,
                           size_t value_len,
                           pando_error **error);

// Deletes `key`, whether or not it exists. Threads: one call at a time for each transaction.
pando_code pando_tx_delete(pando_tx *tx,
                           const pando_table *table,
                           const void *key,
                           size_t key_len,
                           pando_error **error);

// Sets `key` to `new_value` if its value is `expected`, and stores in `*swapped` whether it did: 1 or 0. If the data
// of `expected` is NULL, the key must not exist; if that of `new_value` is NULL, the key is deleted. Threads: one
// call at a time for each transaction.
pando_code pando_tx_compare_and_swap(pando_tx *tx,
                                     const pando_table *table,
                                     const void *key,
                                     size_t key_len,
                                     const void *expected,
                                     size_t expected_len,
                                     const void *new_value,
                                     size_t new_value_len,
                                     int *swapped,
                                     pando_error **error);

// Deletes every key of `range` without reading it; NULL means every key. The cost does not depend on how many there
// are. Threads: one call at a time for each transaction.
pando_code pando_tx_delete_range(pando_tx *tx,
                                 const pando_table *table,
                                 const pando_range *range,
                                 pando_error **error);

// Opens the table `name` as the transaction sees it. Fails with PANDO_MISSING if it does not exist. Threads: one
// call at a time for each transaction.
pando_code pando_tx_table_open(pando_tx *tx,
                               const char *name,
                               pando_table **table,
                               pando_error **error);

// Creates a table together with the transaction's other changes. The options are those of pando_table_create.
// Threads: one call at a time for each transaction.
pando_code pando_tx_table_create(pando_tx *tx,
                                 const char *name,
                                 int layout,
                                 int compression,
                                 uint64_t ttl_ms,
                                 pando_table **table,
                                 pando_error **error);

// Drops a table together with the transaction's other changes. The handle remains to be freed. Threads: one call at
// a time for each transaction.
pando_code pando_tx_table_drop(pando_tx *tx,
                               const pando_table *table,
                               pando_error **error);

// Marks a point to which the transaction can be rolled back, and stores its number. Savepoints nest. Threads: one
// call at a time for each transaction.
pando_code pando_tx_savepoint(pando_tx *tx,
                              uint64_t *savepoint,
                              pando_error **error);

// Undoes every write since the savepoint, which remains; later savepoints end. Fails with PANDO_INVALID if the
// transaction has no such savepoint. Threads: one call at a time for each transaction.
pando_code pando_tx_rollback_to(pando_tx *tx,
                                uint64_t savepoint,
                                pando_error **error);

// Forgets the savepoint and all later ones; their writes remain. Fails with PANDO_INVALID if the transaction has no
// such savepoint. Threads: one call at a time for each transaction.
pando_code pando_tx_release(pando_tx *tx,
                            uint64_t savepoint,
                            pando_error **error);

// Commits all changes or none, and ends the transaction whatever the result is. Stores the number of the commit;
// `number` may be NULL. With PANDO_SYNC the call returns when the disk has the commit. Fails with PANDO_CONFLICT if
// another transaction changed what this one has read; the error names table and key, and the work can be done again
// in a new transaction. Threads: one call at a time for each transaction.
pando_code pando_tx_commit(pando_tx *tx,
                           uint64_t *number,
                           pando_error **error);

// Undoes all changes and ends the transaction. It has no effect on a transaction that has ended. Threads: one call
// at a time for each transaction.
pando_code pando_tx_rollback(pando_tx *tx,
                             pando_error **error);

// Frees a transaction, and rolls it back if it has not ended.
void pando_tx_free(pando_tx *tx);

// Copies the value of `key` as the transaction sees it, with its own writes, to a new block, which the caller frees
// with pando_free, and stores its length. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a
// time for each transaction.
pando_code pando_tx_get(const pando_tx *tx,
                        const pando_table *table,
                        const void *key,
                        size_t key_len,
                        void **value,
                        size_t *value_len,
                        pando_error **error);

// Copies the value of `key` as the transaction sees it to the caller's buffer and stores its length. If the buffer
// is too short, nothing is copied, the length is stored all the same, and the result is PANDO_TOO_SMALL. Returns
// PANDO_ABSENT if the key does not exist. Threads: one call at a time for each transaction.
pando_code pando_tx_get_into(const pando_tx *tx,
                             const pando_table *table,
                             const void *key,
                             size_t key_len,
                             void *buffer,
                             size_t buffer_len,
                             size_t *value_len,
                             pando_error **error);

// Returns PANDO_OK if `key` exists as the transaction sees it, PANDO_ABSENT if it does not. Threads: one call at a
// time for each transaction.
pando_code pando_tx_exists(const pando_tx *tx,
                           const pando_table *table,
                           const void *key,
                           size_t key_len,
                           pando_error **error);

// Copies the values of `count` keys as the transaction sees them to one new block, and stores in each of the `count`
// elements of `values` where the value of its key is; `data` is NULL if the key does not exist. The caller frees
// `*block` with pando_free. Threads: one call at a time for each transaction.
pando_code pando_tx_multi_get(const pando_tx *tx,
                              const pando_table *table,
                              const pando_bytes *keys,
                              size_t count,
                              pando_bytes *values,
                              void **block,
                              pando_error **error);

// Opens a cursor over the keys of `range` as the transaction sees them; NULL means every key. The caller frees it
// with pando_cursor_free. Threads: one call at a time for each transaction.
pando_code pando_tx_cursor(const pando_tx *tx,
                           const pando_table *table,
                           const pando_range *range,
                           pando_cursor **cursor,
                           pando_error **error);

// Holds back all commits from now on, except for those that are being made at this moment. Returns PANDO_ABSENT if
// another hold does so already: wait a little, and call again. A thread that holds commits back must commit with
// pando_hold_commit only: another commit of its own waits forever. It is for the last attempts of a transaction that
// had conflicts each time. Threads: any number at the same time.
pando_code pando_db_try_hold_commits(pando_db *db,
                                     pando_hold **hold,
                                     pando_error **error);

// Commits a transaction as pando_tx_commit does, past the commits that are held back. After pando_hold_release it is
// pando_tx_commit. Fails with PANDO_INVALID if the transaction belongs to another database; it is then rolled back.
// Threads: one call at a time for each transaction.
pando_code pando_hold_commit(pando_hold *hold,
                             pando_tx *tx,
                             uint64_t *commit_number,
                             pando_error **error);

// Lets others commit, at the latest after a call of pando_hold_commit that runs. Another thread can do it after some
// time, in case the holder waits for one of the others. A second call has no effect. Threads: any number at the same
// time.
pando_code pando_hold_release(pando_hold *hold,
                              pando_error **error);

// Releases and frees what holds back commits.
void pando_hold_free(pando_hold *hold);

// Sets `key` to `value` in a table with a TTL by key, in a transaction of its own that runs again after conflicts.
// The entry expires after `ttl_ms` milliseconds, from 1 on; PANDO_NEVER does what pando_db_put does. Fails with
// PANDO_INVALID if the table is of another kind. Threads: any number at the same time.
pando_code pando_db_put_with_ttl(pando_db *db,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 const void *value,
                                 size_t value_len,
                                 uint64_t ttl_ms,
                                 pando_error **error);

// Sets `key` to `value` in a table with a TTL by key. The entry expires after `ttl_ms` milliseconds, from 1 on;
// PANDO_NEVER does what pando_tx_put does. Fails with PANDO_INVALID if the table is of another kind. Threads: one call
// at a time for each transaction.
pando_code pando_tx_put_with_ttl(pando_tx *tx,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 const void *value,
                                 size_t value_len,
                                 uint64_t ttl_ms,
                                 pando_error **error);

// Lets the entry of `key` in a table with a TTL by key expire after `ttl_ms` milliseconds from now; PANDO_NEVER means
// never. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time for each transaction.
pando_code pando_tx_set_expiry(pando_tx *tx,
                               const pando_table *table,
                               const void *key,
                               size_t key_len,
                               uint64_t ttl_ms,
                               pando_error **error);

// Stores how many milliseconds the newest entry of `key` still lives; PANDO_NEVER if it never expires. Returns
// PANDO_ABSENT if the key does not exist. Threads: any number at the same time.
pando_code pando_db_expiry(pando_db *db,
                           const pando_table *table,
                           const void *key,
                           size_t key_len,
                           uint64_t *ttl_ms,
                           pando_error **error);

// Stores how many milliseconds the entry of `key` in the snapshot still lived when the snapshot was taken;
// PANDO_NEVER if it never expires. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time for
// each snapshot.
pando_code pando_snapshot_expiry(const pando_snapshot *snapshot,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 uint64_t *ttl_ms,
                                 pando_error **error);

// Stores how many milliseconds the entry of `key`, as the transaction sees it, still lived when the transaction
// began; PANDO_NEVER if it never expires. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time
// for each transaction.
pando_code pando_tx_expiry(const pando_tx *tx,
                           const pando_table *table,
                           const void *key,
                           size_t key_len,
                           uint64_t *ttl_ms,
                           pando_error **error);

// Goes to the next record, at first to the first one. Stores where its key and value are; each of the outputs may be
// NULL. The bytes live until the next call with this cursor. Returns PANDO_ABSENT after the last record; a step back
// then goes to the last record. Threads: one call at a time for each cursor.
pando_code pando_cursor_next(pando_cursor *cursor,
                             pando_bytes *key,
                             pando_bytes *value,
                             pando_error **error);

// Goes to the record before, at first to the last one. The rest is as for pando_cursor_next; PANDO_ABSENT means that
// there is no record before. Threads: one call at a time for each cursor.
pando_code pando_cursor_prev(pando_cursor *cursor,
                             pando_bytes *key,
                             pando_bytes *value,
                             pando_error **error);

// Goes to a place between records: pando_cursor_next then returns the first record at or after `key`,
// pando_cursor_prev the last one before it, both within the range. Reads nothing. Threads: one call at a time for
// each cursor.
pando_code pando_cursor_seek(pando_cursor *cursor,
                             const void *key,
                             size_t key_len,
                             pando_error **error);

// Frees a cursor.
void pando_cursor_free(pando_cursor *cursor);

// Opens a reader of the newest value of `key`. Returns PANDO_ABSENT if the key does not exist. Threads: any number at
// the same time.
pando_code pando_db_value_reader(pando_db *db,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 pando_value_reader **reader,
                                 pando_error **error);

// Opens a reader of the value of `key` in the snapshot. Returns PANDO_ABSENT if the key does not exist. The reader can
// outlive the snapshot. Threads: one call at a time for each snapshot.
pando_code pando_snapshot_value_reader(const pando_snapshot *snapshot,
                                       const pando_table *table,
                                       const void *key,
                                       size_t key_len,
                                       pando_value_reader **reader,
                                       pando_error **error);

// Opens a reader of the value of `key` as the transaction sees it, with its own writes. Returns PANDO_ABSENT if the
// key does not exist. The reader can outlive the transaction. Threads: one call at a time for each transaction.
pando_code pando_tx_value_reader(const pando_tx *tx,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 pando_value_reader **reader,
                                 pando_error **error);

// Returns the length of the value in bytes; 0 if `reader` is no reader of a value. Threads: any number at the same
// time.
uint64_t pando_value_reader_len(const pando_value_reader *reader);

// Copies the next bytes to the caller's buffer and stores how many there are: as many as the buffer takes, except at
// the value's end; 0 after it. What was read is verified. After an error, the reader is where the call began, and what
// the buffer has is undefined. Threads: one call at a time for each reader.
pando_code pando_value_reader_read(pando_value_reader *reader,
                                   void *buffer,
                                   size_t buffer_len,
                                   size_t *read_len,
                                   pando_error **error);

// Goes to the byte `position`, counted from 0; after the value's end there is nothing to read. Threads: one call at a
// time for each reader.
pando_code pando_value_reader_seek(pando_value_reader *reader,
                                   uint64_t position,
                                   pando_error **error);

// Frees a reader of a value.
void pando_value_reader_free(pando_value_reader *reader);

// Begins a value for `key`. `ttl_ms` is as for pando_tx_put_with_ttl in a table with a TTL by key, and PANDO_NEVER in
// every other; the time counts from this call. Several values can be written by turns. A transaction that runs again
// after a conflict needs a source that can be read again: open it after pando_tx_begin. Threads:
// one call at a time for each transaction.
pando_code pando_tx_value_writer(pando_tx *tx,
                                 const pando_table *table,
                                 const void *key,
                                 size_t key_len,
                                 uint64_t ttl_ms,
                                 pando_value_writer **writer,
                                 pando_error **error);

// Appends `len` bytes to the value. A value has at most 16 GiB. After every error except PANDO_IN_USE the value is
// given up: it cannot be finished. The transaction can go on. Threads: one call at a time for each writer.
pando_code pando_value_writer_append(pando_value_writer *writer,
                                     const void *data,
                                     size_t len,
                                     pando_error **error);

// Sets the key to the value in the transaction, and ends the writer whatever the result is, except PANDO_IN_USE: the
// value can be finished after the other call. Stores the length of the value; `value_len` may be NULL. The value is
// durable when the transaction is. Threads: one call at a time for each writer and its transaction.
pando_code pando_value_writer_finish(pando_value_writer *writer,
                                     uint64_t *value_len,
                                     pando_error **error);

// Frees a writer of a value. A value that was not finished is given up.
void pando_value_writer_free(pando_value_writer *writer);

// Opens a reader of the changes after the commit of number `after`; 0 means as far back as possible. Of `table_count`
// names in `tables`, only changes of these tables are read; 0 means every table. If the data of `prefix` is not NULL,
// only keys that begin with it are. Fails with PANDO_TOO_OLD if the changes are no longer kept. Threads: any number
// at the same time.
pando_code pando_changes_open(pando_db *db,
                              uint64_t after,
                              const char *const *tables,
                              size_t table_count,
                              pando_bytes prefix,
                              pando_changes **changes,
                              pando_error **error);

// Stores the number of the oldest commit after which pando_changes_open can begin now. Threads: any number at the same
// time.
pando_code pando_changes_oldest(pando_db *db,
                                uint64_t *number,
                                pando_error **error);

// Stores the next change. Waits for it for at most `timeout_ms` milliseconds; 0 means not at all, PANDO_FOREVER
// without an end. Returns PANDO_ABSENT if there is none until then, and PANDO_CLOSED if the reader or its database is
// closed meanwhile. The changed values are in memory as a whole. Threads: one call at a time for each reader.
pando_code pando_changes_next(pando_changes *changes,
                              uint64_t timeout_ms,
                              pando_change **change,
                              pando_error **error);

// Stores the number of the last commit that the reader has passed: begin after it to go on from here. Threads: one
// call at a time for each reader.
pando_code pando_changes_position(pando_changes *changes,
                                  uint64_t *position,
                                  pando_error **error);

// Closes a reader of changes, so that nothing is kept for it. A call that waits returns PANDO_CLOSED within 50
// milliseconds. A second call has no effect. Threads: any number at the same time.
pando_code pando_changes_close(pando_changes *changes,
                               pando_error **error);

// Frees a reader of changes.
void pando_changes_free(pando_changes *changes);

// Returns the number of the commit; 0 if `change` is no change. Numbers have no gaps. Threads: any number at the same
// time.
uint64_t pando_change_commit_number(const pando_change *change);

// Returns when the commit was made, in milliseconds since 1970; 0 if that is not known. Threads: any number at the
// same time.
uint64_t pando_change_time_ms(const pando_change *change);

// Returns the operations of the commit, in the order in which they lead to the state after it, and stores how many
// there are; NULL and 0 if `change` is no change. They live as long as the change. Threads: any number at the same
// time.
const pando_operation *pando_change_operations(const pando_change *change,
                                               size_t *count);

// Frees a change.
void pando_change_free(pando_change *change);

// Opens the consumer `name`, or creates it after the newest commit. Fails with PANDO_LOCKED if it is open, and with
// PANDO_TOO_OLD if more was kept for it than max_changes_bytes: drop it, and begin again. Threads: any number at the
// same time.
pando_code pando_consumer_open(pando_db *db,
                               const char *name,
                               pando_consumer **consumer,
                               pando_error **error);

// Stores all consumers, ordered by name, and how many there are. The caller frees the array, which has the names as
// well, with pando_free. Threads: any number at the same time.
pando_code pando_consumer_list(pando_db *db,
                               pando_consumer_info **consumers,
                               size_t *count,
                               pando_error **error);

// Removes the consumer `name`, and what is kept for it. Fails with PANDO_MISSING if there is none, and with
// PANDO_LOCKED if it is open. Threads: any number at the same time.
pando_code pando_consumer_drop(pando_db *db,
                               const char *name,
                               pando_error **error);

// Opens a reader of the changes after the last commit that the consumer has acknowledged. `tables` and `prefix` are as
// for pando_changes_open. Threads: one call at a time for each consumer.
pando_code pando_consumer_changes(pando_consumer *consumer,
                                  const char *const *tables,
                                  size_t table_count,
                                  pando_bytes prefix,
                                  pando_changes **changes,
                                  pando_error **error);

// Stores the number of the last commit that the consumer has acknowledged. Threads: one call at a time for each
// consumer.
pando_code pando_consumer_position(pando_consumer *consumer,
                                   uint64_t *position,
                                   pando_error **error);

// Records durably that everything up to the commit of number `commit` is done. An older commit has no effect. It takes
// three flushes, so call it for many changes at once. Threads: one call at a time for each consumer.
pando_code pando_consumer_acknowledge(pando_consumer *consumer,
                                      uint64_t commit,
                                      pando_error **error);

// Frees a consumer, so that it can be opened again. Its position is kept.
void pando_consumer_free(pando_consumer *consumer);

// Opens a connection. On a read-only database it only reads. Threads: any number at the same time.
pando_code pando_sql_open(pando_db *db, pando_sql **sql, pando_error **error);

// Sets durability and isolation of transactions that begin from now on, as pando_tx_begin takes them. Threads: one
// call at a time for each connection.
pando_code pando_sql_set_options(pando_sql *sql,
                                 int durability,
                                 int isolation,
                                 pando_error **error);

// Lets statements that write fail with PANDO_READ_ONLY from now on, if `read_only` is not 0. Transactions that begin
// are then snapshots, which never conflict. Threads: one call at a time for each connection.
pando_code pando_sql_set_read_only(pando_sql *sql,
                                   int read_only,
                                   pando_error **error);

// Runs statements that have no parameters, one after another, and stops at the first that fails. Rows are left out.
// Threads: one call at a time for each connection.
pando_code pando_sql_execute(pando_sql *sql,
                             const char *text,
                             pando_error **error);

// Stores in `*is_open` whether a transaction is open that BEGIN or SAVEPOINT has begun: 1 or 0. Threads: one call at a
// time for each connection.
pando_code pando_sql_in_transaction(pando_sql *sql,
                                    int *is_open,
                                    pando_error **error);

// Stores the id of the row that the connection has inserted last; 0 before the first. Threads: one call at a time for
// each connection.
pando_code pando_sql_last_row_id(pando_sql *sql,
                                 int64_t *row_id,
                                 pando_error **error);

// Stops the statements of the connection that run at this moment: they fail with PANDO_INTERRUPTED. It has no effect
// if none runs, and none on a commit that waits for the disk. A statement that writes ends its transaction when it is
// stopped: everything before it is undone, too, and a further statement is a transaction of its own. So call
// pando_sql_in_transaction after PANDO_INTERRUPTED. Threads: any number at the same time, while other calls use the
// connection.
pando_code pando_sql_interrupt(pando_sql *sql,
                               pando_error **error);

// Closes a connection: ends its statements, and rolls back its transaction. Later calls on both return PANDO_CLOSED. A
// second call has no effect. Threads: one call at a time for each connection.
pando_code pando_sql_close(pando_sql *sql,
                           pando_error **error);

// Frees a connection. Statements keep it open; without any, its transaction is rolled back.
void pando_sql_free(pando_sql *sql);

// Returns the version of SQLite whose front end the library has, such as "3.50.2". The string lives as long as the
// program. Threads: any.
const char *pando_sqlite_version(void);

// Prepares the only statement in `text`. Fails with PANDO_INVALID if it is wrong, and if there are several. Threads:
// one call at a time for each connection and its statements.
pando_code pando_stmt_prepare(pando_sql *sql,
                              const char *text,
                              pando_stmt **stmt,
                              pando_error **error);

// Stores how many parameters the statement has. Threads: as for pando_stmt_prepare.
pando_code pando_stmt_parameter_count(pando_stmt *stmt, size_t *count, pando_error **error);

// Stores the index of the parameter `name`, which includes its ':', '@' or '$'. Returns PANDO_ABSENT if there is no
// such parameter. Threads: as for pando_stmt_prepare.
pando_code pando_stmt_parameter(pando_stmt *stmt,
                                const char *name,
                                size_t *index,
                                pando_error **error);

// Sets the parameter `index`, counted from 1, to NULL. Parameters keep their values until they are set again, and are
// NULL before. Fails with PANDO_INVALID if there is no such parameter, or while the statement has a row: reset it
// before. Threads: as for pando_stmt_prepare.
pando_code pando_stmt_bind_null(pando_stmt *stmt,
                                size_t index,
                                pando_error **error);

// Sets the parameter `index` to an integer. The rest is as for pando_stmt_bind_null.
pando_code pando_stmt_bind_integer(pando_stmt *stmt,
                                   size_t index,
                                   int64_t value,
                                   pando_error **error);

// Sets the parameter `index` to a floating-point number; one that is no number becomes NULL, as SQLite does it. The
// rest is as for pando_stmt_bind_null.
pando_code pando_stmt_bind_real(pando_stmt *stmt,
                                size_t index,
                                double value,
                                pando_error **error);

// Sets the parameter `index` to a text of `len` bytes of UTF-8, which need not end with a zero byte. The rest is as
// for pando_stmt_bind_null.
pando_code pando_stmt_bind_text(pando_stmt *stmt,
                                size_t index,
                                const char *text,
                                size_t len,
                                pando_error **error);

// Sets the parameter `index` to `len` bytes. The rest is as for pando_stmt_bind_null.
pando_code pando_stmt_bind_blob(pando_stmt *stmt,
                                size_t index,
                                const void *data,
                                size_t len,
                                pando_error **error);

// Runs the statement to its first row, or goes on to its next one. Stores the row's values and their number; both
// outputs may be NULL. Returns PANDO_ABSENT after the last row, and for a statement that has none; the next call runs
// it again. The values live until the next call on the statement. Fails with PANDO_CONSTRAINT, PANDO_CONFLICT (of
// COMMIT), PANDO_INTERRUPTED and others. Threads: as for pando_stmt_prepare.
pando_code pando_stmt_step(pando_stmt *stmt,
                           const pando_value **row,
                           size_t *count,
                           pando_error **error);

// Stores the value of the column `column`, counted from 0, of the row at which the statement stands. Fails with
// PANDO_INVALID if there is no row or no such column. Threads: as for pando_stmt_prepare.
pando_code pando_stmt_value(pando_stmt *stmt,
                            size_t column,
                            pando_value *value,
                            pando_error **error);

// Stores the columns of the statement's rows and their number: 0 if it has no rows. While the statement has a row, the
// declared types are NULL. The array and its strings live until the next call of this function for the statement.
// Threads: as for pando_stmt_prepare.
pando_code pando_stmt_columns(pando_stmt *stmt,
                              const pando_column **columns,
                              size_t *count,
                              pando_error **error);

// Stores how many rows the last run of the statement has inserted, updated or deleted. Threads: as for
// pando_stmt_prepare.
pando_code pando_stmt_changes(pando_stmt *stmt,
                              uint64_t *changes,
                              pando_error **error);

// Ends a run of the statement before its last row, so that what it reads can be freed. The next step begins again.
// Threads: as for pando_stmt_prepare.
pando_code pando_stmt_reset(pando_stmt *stmt,
                            pando_error **error);

// Frees a statement. Threads: any, also while another call uses its connection, but not this statement.
void pando_stmt_free(pando_stmt *stmt);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PANDO_H */
