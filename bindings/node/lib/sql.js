'use strict'

// SQL. The buffers are those of src/sql.rs.

const { isUtf8 } = require('node:buffer')
const { textOf } = require('./arguments')
const { PandoError, awaited, immediate, closed } = require('./errors')
const { Queue } = require('./reads')
const { refuseSettings } = require('./settings')

/** How many bytes of values `iterate` fetches at once. */
const BATCH_BYTES = 64 << 10
/** How many connections wait for the next statement of `db.sql`. */
const MOST_IDLE = 8

const isNamed = given => given !== null && typeof given === 'object' && Object.getPrototypeOf(given) === Object.prototype

/** A parameter as null, a bigint, a number, or a pair of a kind and bytes. */
function parameterOf (given) {
  if (given === null || given === undefined) return null
  switch (typeof given) {
    case 'boolean': return given ? 1n : 0n
    case 'number': return Number.isSafeInteger(given) ? BigInt(given) : given
    case 'string': return [3, Buffer.from(given)]
    case 'bigint':
      if (BigInt.asIntN(64, given) !== given) throw new RangeError(`an integer of SQL has 64 bits: ${given} does not fit`)
      return given
  }
  if (given instanceof Uint8Array) return [4, given]
  if (given instanceof Date) return [3, Buffer.from(given.toISOString().slice(0, -1).replace('T', ' '))]
  if (Array.isArray(given)) {
    throw new TypeError('a parameter is an array: give its elements one after another, as in sql(text, ...parameters)')
  }
  throw new TypeError('a parameter must be null, a boolean, number, bigint, string, Uint8Array or Date')
}

/** Parameters as the names of places, if there are names, and a buffer of values. */
function pack (parameters) {
  const named = parameters.length === 1 && isNamed(parameters[0])
  const values = (named ? Object.values(parameters[0]) : parameters).map(parameterOf)
  const sizeOf = value => value === null ? 1 : Array.isArray(value) ? 5 + value[1].length : 9
  const packed = Buffer.allocUnsafe(values.reduce((size, value) => size + sizeOf(value), 0))
  let at = 0
  for (const value of values) {
    if (value === null) {
      at = packed.writeUInt8(0, at)
    } else if (typeof value === 'bigint') {
      at = packed.writeBigInt64LE(value, packed.writeUInt8(1, at))
    } else if (typeof value === 'number') {
      at = packed.writeDoubleLE(value, packed.writeUInt8(2, at))
    } else {
      at = packed.writeUInt32LE(value[1].length, packed.writeUInt8(value[0], at))
      packed.set(value[1], at)
      at += value[1].length
    }
  }
  return [named ? Object.keys(parameters[0]) : undefined, packed]
}

/** Reads values from a buffer. An integer that a number cannot hold exactly is a bigint. */
class Values {
  constructor (packed) {
    this.packed = packed
    this.at = 0
  }

  get isAtEnd () {
    return this.at >= this.packed.length
  }

  /** The next value, which is that of the column `name`. */
  next (name) {
    const kind = this.packed[this.at++]
    if (kind === 0) return null
    if (kind === 1) {
      const integer = this.packed.readBigInt64LE(this.at)
      this.at += 8
      const number = Number(integer)
      return Number.isSafeInteger(number) ? number : integer
    }
    if (kind === 2) {
      this.at += 8
      return this.packed.readDoubleLE(this.at - 8)
    }
    const from = this.at + 4
    this.at = from + this.packed.readUInt32LE(this.at)
    if (kind !== 3) return this.packed.subarray(from, this.at)
    const text = this.packed.toString('utf8', from, this.at)
    // Bytes that are not UTF-8 are replaced with this character, which a text can also have.
    if (text.includes('\ufffd') && !isUtf8(this.packed.subarray(from, this.at))) throw notUtf8(name)
    return text
  }
}

const notUtf8 = name =>
  new PandoError('PANDO_INVALID', `the column ${name} has a text that is not UTF-8: read its bytes with CAST(… AS BLOB)`)

function * rowsOf ({ columns, packed }) {
  const values = new Values(packed)
  while (!values.isAtEnd) {
    // A column may have a name of Object.prototype, such as __proto__.
    const row = {}
    for (const name of columns) {
      Object.defineProperty(row, name, { value: values.next(name), writable: true, enumerable: true, configurable: true })
    }
    yield row
  }
}

/** All rows as an array, with the names of columns, the number of changed rows and the last row's id. */
function resultOf (native) {
  const hidden = value => ({ value, enumerable: false })
  return Object.defineProperties([...rowsOf(native)], {
    columns: hidden(native.columns),
    changes: hidden(native.changes),
    lastRowId: hidden(new Values(native.lastRowId).next())
  })
}

const runsAgain = () =>
  new PandoError('PANDO_INVALID', 'the statement runs again, which ended these rows: prepare another one')

/** A prepared statement of a connection. */
class Statement {
  #native
  #queue
  // The number of the newest run.
  #run

  constructor (native, queue) {
    this.#native = native
    this.#queue = queue
  }

  /** Begins a run, and fetches its first rows. That ends the run before it. */
  #begin ([names, values], most) {
    return this.#queue.run(async () => {
      this.#run = undefined
      const rows = await this.#native.begin(names, values, most)
      this.#run = rows.run
      return rows
    })
  }

  /** Runs the statement, and returns its rows. */
  async all (...parameters) {
    return resultOf(await this.#begin(pack(parameters), Infinity))
  }

  /** Runs the statement as an async iterator over its rows. */
  iterate (...parameters) {
    return this.batches(packedOrError(parameters))
  }

  /** The rows of a run with what `packedOrError` has returned, a batch at a time. */
  async * batches ({ packed, error }) {
    if (error !== undefined) throw error
    let batch = await this.#begin(packed, BATCH_BYTES)
    const { run } = batch
    try {
      for (;;) {
        for (const row of rowsOf(batch)) {
          // Whether older rows fail does not depend on how many were fetched at once.
          if (this.#run !== run) throw runsAgain()
          yield row
        }
        if (batch.isDone) return
        batch = await this.#queue.run(() => this.#native.next(run, BATCH_BYTES))
      }
    } finally {
      // A closed connection has ended its statements.
      if (!batch.isDone) await this.#queue.run(() => this.#native.end(run)).catch(() => {})
    }
  }
}

/** Parameters as they are now, for an iterator that begins later: it throws the error. */
function packedOrError (parameters) {
  try {
    return { packed: pack(parameters) }
  } catch (error) {
    return { error }
  }
}

/** A connection, with one transaction at a time. Its calls run one after another. */
class Connection {
  #native
  #queue = new Queue()
  #closing

  constructor (native) {
    this.#native = native
  }

  #run (call) {
    if (this.#closing !== undefined) return Promise.reject(closed('the connection'))
    return this.#queue.run(call)
  }

  async sql (text, ...parameters) {
    const [statement, [names, values]] = [textOf(text, 'the statement'), pack(parameters)]
    return resultOf(await this.#run(() => this.#native.run(statement, names, values, false)))
  }

  /** Runs statements that have no parameters. */
  async script (text) {
    return this.#run(() => this.#native.script(textOf(text, 'the statement')))
  }

  async prepare (text) {
    return new Statement(await this.#run(() => this.#native.prepare(textOf(text, 'the statement'))), this.#queue)
  }

  iterate (text, ...parameters) {
    return this.#iterate(text, packedOrError(parameters))
  }

  async * #iterate (text, given) {
    const statement = await this.prepare(text)
    yield * statement.batches(given)
  }

  /** Whether a transaction is open. */
  get inTransaction () {
    return !immediate(() => this.#native.isAutocommit())
  }

  /** Stops the statement that runs: it fails with PANDO_INTERRUPTED. */
  interrupt () {
    this.#native.interrupt()
  }

  /** Ends the connection, and rolls back its transaction. */
  async close () {
    this.#closing ??= this.#queue.run(() => this.#native.close())
    return this.#closing
  }

  async [Symbol.asyncDispose ?? Symbol('asyncDispose')] () {
    return this.close()
  }
}

/** Opens a connection of the native half, which can have been built without SQL. */
async function connect (db) {
  if (!db.connect) throw new PandoError('PANDO_FAILED', 'the package was built without SQL: build it with the feature sql')
  return awaited(() => db.connect())
}

/** The connections on which `db.sql` runs its statements, each by itself. */
class Connections {
  #db
  #idle = []

  constructor (db) {
    this.#db = db
  }

  async #with (work) {
    const native = this.#idle.pop() ?? await connect(this.#db)
    try {
      return await work(native)
    } finally {
      if (this.#idle.length < MOST_IDLE) this.#idle.push(native)
      else await awaited(() => native.close())
    }
  }

  async sql (text, parameters) {
    const [statement, [names, values]] = [textOf(text, 'the statement'), pack(parameters)]
    refuseSettings(statement)
    return resultOf(await this.#with(native => awaited(() => native.run(statement, names, values, true))))
  }

  iterate (text, parameters) {
    return this.#iterate(text, packedOrError(parameters))
  }

  async * #iterate (text, given) {
    const statement = textOf(text, 'the statement')
    refuseSettings(statement)
    const native = this.#idle.pop() ?? await connect(this.#db)
    try {
      const prepared = new Statement(await awaited(() => native.prepare(statement)), new Queue())
      yield * prepared.batches(given)
    } finally {
      const isOpen = await native.rest().catch(() => true)
      if (!isOpen && this.#idle.length < MOST_IDLE) this.#idle.push(native)
      else await native.close().catch(() => {})
    }
  }
}

module.exports = { connect, Connection, Connections, Statement }
