import { AbstractDatabaseOptions, AbstractLevel } from 'abstract-level'
import { DatabaseOptions } from './index'

export interface PandoLevelOptions<K, V> extends AbstractDatabaseOptions<K, V> {
  /** The table that has the records. Default: 'level'. */
  table?: string
  /** Options of the database. */
  pando?: DatabaseOptions
}

/** A database of abstract-level in one table. Without a location it is in memory. */
export class PandoLevel<K = string, V = string> extends AbstractLevel<Buffer, K, V> {
  constructor(location?: string, options?: PandoLevelOptions<K, V>)
  readonly location: string | undefined
}
