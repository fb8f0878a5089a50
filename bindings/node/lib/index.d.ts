import type { Readable, Writable } from 'node:stream'

/** Keys and values: text is stored as UTF-8. */
export type Bytes = string | Uint8Array

export type Durability = 'sync' | 'buffered' | 'lazy'
export type Isolation = 'serializable' | 'snapshot'
export type Layout = 'btree' | 'lsm'

/** Options of a database. Sizes are in bytes; docs/options.md of Pando has their defaults and ranges. */
export interface DatabaseOptions {
  memoryBytes?: number
  durability?: Durability
  isolation?: Isolation
  lazyIntervalMs?: number
  maxSegmentBytes?: number
  checkpointBytes?: number
  checkpointRecords?: number
  maxLogBytes?: number
  maxLogRecords?: number
  maxSnapshotAgeMs?: number
  maxPinnedSpaceBytes?: number
  maxChangesBytes?: number
  pageBytes?: number
}

export interface OpenOptions extends DatabaseOptions {
  /** Whether a database that does not exist is created. Default: true. */
  create?: boolean
  /** Opens an existing database for reading, beside the process that writes to it. Default: false. */
  readOnly?: boolean
}

export type Compression = 'none' | 'lz4'

/** The options of a new table. */
export interface NewTableOptions {
  layout?: Layout
  compression?: Compression
  /** How long entries live after their put. */
  ttlMs?: number
  /** Whether each entry expires at a time of its own, which `put` and `setExpiry` set. Default: false. */
  ttlByKey?: boolean
}

export interface TableOptions extends NewTableOptions {
  /** Whether a table that does not exist is created. Default: true. */
  create?: boolean
}

export interface TransactionOptions {
  durability?: Durability
  isolation?: Isolation
}

/** Which keys: those that begin with `prefix` and lie between the ends. */
export interface Range {
  prefix?: Bytes
  gte?: Bytes
  gt?: Bytes
  lt?: Bytes
  lte?: Bytes
}

export interface RangeOptions extends Range {
  /** Whether the largest key comes first. Default: false. */
  reverse?: boolean
  /** The greatest number of records: a whole number from 0 on, or Infinity. */
  limit?: number
}

export type Operation = { type: 'put', key: Bytes, value: Bytes } | { type: 'del', key: Bytes }

export type ErrorCode =
  | 'PANDO_CONFLICT' | 'PANDO_SNAPSHOT_TOO_OLD' | 'PANDO_TOO_OLD' | 'PANDO_FULL' | 'PANDO_EXISTS' | 'PANDO_MISSING' | 'PANDO_WOULD_WAIT'
  | 'PANDO_INVALID' | 'PANDO_MISMATCH' | 'PANDO_LOCKED' | 'PANDO_READ_ONLY' | 'PANDO_FOREIGN' | 'PANDO_CORRUPT'
  | 'PANDO_IO' | 'PANDO_LATCHED' | 'PANDO_INDETERMINATE' | 'PANDO_CLOSED' | 'PANDO_FORKED' | 'PANDO_FENCED' | 'PANDO_IN_USE'
  | 'PANDO_INTERNAL' | 'PANDO_FAILED' | 'PANDO_CONSTRAINT' | 'PANDO_INTERRUPTED'

/** An error of the library. */
export class PandoError extends Error {
  /** What the caller can do. */
  readonly code: ErrorCode
  /** The table of a conflict. */
  readonly table?: string
  /** The key that another transaction changed. */
  readonly key?: Buffer
  /** The extended result code of SQLite, if a statement of SQL has failed: 2067 is SQLITE_CONSTRAINT_UNIQUE. */
  readonly sqliteCode?: number
  /** Whether the same transaction can succeed if it runs again. */
  readonly isRetryable: boolean
}

/** The reads of a table. Buffers that are returned belong to the caller; some share memory with each other. */
export interface Reads {
  readonly name: string
  readonly layout: Layout
  /** Returns a value. One that is in memory costs no thread. */
  get(key: Bytes): Promise<Buffer | undefined>
  /** Returns a value without a promise. It blocks the event loop for a read of the disk if it is not in memory. */
  getSync(key: Bytes): Buffer | undefined
  /** Returns the values of one moment, in the order of the keys. */
  getMany(keys: Iterable<Bytes>): Promise<Array<Buffer | undefined>>
  has(key: Bytes): Promise<boolean>
  /** Returns which of the keys exist at one moment, in their order. Values are not read. */
  hasMany(keys: Iterable<Bytes>): Promise<boolean[]>
  /**
   * Opens a stream of a value of any length, from the byte `start` on and before the byte `end`; undefined if the key does
   * not exist. The value stays as it was when the stream was opened.
   */
  readStream(key: Bytes, options?: { start?: number, end?: number }): Promise<Readable & { readonly valueLength: number } | undefined>
  /**
   * Returns the remaining time in milliseconds: Infinity if the entry never expires, undefined if the key does not exist.
   * The table has a TTL by key, and the time counts from the moment that is read.
   */
  expiry(key: Bytes): Promise<number | undefined>
  /** Iterates over the records of one moment in the order of their keys. */
  range(options?: RangeOptions): AsyncGenerator<[Buffer, Buffer], void, undefined>
  /** Iterates over the keys, without reading their values. */
  keys(options?: RangeOptions): AsyncGenerator<Buffer, void, undefined>
  values(options?: RangeOptions): AsyncGenerator<Buffer, void, undefined>
  /** Iterates over what each read has found: fewer promises than `range`. */
  chunks(options?: RangeOptions): AsyncGenerator<Array<[Buffer, Buffer]>, void, undefined>
  /** Iterates as `chunks` does, without reading values: they are empty. */
  keyChunks(options?: RangeOptions): AsyncGenerator<Array<[Buffer, Buffer]>, void, undefined>
}

/** A table of the newest state. Each write is a transaction by itself. */
export interface Table extends Reads {
  /** Sets a key. With `ttlMs`, from 1 on, the entry expires after that; the table must have a TTL by key. */
  put(key: Bytes, value: Bytes, options?: { durability?: Durability, ttlMs?: number }): Promise<void>
  /** Lets an entry expire after `ttlMs`, or never if that is undefined. Returns whether the key exists. */
  setExpiry(key: Bytes, ttlMs: number | undefined, options?: { durability?: Durability }): Promise<boolean>
  del(key: Bytes, options?: { durability?: Durability }): Promise<void>
  /** Applies writes together, in their order. */
  batch(operations: readonly Operation[], options?: { durability?: Durability }): Promise<void>
  /**
   * Deletes the keys of a range without reading them; without a range, all keys. An end that is undefined is refused. It
   * runs again after a conflict, as the other writes do.
   */
  deleteRange(range?: Range, options?: TransactionOptions): Promise<void>
}

/** A table within a transaction. It has no `getSync`, which throws: it could not see all writes of the transaction. */
export interface TransactionTable extends Omit<Reads, 'getSync'> {
  /**
   * Sets a key. The write is handed over before the next read, and at the commit, whose promises report its error; the
   * transaction can then only be rolled back. If there is a promise, await it before further writes. With `ttlMs` there
   * always is one. Throws PANDO_CLOSED after the end of the transaction.
   */
  put(key: Bytes, value: Bytes, options?: { ttlMs?: number }): Promise<void> | undefined
  /** Lets an entry expire after `ttlMs`, or never if that is undefined. Returns whether the key exists. */
  setExpiry(key: Bytes, ttlMs: number | undefined): Promise<boolean>
  /** Deletes a key, as `put` sets one. */
  del(key: Bytes): Promise<void> | undefined
  /**
   * Opens a stream whose bytes become the value of a key, when it ends: wait for `finish`, or use `pipeline`, before the
   * commit. Other calls can use the transaction meanwhile. A stream that is destroyed has no effect; the end of the
   * transaction destroys those that are not finished. `transact` can run its function again: open the source within it.
   * `ttlMs` counts from the beginning of writing.
   */
  writeStream(key: Bytes, options?: { ttlMs?: number }): Writable
  /** Sets a key that must not exist; PANDO_EXISTS if it does. */
  insert(key: Bytes, value: Bytes): Promise<void>
  /** Deletes a key and returns the value that it had. */
  remove(key: Bytes): Promise<Buffer | undefined>
  deleteRange(range?: Range): Promise<void>
}

export interface Transaction {
  table(table: Table): TransactionTable
  /** Creates a table together with the other changes. After the commit, open it with `db.table`. */
  createTable(name: string, options?: NewTableOptions): Promise<TransactionTable>
  /** Drops a table together with the other changes. */
  dropTable(name: string): Promise<void>
  /**
   * Runs `work`, and undoes only its writes if it fails. Savepoints nest. One that begins while another is open, and not
   * within it, is refused with PANDO_IN_USE.
   */
  savepoint<T>(work: () => Promise<T>): Promise<T>
  /** Commits all changes or none, and ends the transaction whatever the result is. Returns the number of the commit. */
  commit(): Promise<number>
  /** Undoes all changes. It has no effect on a transaction that has ended. */
  rollback(): Promise<void>
}

/** A view of one moment. */
export interface Snapshot {
  table(table: Table): Reads
  close(): Promise<void>
}

/** An operation of a commit, with keys and values as they are stored. */
export interface ChangeOperation {
  kind: 'put' | 'del' | 'deleteRange' | 'createTable' | 'dropTable' | 'renameTable' | 'alterTable'
  /** The name of the table, after the commit. */
  table: string
  /** The key; the first one of a range that was deleted. */
  key?: Buffer
  /** The value of a put. */
  value?: Buffer
  /** The first key after a range that was deleted; undefined: the range reaches to the end of the table. */
  end?: Buffer
  /** The name that a renamed table had. */
  former?: string
}

/** One commit. All of its operations are in memory at once. */
export interface Change {
  commitNumber: number
  /** When it was made, in milliseconds since 1970, if that is known. */
  timeMs?: number
  operations: ChangeOperation[]
}

export interface ChangesFilter {
  /** Only these tables. */
  tables?: string | Table | ReadonlyArray<string | Table>
  /** Only keys that begin with this. */
  prefix?: Bytes
}

/**
 * Every commit in order: it waits for the next one, and ends when it or the database is closed. Leaving a `for await` loop
 * closes it.
 */
export interface Changes {
  readonly isClosed: boolean
  /** Returns the next change. Waits for at most `timeoutMs`; undefined after that, and at the end. */
  next(options?: { timeoutMs?: number }): Promise<Change | undefined>
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, undefined>
  close(): Promise<void>
}

/** A named consumer of changes, whose position survives restarts. */
export interface Consumer {
  readonly name: string
  /** The last commit that was acknowledged. */
  readonly position: number
  changes(filter?: ChangesFilter): Promise<Changes>
  /** Records durably that everything up to this commit is done. */
  acknowledge(commit: number | Change): Promise<void>
  /** Closes the consumer. Its position is kept. */
  close(): Promise<void>
}

/** A parameter of SQL. A boolean becomes 0 or 1, and a Date a text that SQLite's functions of time read. */
export type SqlParameter = null | undefined | boolean | number | bigint | string | Uint8Array | Date
/** A value of a row. An integer beyond 2^53 is a bigint. */
export type SqlValue = null | number | bigint | string | Buffer
/** Values for `?`, one after another, or one object for `:name`, `@name` and `$name`. */
export type SqlParameters = SqlParameter[] | [Record<string, SqlParameter>]
export type SqlRow = Record<string, SqlValue>

/** The rows of a statement. */
export type SqlRows<Row = SqlRow> = Row[] & {
  readonly columns: string[]
  /** How many rows the statement has inserted, updated or deleted. */
  readonly changes: number
  /** The id of the row that the connection has inserted last. */
  readonly lastRowId: number | bigint
}

/**
 * A prepared statement. It has one run at a time: `all` or `iterate` begins a new one, and an iterator of an older run then
 * fails with PANDO_INVALID. Prepare a statement for each iterator that others must not end.
 */
export interface Statement {
  all<Row = SqlRow>(...parameters: SqlParameters): Promise<SqlRows<Row>>
  iterate<Row = SqlRow>(...parameters: SqlParameters): AsyncGenerator<Row, void, undefined>
}

/** A connection of SQL, with one transaction at a time: BEGIN, COMMIT and ROLLBACK are statements. */
export interface Connection {
  /** Whether a transaction is open. It throws PANDO_IN_USE while a statement runs. */
  readonly inTransaction: boolean
  sql<Row = SqlRow>(text: string, ...parameters: SqlParameters): Promise<SqlRows<Row>>
  /** Runs statements that have no parameters, and stops at the first that fails. */
  script(text: string): Promise<void>
  prepare(text: string): Promise<Statement>
  iterate<Row = SqlRow>(text: string, ...parameters: SqlParameters): AsyncGenerator<Row, void, undefined>
  /** Stops the statement that runs. It fails with PANDO_INTERRUPTED. */
  interrupt(): void
  /** Ends the connection with its statements, and rolls back its transaction. */
  close(): Promise<void>
}

export interface Database {
  /**
   * Runs one statement of SQL, a transaction by itself, which runs again after a conflict. What changes one connection is
   * refused with PANDO_INVALID: a PRAGMA that sets something, TEMP tables, ATTACH. Use a connection of `connect` for them.
   */
  sql<Row = SqlRow>(text: string, ...parameters: SqlParameters): Promise<SqlRows<Row>>
  /** Runs a query as an async iterator, which fetches its rows in batches of 64 KiB. */
  iterate<Row = SqlRow>(text: string, ...parameters: SqlParameters): AsyncGenerator<Row, void, undefined>
  connect(): Promise<Connection>
  readonly path: string | undefined
  readonly isClosed: boolean
  /** Whether the database was opened for reading. It throws PANDO_CLOSED after the end. */
  readonly isReadOnly: boolean
  /** Closes the database. Each call waits for the first one, and has its result. */
  close(): Promise<void>
  tables(): Promise<string[]>
  table(name: string, options?: TableOptions): Promise<Table>
  dropTable(name: string): Promise<void>
  /** Renames a table. Tables that were opened by the old name fail with PANDO_MISSING. */
  renameTable(name: string, newName: string): Promise<void>
  /** Changes the layout of a table while it is in use. A thread rewrites the existing entries. */
  setLayout(name: string, layout: Layout): Promise<void>
  /** Changes the compression of an LSM table, for what is written from now on. */
  setCompression(name: string, compression: Compression): Promise<void>
  /**
   * Changes how long entries live after their put, also of entries that exist; undefined: forever. PANDO_INVALID if the
   * table has a TTL by key, or was created without a TTL and has been written to.
   */
  setTtl(name: string, ttlMs: number | undefined): Promise<void>
  snapshot(): Snapshot
  begin(options?: TransactionOptions): Promise<Transaction>
  /**
   * Runs `work(tx)` and commits; runs it again after a conflict, up to 24 times. Returns what `work` returns. After eight
   * attempts other commits wait for it, for half a second at most.
   */
  transact<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** Opens an async iterator over every commit after the one of number `after`; 0: as far back as possible. */
  changes(options?: ChangesFilter & { after?: number }): Promise<Changes>
  /** Returns the number of the oldest commit after which `changes` can begin now. */
  oldestChange(): Promise<number>
  /** Opens the consumer of this name, or creates it after the newest commit. One can be open at a time. */
  consumer(name: string): Promise<Consumer>
  consumers(): Promise<Array<{ name: string, position: number, isLost: boolean }>>
  /** Removes a consumer, and what is kept for it. */
  dropConsumer(name: string): Promise<void>
  checkpoint(): Promise<void>
  sync(): Promise<void>
  /** Waits until a database that is read beside its writer shows what the writer has acknowledged. */
  catchUp(): Promise<void>
  /** Reads and verifies everything. The progress is the numbers of tables and of records so far. */
  check(options?: { progress?: Progress }): Promise<void>
  /**
   * Makes the files as small as possible, and returns the length of the data file before and after. The progress is the
   * length of the data file and how much of it is used.
   */
  compact(options?: { progress?: Progress }): Promise<{ bytesBefore: number, bytes: number }>
  stats(): Promise<Record<string, number>>
  /** Adds a backup to a folder. Returns its name. The progress is the bytes written and the length of a full backup. */
  backup(folder: string, options?: { incremental?: boolean, progress?: Progress }): Promise<string>
}

/**
 * A function that gets how far long work is: ten times a second, and when the work is done. An exception ends the work,
 * and the promise rejects with it: a backup then leaves no file, a restore no database. If the work has finished before
 * the exception could end it, the promise resolves with the result, and the exception has no effect. Work of less than
 * 0.1 seconds calls the function only when it is done.
 */
export type Progress = (done: number, expected: number) => void

/** Opens a database, or creates it. */
export function open(path: string, options?: OpenOptions): Promise<Database>
/** Creates a database in memory. */
export function inMemory(options?: DatabaseOptions): Promise<Database>
/**
 * Restores a backup of a folder into a directory that is empty or does not exist. Returns the last commit's number. The
 * progress is the bytes read and the length of the backups.
 */
export function restore(folder: string, target: string, options?: { at?: string, progress?: Progress }): Promise<number>
