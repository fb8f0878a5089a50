// Several records at once: deleted after a question, with an undo, or exported. Every record is deleted only in the version
// that was read for the undo, so nothing that somebody has changed meanwhile is lost.
import { confirm, download, plural, toast, toHex, visible } from "./dom.js";
import { Digits, written } from "./api.js";
import { Documents, textOf } from "./source.js";

const AT_ONCE = 6;

/** Runs `work` on each of `list`, a few at a time, and returns the outcomes in their order: `{value}` or `{error}`. */
async function each(list, work) {
  const outcomes = new Array(list.length);
  let next = 0;
  const run = async () => {
    while (next < list.length) {
      const at = next++;
      try { outcomes[at] = { value: await work(list[at]) }; } catch (error) { outcomes[at] = { error }; }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, run));
  return outcomes;
}

/** Deletes the records of these keys; `done()` is called after that, and after an undo. */
export async function removeAll(source, keys, done) {
  const records = plural(keys.length, "record");
  const read = await each(keys, key => source.read(key));
  const found = keys.map((key, at) => ({ key, ...read[at] })).filter(one => one.value);
  const long = found.filter(one => one.value.cut).length;
  const rest = long ? ` ${plural(long, "record")} of more than 1 MiB cannot be brought back; the others can, for some seconds.` : " You can undo this for some seconds.";
  if (!await confirm(`Delete ${records}?`, `${records} of ${visible(source.name)} will be deleted.${rest}`, `Delete ${records}`)) return;
  const outcomes = await each(found, one => source.remove(one.key, one.value));
  const deleted = found.filter((_, at) => !outcomes[at].error), changed = outcomes.filter(one => one.error?.status === 412).length;
  // A record that is not there any more needs no deleting; one that could not be read was not deleted.
  const failed = outcomes.find(one => one.error && one.error.status !== 412)?.error ?? read.find(one => one.error && one.error.status !== 404)?.error;
  await done();
  const back = deleted.filter(one => !one.value.cut);
  const undo = async () => {
    const again = await each(back, one => source.restore(one.key, one.value));
    const count = again.filter(one => !one.error).length;
    toast(`${plural(count, "record")} ${count === 1 ? "is" : "are"} back.${count < back.length ? ` ${back.length - count} exist again already, or have expired; they were not changed.` : ""}`, { bad: count < back.length });
    await done();
  };
  const left = changed ? ` ${changed} were changed meanwhile, and stay.` : failed ? ` ${failed.message}` : "";
  toast(`Deleted ${plural(deleted.length, "record")}.${left}`, { action: back.length ? { label: "Undo", run: undo } : undefined, seconds: 20, bad: Boolean(left) });
}

/** Gives the browser the whole records of these keys as a file, which an import reads again. */
export async function exportAll(source, keys, format) {
  const read = await each(keys, key => source.read(key)), found = [];
  let left = 0;
  read.forEach(({ value }, at) => { if (value && !value.cut) found.push([keys[at], value.value]); else left += 1; });
  const isTyped = source instanceof Documents;
  const lines = format === "csv" ? csv(source, found) : found.map(([key, value]) => `${isTyped ? written(value) : JSON.stringify({ ...member("key", key), ...member("value", toHex(value)) })}\n`);
  download(`${source.name}-selection.${format}`, format === "csv" ? "text/csv" : "application/x-ndjson", lines);
  if (left) toast(`${plural(left, "record")} of more than 1 MiB, or deleted meanwhile, are not in the file. Export the table to have them.`, { bad: true, seconds: 20 });
}
function member(name, hex) {
  const text = textOf(hex);
  return text === null ? { [`${name}_hex`]: hex } : { [name]: text };
}
function csv(source, found) {
  const names = source.described.columns.map(({ name }) => name);
  // NULL is \N, so that it differs from an empty text; a text like that gets a backslash more.
  const cell = value => value === null ? "\\N" : value instanceof Digits ? value.text : typeof value === "string" ? quoted(/^\\*\\N$/.test(value) ? `\\${value}` : value) : quoted(written(value));
  return [names.map(quoted), ...found.map(([, value]) => names.map(name => cell(value[name])))].map(row => `${row.join(",")}\n`);
}
const quoted = text => /[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
