// The editor of one record. It saves only over the version that it has read: when somebody else has changed the record
// meanwhile, it shows both versions and asks.
import { h, fill, named, visible, confirm, dialog, toast, bytes, fromHex, toHex, utf8 } from "./dom.js";
import { Digits, exactly, written } from "./api.js";
import { Documents, isPlainText } from "./source.js";

let fields = 0;
const decode = content => new TextDecoder("utf-8", { ignoreBOM: true }).decode(content);

/** A field for a column of a document: `input` and `read()`, which throws a sentence for what cannot be stored. */
function columnField(column, value, readOnly) {
  const { name, type, nullable } = column, id = `field${fields += 1}`;
  const isLong = ["text", "json", "bytes", "any"].includes(type);
  const wrong = what => Object.assign(new Error(`${visible(name)}: ${what}`), { field: input });
  const input = h(isLong ? "textarea" : "input", { id, class: "line", spellcheck: "false", readonly: readOnly, rows: isLong ? 1 : null });
  const none = nullable && h("input", { type: "checkbox", disabled: readOnly, "aria-label": `${visible(name)} is NULL`, onchange: () => { input.disabled = none.checked; } });
  const kinds = type === "any" && h("select", { disabled: readOnly, "aria-label": `Kind of ${visible(name)}` }, ["text", "number", "other (JSON)"].map(kind => h("option", { value: kind }, kind)));
  if (kinds) kinds.value = typeof value === "string" || value === undefined || value === null ? "text" : value instanceof Digits ? "number" : "other (JSON)";
  input.value = value === null || value === undefined ? "" : typeof value === "string" ? value : written(value, type === "json" ? " " : "");
  if (none) { none.checked = value === null; input.disabled = none.checked; }
  const read = () => {
    const text = input.value;
    if (none?.checked) return null;
    if (type === "text" || kinds?.value === "text") return text;
    if (kinds?.value === "number" || ["int", "uint", "float", "timestamp"].includes(type)) {
      if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim())) return new Digits(text.trim().replace(/^(-?)0+(?=\d)/, "$1"));
      if (kinds || !["float", "timestamp"].includes(type)) throw wrong("write a number, for example 7.");
      return text.trim();
    }
    if (type === "bool") { if (!/^(true|false)$/.test(text.trim())) throw wrong("write true or false."); return text.trim() === "true"; }
    if (type === "bytes") { try { return toHex(fromHex(text)); } catch (error) { throw wrong(error.message); } }
    if (type === "json" || kinds) { try { return exactly(text); } catch (error) { throw wrong(`this is no JSON: ${error.message}.`); } }
    return text;
  };
  const note = type === "bytes" ? "hexadecimal digits" : "";
  return { name, input, read, root: h("div", { class: "field" }, h("label", { for: id }, named(name), h("small", {}, `${type}${note && `, ${note}`}`)), input,
    (none || kinds) && h("div", { class: "inline" }, none && h("label", {}, none, " NULL"), kinds)) };
}

export class Editor {
  /** `done(key)` is called after the record was written (`key`) or deleted (`null`); `close()` leaves the editor. */
  constructor({ source, mayWrite, done, close }) {
    Object.assign(this, { source, done, close, base: null, fields: [] });
    this.mayWrite = mayWrite && !source.whyReadOnly;
    this.root = h("section", { class: "editor", "aria-label": "Record" });
    this.note = h("p", { role: "alert", class: "bad" });
  }
  isDirty() { return Boolean(this.before) && this.state() !== this.before; }
  state() { return JSON.stringify([...this.root.querySelectorAll(".field input, .field textarea")].map(one => one.type === "checkbox" ? one.checked : one.value)); }

  /** Opens the record of a key; `null` is a new one. */
  async open(key) {
    this.key = key;
    this.before = null;
    fill(this.root, h("p", { class: "soft" }, "Reading…"));
    try { this.base = key === null ? null : await this.source.read(key); } catch (error) {
      fill(this.root, h("h2", {}, key === null ? "New record" : named(this.source.title(key))), h("p", { class: "bad" }, error.message), h("button", { type: "button", onclick: this.close }, "Close"));
      return;
    }
    this.draw(this.base);
  }
  draw(record) {
    const { source, key } = this, readOnly = !this.mayWrite || Boolean(record?.cut);
    this.note.textContent = "";
    this.fields = [];
    const body = source instanceof Documents ? this.drawDocument(record, readOnly) : this.drawEntry(record, readOnly);
    const buttons = h("div", { class: "buttons" },
      !readOnly && h("button", { class: "main" }, key === null ? "Create" : "Save"),
      this.mayWrite && key !== null && h("button", { type: "button", class: "danger", onclick: () => this.remove() }, "Delete"),
      h("button", { type: "button", onclick: this.close }, "Close"));
    fill(this.root, h("h2", {}, key === null ? "New record" : named(source.title(key))),
      record?.cut && h("p", { class: "small" }, `The record has ${bytes(record.length)} of long values, of which the beginning is shown: too much to edit here. `,
        h("a", { href: source.address(key), download: "value" }, "Download it"), source instanceof Documents ? ", or change single columns with SQL." : "."),
      source.whyReadOnly && h("p", { class: "small soft" }, source.whyReadOnly),
      h("form", { onsubmit: event => { event.preventDefault(); this.save(); } }, body, this.note, buttons));
    this.before = this.state();
  }
  drawDocument(record, readOnly) {
    const value = record?.value ?? {}, { described } = this.source;
    this.fields = described.columns.map(column => {
      const usual = this.key === null ? (column.default ?? (column.nullable ? null : undefined)) : null;
      return columnField(column, value[column.name] ?? usual, readOnly || (this.key !== null && this.source.isKey(column.name)));
    });
    this.read = () => ({ value: Object.fromEntries(this.fields.map(field => [field.name, field.read()])) });
    return this.fields.map(field => field.root);
  }
  drawEntry(record, readOnly) {
    const content = record?.value ?? new Uint8Array(0), ids = [fields += 1, fields += 1, fields += 1].map(n => `field${n}`);
    const key = this.key === null && h("input", { id: ids[0], class: "line" });
    const value = h("textarea", { id: ids[1], rows: 6, spellcheck: "false", readonly: readOnly });
    const form = h("select", { "aria-label": "How the value is written" }, [["text", "text"], ["json", "JSON, formatted"], ["hex", "hexadecimal digits"]].map(([name, label]) => h("option", { value: name }, label)));
    const life = this.source.info.ttl_by_key && h("input", { id: ids[2], class: "line", inputmode: "numeric", readonly: readOnly, value: record?.ttl_ms ?? "", placeholder: "for ever" }), lifeBefore = life ? life.value : "";
    let shownAs = isPlainText(content) ? "text" : "hex";
    const current = () => {
      if (shownAs === "hex") return fromHex(value.value);
      if (shownAs === "json") exactly(value.value);
      return utf8(value.value);
    };
    const put = (bytesNow, as) => {
      if (as === "hex") value.value = toHex(bytesNow);
      else if (!isPlainText(bytesNow)) throw new Error("These bytes are no text that a field could keep as it is. Edit them as hexadecimal digits.");
      else value.value = as === "json" ? written(exactly(decode(bytesNow)), " ") : decode(bytesNow);
      shownAs = form.value = as;
    };
    put(content, shownAs);
    form.addEventListener("change", () => {
      try { this.note.textContent = ""; put(current(), form.value); } catch (error) { this.note.textContent = error instanceof SyntaxError ? `The value is no JSON: ${error.message}.` : error.message; form.value = shownAs; }
    });
    this.read = () => {
      let written;
      try { written = current(); } catch (error) { throw error instanceof SyntaxError ? new Error(`The value is no JSON: ${error.message}.`) : error; }
      const ttl_ms = life ? life.value.trim() : "";
      if (ttl_ms && !/^[1-9]\d*$/.test(ttl_ms)) throw new Error("The time to live is a whole number of milliseconds.");
      // What was not touched keeps the time at which it expires, however long the record was open.
      return { value: written, ttl_ms: this.key !== null && life && life.value === lifeBefore ? undefined : ttl_ms || null, key: key ? toHex(utf8(key.value)) : undefined };
    };
    return [key && h("div", { class: "field" }, h("label", { for: ids[0] }, "Key"), key),
      h("div", { class: "field" }, h("label", { for: ids[1] }, "Value", h("small", {}, bytes(record?.length ?? content.length))), value, h("div", { class: "inline" }, "shown as", form)),
      life && h("div", { class: "field" }, h("label", { for: ids[2] }, "Lives for, in milliseconds"), life)];
  }
  /** Reads the fields; `null` and a sentence if they cannot be stored. */
  edited() {
    try { this.note.textContent = ""; return this.read(); } catch (error) { this.note.textContent = error.message; error.field?.focus(); return null; }
  }
  /** Saves once, however often the button is pressed: the second time would meet the change of the first. */
  async save() {
    if (this.isSaving) return;
    this.isSaving = true;
    try { await this.store(this.base); } finally { this.isSaving = false; }
  }
  async store(base) {
    const mine = this.edited();
    if (!mine) return;
    const isNew = this.key === null, key = !isNew ? this.key : this.source instanceof Documents ? this.source.keyOf(mine.value) : mine.key;
    // The fields take no input meanwhile: they are drawn again afterwards.
    this.root.inert = true;
    try {
      await this.source.write(key, mine, base).finally(() => { this.root.inert = false; });
    } catch (error) {
      if (error.status === 412 && isNew) this.note.textContent = "A record with this key exists already. Open it to change it, or choose another key.";
      else if (error.status === 412) await this.meet(mine);
      else this.note.textContent = error.message;
      return;
    }
    this.before = null;
    toast(isNew ? "Created." : "Saved.");
    this.done(key);
  }
  /** Somebody has changed the record since it was read: shows both versions. */
  async meet(mine) {
    let theirs = null;
    try { theirs = await this.source.read(this.key); } catch (error) { if (error.status !== 404) { this.note.textContent = error.message; return; } }
    const left = this.source.fields(mine.value), right = this.source.fields(theirs?.value ?? null);
    const value = text => h("td", {}, text === null ? h("i", {}, "deleted") : h("pre", { class: "value", dir: "auto" }, visible(text)));
    const body = h("div", {}, h("p", {}, theirs ? "Somebody has changed this record since you opened it. Nothing was saved yet." : "Somebody has deleted this record since you opened it. Nothing was saved yet."),
      h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "yours", "stored now"].map(text => h("th", { scope: "col" }, text)))),
        h("tbody", {}, left.map(([name, text], index) => h("tr", { class: text === right[index][1] ? "" : "differs" }, h("th", { scope: "row" }, named(name)), value(text), value(right[index][1])))))));
    const chosen = await dialog("Changed meanwhile", body, [{ label: "Go on editing", value: null }, { label: "Keep what is stored", value: "theirs" }, { label: "Save mine over it", value: "mine", kind: "danger" }], { wide: true });
    if (chosen === "mine") { this.base = theirs; await this.store(theirs); }
    if (chosen === "theirs") { this.before = null; if (theirs) { this.base = theirs; this.draw(theirs); } this.done(theirs ? this.key : null); }
  }
  async remove() {
    const { source, key, base } = this, name = visible(source.title(key));
    const rest = base.cut ? "It is too long to be kept here, so this cannot be undone." : "You can undo this for some seconds.";
    if (!await confirm("Delete this record?", `${name} of ${visible(source.name)} will be deleted. ${rest}`, "Delete")) return;
    try { await source.remove(key, base); } catch (error) {
      if (error.status === 412) { this.note.textContent = "Somebody has changed this record since you opened it; it was not deleted. Open it again to see it as it is now."; return; }
      this.note.textContent = error.message;
      return;
    }
    this.before = null;
    this.done(null);
    const undo = async () => {
      try { await source.restore(key, base); toast(`${name} is back.`); this.done(key); } catch (error) {
        toast(error.status === 412 ? `${name} exists again already; nothing was changed.` : error.message, { bad: true });
      }
    };
    toast(`Deleted ${name}.`, { action: base.cut ? undefined : { label: "Undo", run: undo }, seconds: 20 });
  }
}
