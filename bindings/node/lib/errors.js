'use strict'

// What src/promise.rs begins a failure with: then come the code, the table, the key, SQLite's code, and the message.
const MARK = 'pando-failure\n'

/** An error of the library: `code` says what the caller can do; a conflict has `table` and `key`, and an error of SQL `sqliteCode`. */
class PandoError extends Error {
  constructor (code, message) {
    super(message)
    this.code = code
  }

  get name () {
    return 'PandoError'
  }

  /** Whether the same transaction can succeed if it runs again. */
  get isRetryable () {
    return this.code === 'PANDO_CONFLICT' || this.code === 'PANDO_SNAPSHOT_TOO_OLD'
  }
}

/** The error that a call of the native half has thrown, as a PandoError; any other one as it is. */
function converted (error) {
  if (!(error instanceof Error) || !error.message.startsWith(MARK)) return error
  const [code, table, key, sqliteCode, ...message] = error.message.slice(MARK.length).split('\n')
  const made = new PandoError(code, message.join('\n'))
  if (table) made.table = Buffer.from(table.slice(1), 'hex').toString()
  if (key) made.key = Buffer.from(key.slice(1), 'hex')
  if (sqliteCode) made.sqliteCode = Number(sqliteCode)
  return made
}

/** The result of a call of the native half that may return a promise. */
async function awaited (call) {
  try {
    return await call()
  } catch (error) {
    throw converted(error)
  }
}

/** The result of a call of the native half that is made at once. */
function immediate (call) {
  try {
    return call()
  } catch (error) {
    throw converted(error)
  }
}

const closed = what => new PandoError('PANDO_CLOSED', `${what} is closed`)

module.exports = { PandoError, awaited, immediate, closed, converted }
