// The last hour, which the server keeps: `/v1/history` and that of each database. After the first look only newer points
// are read.
import { json, query } from "./api.js";

const HOUR_MS = 3600e3;

export class Past {
  /** `path` is that of the history; `columns(response)` returns its lists by name. */
  constructor(path, columns) { Object.assign(this, { path, columns }); this.forget(); }
  forget() { Object.assign(this, { started: null, newest: null, newest_ms: 0, step_ms: 5000, points: [], asked: 0 }); }
  /** Reads what is new, at most once in a step. Returns whether there is anything new. */
  async read() {
    if (performance.now() - this.asked < this.step_ms * .9 && this.started !== null) return false;
    this.asked = performance.now();
    const found = await json(query(this.path, { after: this.newest }));
    // A server that was started again numbers its points from the beginning.
    if (this.started !== null && (found.started_ms !== this.started || found.newest < this.newest)) { this.forget(); return this.read(); }
    Object.assign(this, { started: found.started_ms, newest: found.newest ?? 0, newest_ms: found.newest_ms ?? 0, step_ms: found.step_ms });
    const columns = this.columns(found), first = this.newest - found.points + 1;
    // Two looks at the same time find the same points.
    const known = this.points.at(-1)?.number ?? 0;
    for (let at = 0; at < found.points; at += 1) {
      if (first + at <= known) continue;
      const point = { number: first + at, values: {} };
      for (const [name, list] of Object.entries(columns)) point.values[name] = list ? list[at] : 0;
      this.points.push(point);
    }
    const kept = HOUR_MS / this.step_ms;
    this.points = this.points.slice(-kept);
    return found.points > 0;
  }
  /** The points of the last `length_ms`, each with what `values` makes of it; null in a gap. */
  last(length_ms, values) {
    const from = this.newest - length_ms / this.step_ms;
    return this.points.filter(point => point.number > from).map(point => {
      const ago_ms = (this.newest - point.number) * this.step_ms, is_gap = Object.values(point.values).every(value => value === null || value === undefined);
      return { ago_ms, at_ms: this.newest_ms - ago_ms, values: is_gap ? null : values(point.values, this.step_ms / 1000) };
    });
  }
}

/** The lists of a response about the server, by `KIND.figure`. */
export function ofServer(kinds) {
  return found => {
    const columns = { connections: found.connections, memory_bytes: found.memory_bytes };
    for (const kind of kinds) for (const figure of ["count", "failed", "p50_us", "p99_us"]) columns[`${kind}.${figure}`] = found.requests[kind]?.[figure] ?? found.connections.map(one => one === null || figure.startsWith("p") ? null : 0);
    return columns;
  };
}
export const ofDatabase = ({ commits, conflicts, reads, writes, pages_read, readers, debt_permille, memtable_bytes, log_file_bytes, data_file_bytes, data_used_bytes }) =>
  ({ commits, conflicts, reads, writes, pages_read, readers, debt_permille, memtable_bytes, log_file_bytes, data_file_bytes, data_used_bytes });
