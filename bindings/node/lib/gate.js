'use strict'

/** For how long a turn holds back other commits at most: its work may wait for one of them. */
const MOST_HELD_MS = 500

/**
 * Lets one transaction commit before the others: one whose attempts have all had conflicts. It is a queue of promises,
 * and not the engine's gate, at which each commit that waits would block a thread that the transaction needs.
 */
class Gate {
  #held
  #last = Promise.resolve()

  /** Waits for a turn. The other commits of the database wait for its end. */
  async take () {
    const turn = { isOver: false, end: undefined, ended: undefined }
    turn.ended = new Promise(resolve => {
      turn.end = () => {
        turn.isOver = true
        if (this.#held === turn) this.#held = undefined
        clearTimeout(turn.timer)
        resolve()
      }
    })
    const before = this.#last
    this.#last = before.then(() => turn.ended)
    await before
    turn.timer = setTimeout(turn.end, MOST_HELD_MS)
    this.#held = turn
    return turn
  }

  /** Waits for the end of the turn that is held, if it is not `own`. */
  async pass (own = undefined) {
    if (this.#held !== undefined && this.#held !== own) await this.#held.ended
  }
}

module.exports = { Gate }
