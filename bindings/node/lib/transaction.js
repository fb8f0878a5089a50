'use strict'

const { AsyncLocalStorage } = require('node:async_hooks')
const { optionsOf, typed, textOf, TABLE } = require('./arguments')
const { PandoError, closed, converted } = require('./errors')
const { bytesOf, viewOf, packTables, packWrites } = require('./packed')
const { Reads, Queue, deletedRangeOf } = require('./reads')
const { ValueWritable } = require('./values')

/** A transaction hands its writes over when so many bytes are waiting. */
const MOST_WAITING_BYTES = 256 << 10

const TTL = { ttlMs: 'number' }

const natives = new WeakMap()

/** Notes the native half of a table, for transactions and snapshots. */
function registerTable (table, handle) {
  natives.set(table, handle)
}

function nativeOf (table) {
  const handle = natives.get(table)
  if (handle === undefined) throw new TypeError('a table of db.table(…) is needed')
  return handle
}

/**
 * The innermost savepoint within which code runs, of any transaction. `outer` is the next one of the same transaction,
 * and `around` the next one of any.
 */
const within = new AsyncLocalStorage()

const inUse = message => new PandoError('PANDO_IN_USE', message)

/**
 * A transaction. Its writes are handed over before its next read, and when it commits.
 *
 * A write that fails then takes the ones after it along. So the transaction keeps the error, refuses everything but a
 * rollback with it, and cannot commit. Undoing the savepoint in which the write was made undoes that, too.
 */
class Transaction {
  #native
  #reader
  #pass
  #queue
  #waiting = []
  #waitingBytes = 0
  // The error of a write that was handed over.
  #failure
  #hasEnded = false
  // The savepoint that was begun last and has not ended.
  #innermost
  // The streams of values that are not finished.
  #streams = new Set()

  /** `pass` waits until the transaction may commit. */
  constructor (handle, calls, pass) {
    this.#native = handle
    this.#reader = handle.reader()
    this.#pass = pass
    this.#queue = new Queue(calls)
  }

  /** A table as the transaction sees it. */
  table (table) {
    return this.#tableOf(nativeOf(table))
  }

  /** Creates a table together with the other changes. Returns it as the transaction sees it. */
  async createTable (name, given) {
    const [text, options] = [textOf(name, 'the name of a table'), optionsOf(given, TABLE)]
    return this.#tableOf(await this.#run(() => this.#native.createTable(text, options)))
  }

  /** Drops a table together with the other changes. */
  async dropTable (name) {
    const text = textOf(name, 'the name of a table')
    return this.#run(() => this.#native.dropTable(text))
  }

  #tableOf (handle) {
    return new TransactionTable(handle, this.#reader, this.#queue, () => this.#handOver(), {
      write: (key, value) => this.#write(handle, key, value),
      run: call => this.#run(() => call(this.#native)),
      streams: this.#streams
    })
  }

  #write (handle, key, value) {
    if (this.#hasEnded) throw closed('the transaction')
    this.#queue.check()
    if (this.#failure !== undefined) throw this.#failure
    // The caller may change its bytes before they are handed over.
    this.#waiting.push({ handle, key: Buffer.from(key), value: value && Buffer.from(value) })
    this.#waitingBytes += key.length + (value === undefined ? 0 : value.length)
    return this.#waitingBytes > MOST_WAITING_BYTES ? this.#queue.run(() => this.#handOver()) : undefined
  }

  /** Hands the waiting writes over, those of all tables together. */
  async #handOver () {
    if (this.#failure !== undefined) throw this.#failure
    while (this.#waiting.length > 0) {
      const writes = this.#waiting
      this.#waiting = []
      this.#waitingBytes = 0
      const { tables, places } = packTables(writes)
      try {
        await this.#native.write(tables, places, packWrites(writes))
      } catch (error) {
        this.#drop()
        this.#failure = converted(error)
        throw this.#failure
      }
    }
  }

  /** Drops the waiting writes. */
  #drop () {
    this.#waiting = []
    this.#waitingBytes = 0
    this.#failure = undefined
  }

  #run (call) {
    return this.#queue.run(() => this.#handOver().then(call))
  }

  /** Commits all changes or none, and ends the transaction whatever the result is. Returns the number of the commit. */
  async commit () {
    this.#hasEnded = true
    return this.#end(this.#queue.run(async () => {
      try {
        await this.#handOver()
      } catch (error) {
        await this.#rollBack()
        throw error
      }
      await this.#pass()
      this.#queue.end('the transaction')
      return this.#native.commit()
    }))
  }

  /** Undoes all changes. It has no effect on a transaction that has ended. */
  async rollback () {
    this.#hasEnded = true
    return this.#end(this.#queue.run(() => this.#rollBack()))
  }

  async #rollBack () {
    this.#drop()
    this.#queue.end('the transaction')
    return this.#native.rollback()
  }

  /** Waits for the end of the transaction, and gives up the values that are not finished. */
  async #end (ended) {
    try {
      return await ended
    } finally {
      for (const stream of this.#streams) stream.destroy()
    }
  }

  /**
   * Runs `work`, and undoes only its writes if it fails. Savepoints nest. One that is neither within the newest one nor
   * after it is refused: the engine undoes everything since a savepoint, and so the writes of the other one, too.
   */
  async savepoint (work) {
    const savepoint = { of: this, outer: this.#surrounding(), around: within.getStore(), isOpen: true }
    if (savepoint.outer !== this.#innermost) {
      throw inUse('another savepoint of the transaction is open: wait for its end, or begin this one within it')
    }
    this.#innermost = savepoint
    let number
    try {
      number = await this.#run(() => this.#native.savepoint())
    } catch (error) {
      this.#close(savepoint)
      throw error
    }
    let result
    try {
      result = await within.run(savepoint, work)
    } catch (error) {
      await this.#endSavepoint(savepoint, number, false)
      throw error
    }
    await this.#endSavepoint(savepoint, number, true)
    return result
  }

  /** The innermost open savepoint of this transaction within which the caller runs. */
  #surrounding () {
    let found = within.getStore()
    while (found !== undefined && !(found.of === this && found.isOpen)) found = found.around
    return found
  }

  /** Notes the end of a savepoint, and of those within it. */
  #close (savepoint) {
    while (savepoint.isOpen) {
      this.#innermost.isOpen = false
      this.#innermost = this.#innermost.outer
    }
  }

  async #endSavepoint (savepoint, number, keep) {
    if (!savepoint.isOpen) throw closed('the savepoint')
    let failure
    if (keep && savepoint !== this.#innermost) failure = inUse('a savepoint within this one is open: wait for its end')
    this.#close(savepoint)
    await this.#queue.run(async () => {
      if (keep && failure === undefined) await this.#handOver().catch(error => { failure = error })
      const undo = !keep || failure !== undefined
      if (undo) this.#drop()
      return this.#native.endSavepoint(number, !undo)
    })
    if (failure !== undefined) throw failure
  }
}

/** A table within a transaction. Its calls wait for their turn, and so copy what they are given (`bytesOf`). */
class TransactionTable extends Reads {
  #native
  #of

  constructor (handle, reader, queue, ready, of) {
    super(handle, reader, queue, ready)
    this.#native = handle
    this.#of = of
  }

  /** Sets a key. The promise, if there is one, is fulfilled when there is room for more. */
  put (key, value, options) {
    const { ttlMs } = optionsOf(options, TTL)
    if (ttlMs === undefined) return this.#of.write(viewOf(key, 'the key'), viewOf(value, 'the value'))
    const [k, v] = [bytesOf(key, 'the key'), bytesOf(value, 'the value')]
    return this.#of.run(tx => tx.putWithTtl(this.#native, k, v, ttlMs))
  }

  /** Opens a stream whose bytes become the value of a key when it ends. */
  writeStream (key, options) {
    const { ttlMs } = optionsOf(options, TTL)
    const bytes = bytesOf(key, 'the key')
    return new ValueWritable(() => this.#of.run(tx => tx.writeValue(this.#native, bytes, ttlMs)),
      value => this.#of.run(() => value.finish()), this.#of.streams)
  }

  /** Lets an entry expire after `ttlMs`, or never if that is undefined. Returns whether the key exists. */
  async setExpiry (key, ttlMs) {
    const bytes = bytesOf(key, 'the key')
    if (ttlMs !== undefined) typed(ttlMs, 'ttlMs', 'number')
    return this.#of.run(tx => tx.setExpiry(this.#native, bytes, ttlMs))
  }

  del (key) {
    return this.#of.write(viewOf(key, 'the key'), undefined)
  }

  /** Sets a key that must not exist; PANDO_EXISTS if it does. */
  async insert (key, value) {
    const [k, v] = [bytesOf(key, 'the key'), bytesOf(value, 'the value')]
    return this.#of.run(tx => tx.insert(this.#native, k, v))
  }

  /** Deletes a key and returns the value that it had. */
  async remove (key) {
    const bytes = bytesOf(key, 'the key')
    return (await this.#of.run(tx => tx.remove(this.#native, bytes))) ?? undefined
  }

  /** Refused: it could not see writes of the transaction that are not handed over yet. */
  getSync () {
    throw new PandoError('PANDO_INVALID', 'getSync does not see all writes of a transaction: use await table.get(key)')
  }

  async deleteRange (...given) {
    const ends = deletedRangeOf(given)
    return this.#of.run(tx => tx.deleteRange(this.#native, ends))
  }
}

module.exports = { Transaction, registerTable, nativeOf }
