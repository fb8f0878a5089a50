'use strict'

// Statements that change one connection. `db.sql` has several, and runs each statement on any of them.

const { PandoError } = require('./errors')

/** Pragmas with an argument that change the database, or nothing at all. */
const FOR_ALL = new Set([
  'application_id', 'user_version', 'foreign_key_check', 'foreign_key_list', 'incremental_vacuum', 'index_info', 'index_list',
  'index_xinfo', 'integrity_check', 'journal_mode', 'optimize', 'quick_check', 'table_info', 'table_list', 'table_xinfo',
  'wal_checkpoint'
])

const GAP = String.raw`(?:\s|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)`
const NAME = String.raw`(?:"[^"]*"|'[^']*'|\[[^\]]*\]|${'`[^`]*`'}|\w+)`
const pattern = text => new RegExp(`^(?:${GAP}|;)*${text.replaceAll(' ', `${GAP}*`)}`, 'i')

const PRAGMA = pattern(`PRAGMA (?:${NAME} \\. )?(${NAME}) [=(]`)
const TEMPORARY = pattern('CREATE TEMP(?:ORARY)?\\b')
const IN_TEMPORARY = pattern(
  'CREATE (?:UNIQUE |VIRTUAL )?(?:TABLE|VIEW|INDEX|TRIGGER) (?:IF NOT EXISTS )?(?:temp|"temp"|\'temp\'|`temp`|\\[temp\\]) \\.')
const ATTACHED = pattern('(?:ATTACH|DETACH)\\b')

/** Refuses a statement that would change only the connection on which it happens to run. */
function refuseSettings (statement) {
  const pragma = PRAGMA.exec(statement)?.[1].replace(/^\W|\W$/g, '').toLowerCase()
  let what
  if (pragma !== undefined && !FOR_ALL.has(pragma)) what = `PRAGMA ${pragma} with a value`
  else if (TEMPORARY.test(statement) || IN_TEMPORARY.test(statement)) what = 'CREATE TEMP'
  else if (ATTACHED.test(statement)) what = 'ATTACH or DETACH'
  else return
  throw new PandoError('PANDO_INVALID',
    `${what} changes one connection, and db.sql has several: use a connection of db.connect()`)
}

module.exports = { refuseSettings }
