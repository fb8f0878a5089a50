'use strict'

const native = require('./native')
const { PandoError, awaited, immediate, closed } = require('./errors')
const { optionsOf, typed, textOf, checkWhole, shown, TABLE, DURABILITY, TRANSACTION } = require('./arguments')
const { Gate } = require('./gate')
const { bytesOf, viewOf, packWrites } = require('./packed')
const { Reads, Calls, Queue, deletedRangeOf } = require('./reads')
const { Changes, Consumer, filterOf, FILTER } = require('./changes')
const { connect, Connection, Connections, Statement } = require('./sql')
const { Transaction, registerTable, nativeOf } = require('./transaction')

/** How often `transact` runs its function, and after how many attempts it takes a turn of its own. */
const MOST_ATTEMPTS = 24
const OPEN_ATTEMPTS = 8

const NAMES = {
  memoryBytes: 'memory_bytes',
  durability: 'durability',
  isolation: 'isolation',
  lazyIntervalMs: 'lazy_interval',
  maxSegmentBytes: 'max_segment_bytes',
  checkpointBytes: 'checkpoint_bytes',
  checkpointRecords: 'checkpoint_records',
  maxLogBytes: 'max_log_bytes',
  maxLogRecords: 'max_log_records',
  maxSnapshotAgeMs: 'max_snapshot_age',
  maxPinnedSpaceBytes: 'max_pinned_space_bytes',
  maxChangesBytes: 'max_changes_bytes',
  pageBytes: 'page_bytes'
}
const WORDS = new Set(['durability', 'isolation'])

function databaseOptionsOf ({ readOnly = false, ...given }) {
  typed(readOnly, 'readOnly', 'boolean')
  const named = readOnly ? { read_only: 'yes' } : {}
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(NAMES, name)) throw new TypeError(`there is no option ${name}`)
    if (value === undefined) continue
    typed(value, name, WORDS.has(name) ? 'string' : 'number')
    if (!WORDS.has(name)) checkWhole(value, name)
    named[NAMES[name]] = String(value)
  }
  return named
}

/** The result of an opening. An error has the names of options that JavaScript has. */
async function opened (call) {
  try {
    return await awaited(call)
  } catch (error) {
    if (error.code === 'PANDO_INVALID') {
      for (const [name, native] of Object.entries(NAMES)) {
        error.message = error.message.replaceAll(new RegExp(`\\b${native}\\b`, 'g'), name)
      }
    }
    throw error
  }
}

/** Opens the database in a directory, and creates it if there is none and `create` is not false. */
async function open (path, { create = true, ...options } = {}) {
  textOf(path, 'the path')
  typed(create, 'create', 'boolean')
  const named = databaseOptionsOf(options)
  const handle = await opened(() => native.open(path, create && !options.readOnly, named))
  return new Database(handle, path)
}

/** Creates a database in memory. */
async function inMemory (options = {}) {
  return new Database(await opened(() => native.open(null, true, databaseOptionsOf(options))), undefined)
}

/** How often a function of progress is called. */
const PROGRESS_MS = 100

/**
 * Runs `work(report)`, and calls `progress` with the numbers of `report` meanwhile and once after it. Its exception ends
 * the work. If the work has finished before that, the result counts, and not the exception.
 */
async function watched (progress, work) {
  const report = new native.NativeProgress()
  if (progress === undefined) return awaited(() => work(report))
  if (typeof progress !== 'function') throw new TypeError('progress must be a function')
  let failure
  const call = () => {
    if (failure) return
    try {
      progress(report.done, report.expected)
    } catch (error) {
      failure = { error }
      report.end()
    }
  }
  const timer = setInterval(call, PROGRESS_MS)
  try {
    const done = await awaited(() => work(report))
    call()
    return done
  } catch (error) {
    throw failure && error.code === 'PANDO_INTERRUPTED' ? failure.error : error
  } finally {
    clearInterval(timer)
  }
}

/** Restores a backup. */
async function restore (folder, target, options) {
  const { at, progress } = optionsOf(options, { at: 'string', progress: 'any' })
  const [from, to] = [textOf(folder, 'the folder'), textOf(target, 'the target')]
  return watched(progress, report => native.restore(from, to, at, report))
}

class Database {
  #native
  #path
  #connections
  #closing
  #calls = new Calls()
  #gate = new Gate()

  constructor (handle, path) {
    this.#native = handle
    this.#path = path
    this.#connections = new Connections(handle)
  }

  /** Runs one statement of SQL, a transaction by itself. Returns its rows as objects. */
  async sql (text, ...parameters) {
    return this.#connections.sql(text, parameters)
  }

  /** Runs a query as an async iterator over its rows. */
  iterate (text, ...parameters) {
    return this.#connections.iterate(text, parameters)
  }

  /** Opens a connection of SQL, for transactions and prepared statements. */
  async connect () {
    return new Connection(await connect(this.#native))
  }

  get path () {
    return this.#path
  }

  get isClosed () {
    return this.#native.isClosed
  }

  get isReadOnly () {
    return immediate(() => this.#native.isReadOnly)
  }

  /** Each call has the result of the first one. After one that was refused, and closed nothing, another one can be made. */
  async close () {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close () {
    this.#calls.end('the database')
    try {
      await awaited(() => this.#native.close())
    } catch (error) {
      if (!this.#native.isClosed) {
        this.#calls.end(undefined)
        this.#closing = undefined
      }
      throw error
    }
  }

  async [Symbol.asyncDispose ?? Symbol('asyncDispose')] () {
    return this.close()
  }

  async tables () {
    return awaited(() => this.#native.tables())
  }

  /** Opens a table, and creates it if there is none and `create` is not false. */
  async table (name, given) {
    const text = textOf(name, 'the name of a table')
    const { create = true, ...options } = optionsOf(given, { create: 'boolean', ...TABLE })
    const others = Object.values(options).some(value => value !== undefined) ? options : undefined
    const handle = await awaited(() => this.#native.table(text, create, others))
    return new Table(handle, this.#native, this.#calls, this.#gate)
  }

  async dropTable (name) {
    return awaited(() => this.#native.dropTable(textOf(name, 'the name of a table')))
  }

  /** Renames a table. Its tables that were opened before fail with PANDO_MISSING. */
  async renameTable (name, newName) {
    const names = [textOf(name, 'the name of a table'), textOf(newName, 'the new name')]
    return awaited(() => this.#native.renameTable(...names))
  }

  async setLayout (name, layout) {
    const words = [textOf(name, 'the name of a table'), textOf(layout, 'the layout')]
    return awaited(() => this.#native.setLayout(...words))
  }

  async setCompression (name, compression) {
    const words = [textOf(name, 'the name of a table'), textOf(compression, 'the compression')]
    return awaited(() => this.#native.setCompression(...words))
  }

  /** Sets how long the entries of a table live after their put; undefined: forever. */
  async setTtl (name, ttlMs) {
    const text = textOf(name, 'the name of a table')
    if (ttlMs !== undefined) typed(ttlMs, 'ttlMs', 'number')
    return awaited(() => this.#native.setTtl(text, ttlMs))
  }

  /** A view of this moment. */
  snapshot () {
    return new Snapshot(immediate(() => this.#native.snapshot()), this.#calls)
  }

  /** Begins a transaction. `transact` is easier to use well. */
  async begin (options) {
    return this.#begin(options, undefined)
  }

  async #begin (options, turn) {
    const { durability, isolation } = optionsOf(options, TRANSACTION)
    const handle = await awaited(() => this.#native.begin(durability, isolation))
    return new Transaction(handle, this.#calls, () => this.#gate.pass(turn))
  }

  /** Runs `work(tx)` in a transaction and commits it; runs it again after a conflict. Returns what `work` returns. */
  async transact (work, options) {
    typed(work, 'work', 'function')
    let turn
    try {
      for (let attempt = 1; ; attempt++) {
        if (attempt > OPEN_ATTEMPTS) turn ??= await this.#gate.take()
        const tx = await this.#begin(options, turn)
        try {
          const result = await work(tx)
          await tx.commit()
          return result
        } catch (error) {
          await tx.rollback()
          if (!(error instanceof PandoError && error.isRetryable) || attempt === MOST_ATTEMPTS) throw error
        }
        if (turn !== undefined && !turn.isOver) continue
        await new Promise(resolve => setTimeout(resolve, Math.random() * Math.min(2 ** attempt / 4, 50)))
      }
    } finally {
      turn?.end()
    }
  }

  /** Opens an async iterator over every commit after a number, which waits for the next one. */
  async changes (options) {
    const { after = 0, ...filter } = optionsOf(options, { after: 'number', ...FILTER })
    const [tables, prefix] = filterOf(filter)
    return new Changes(await awaited(() => this.#native.changes(after, tables, prefix)), this)
  }

  /** Opens a consumer, or creates it after the newest commit. */
  async consumer (name) {
    const text = textOf(name, 'the name of a consumer')
    return new Consumer(await awaited(() => this.#native.consumer(text)), text, this)
  }

  /** The oldest commit after which `changes` can begin now. */
  async oldestChange () {
    return awaited(() => this.#native.oldestChange())
  }

  async consumers () {
    return awaited(() => this.#native.consumers())
  }

  async dropConsumer (name) {
    return awaited(() => this.#native.dropConsumer(textOf(name, 'the name of a consumer')))
  }

  async checkpoint () {
    return awaited(() => this.#native.checkpoint())
  }

  async sync () {
    return awaited(() => this.#native.sync())
  }

  async catchUp () {
    return awaited(() => this.#native.catchUp())
  }

  async check (options) {
    const { progress } = optionsOf(options, { progress: 'any' })
    return watched(progress, report => this.#native.check(report))
  }

  async compact (options) {
    const { progress } = optionsOf(options, { progress: 'any' })
    const [bytesBefore, bytes] = await watched(progress, report => this.#native.compact(report))
    return { bytesBefore, bytes }
  }

  async stats () {
    return awaited(() => this.#native.stats())
  }

  async backup (folder, options) {
    const { incremental = false, progress } = optionsOf(options, { incremental: 'boolean', progress: 'any' })
    const to = textOf(folder, 'the folder')
    return watched(progress, report => this.#native.backup(to, incremental, report))
  }
}

/** A table of the newest state: each call is a transaction by itself. */
class Table extends Reads {
  #native
  #db
  #gate

  constructor (handle, db, calls, gate) {
    super(handle, db.reader(), calls)
    this.#native = handle
    this.#db = db
    this.#gate = gate
    registerTable(this, handle)
  }

  async put (key, value, options) {
    const { ttlMs, durability } = optionsOf(options, { durability: 'string', ttlMs: 'number' })
    if (ttlMs === undefined) {
      return this.#write([{ key: viewOf(key, 'the key'), value: viewOf(value, 'the value') }], durability)
    }
    const [k, v] = [bytesOf(key, 'the key'), bytesOf(value, 'the value')]
    await this.#gate.pass()
    return awaited(() => this.#db.putWithTtl(this.#native, k, v, ttlMs, durability))
  }

  /** Lets an entry expire after `ttlMs`, or never if that is undefined. Returns whether the key exists. */
  async setExpiry (key, ttlMs, options) {
    const { durability } = optionsOf(options, DURABILITY)
    const bytes = bytesOf(key, 'the key')
    if (ttlMs !== undefined) typed(ttlMs, 'ttlMs', 'number')
    await this.#gate.pass()
    return awaited(() => this.#db.setExpiry(this.#native, bytes, ttlMs, durability))
  }

  async del (key, options) {
    const { durability } = optionsOf(options, DURABILITY)
    return this.#write([{ key: viewOf(key, 'the key') }], durability)
  }

  /** Applies puts and deletes together, in their order. */
  async batch (operations, options) {
    const { durability } = optionsOf(options, DURABILITY)
    if (!Array.isArray(operations)) throw new TypeError(`operations must be an array, not ${shown(operations)}`)
    return this.#write(operations.map(writeOf), durability)
  }

  async #write (writes, durability) {
    // This copies the bytes of the caller, and so comes before the first wait.
    const packed = packWrites(writes)
    await this.#gate.pass()
    return awaited(() => this.#db.write(this.#native, packed, durability))
  }

  /** Deletes the keys of a range without reading them. */
  async deleteRange (...given) {
    const ends = deletedRangeOf(given)
    const { durability, isolation } = optionsOf(given[1], TRANSACTION)
    await this.#gate.pass()
    return awaited(() => this.#db.deleteRange(this.#native, ends, durability, isolation))
  }
}

/** An operation of a batch as a write. */
function writeOf (operation, at) {
  if (operation?.type === 'put') return { key: viewOf(operation.key, 'the key'), value: viewOf(operation.value, 'the value') }
  if (operation?.type === 'del') return { key: viewOf(operation.key, 'the key') }
  throw new TypeError(`the type of operation ${at} is ${String(operation?.type)}; it must be 'put' or 'del'`)
}

/** A view of one moment. */
class Snapshot {
  #reader
  #queue
  #closing

  constructor (reader, calls) {
    this.#reader = reader
    this.#queue = new Queue(calls)
  }

  /** A table at this moment. */
  table (table) {
    if (this.#reader === undefined) throw closed('the snapshot')
    return new Reads(nativeOf(table), this.#reader, this.#queue)
  }

  /** Ends the snapshot, when the reads that were begun are done. */
  async close () {
    const reader = this.#reader
    this.#reader = undefined
    this.#closing ??= this.#queue.run(async () => {
      this.#queue.end('the snapshot')
      reader.close()
    })
    return this.#closing
  }
}

module.exports = { open, inMemory, restore, Database, Table, Snapshot, Transaction, Changes, Consumer, Connection, Statement, PandoError }
