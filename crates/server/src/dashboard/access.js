// Access: the tokens of the server, and the options with which it was started. Only an admin of all databases sees them.
import { h, fill, visible, named, confirm, dialog, toast, table, count } from "./dom.js";
import { ask, json } from "./api.js";

const SCOPES = [["read", "read records"], ["write", "change records, create tables"], ["admin", "everything"]];
const LIVES = [["", "until it is revoked"], [3600, "one hour"], [86400, "one day"], [30 * 86400, "30 days"], [365 * 86400, "one year"]];
const when = seconds => new Date(seconds * 1000).toLocaleString();

export class Access {
  constructor(app) {
    this.app = app;
    this.tokens = h("section", {}); this.settings = h("section", {});
    this.root = h("div", { class: "plain" }, this.tokens, this.settings);
  }
  async show() {
    await Promise.all([this.showTokens(), this.showSettings()]);
  }
  async showTokens() {
    let tokens;
    try { ({ tokens } = await json("v1/tokens")); } catch (error) { fill(this.tokens, h("p", { class: "bad" }, error.message)); return; }
    fill(this.tokens, h("div", { class: "bar" }, h("h2", {}, "Tokens"), h("button", { type: "button", class: "push", onclick: () => this.create(tokens.length === 0) }, "New token")),
      tokens.length ? table(["name", "allows", "databases", "valid until", "last used", "requests a second", ""], tokens.map(one => [
        named(one.name), one.scope, one.database ?? "all", one.expires_s === null ? "revoked" : { text: `${when(one.expires_s)}${one.is_expired ? " (expired)" : ""}`, class: one.is_expired ? "bad" : "" },
        one.last_used_s === null ? "not since the server started" : when(one.last_used_s), one.rate === null ? "no limit" : count(one.rate),
        h("button", { type: "button", class: "danger", "aria-label": `Revoke ${visible(one.name)}`, onclick: () => this.revoke(one.name) }, "Revoke")]), { label: "Tokens" })
        : h("p", { class: "small soft" }, "None: everybody who reaches the server may do everything. The first token must be one that may do everything; from then on the browser asks for a token as its password."));
  }
  async create(isFirst) {
    const field = (label, input) => h("div", { class: "field" }, h("label", {}, label, input));
    const name = h("input", { class: "line", maxlength: 100, required: true }), rate = h("input", { class: "line", inputmode: "numeric", placeholder: "no limit" });
    const scope = h("select", {}, SCOPES.map(([value, text]) => h("option", { value, selected: isFirst && value === "admin" }, `${value}: ${text}`)));
    const database = h("select", {}, h("option", { value: "" }, "all databases"), this.app.databases.map(({ name: db }) => h("option", { value: db }, db)));
    const life = h("select", {}, LIVES.map(([value, text]) => h("option", { value }, text)));
    const body = h("div", { class: "editor-fields" }, field("Name", name), field("Allows", scope), field("In", database), field("Valid", life), field("Requests a second", rate));
    if (!await dialog("New token", body, [{ label: "Cancel", value: null }, { label: "Create", value: true, kind: "main" }])) return;
    // A number that cannot be read would be sent as null, which is no limit.
    if (!/^([1-9]\d*)?$/.test(rate.value.trim())) { toast("The requests a second are a whole number, or nothing for no limit. No token was created.", { bad: true, seconds: 20 }); return; }
    const wanted = { name: name.value, scope: scope.value, database: database.value || null, rate: rate.value.trim() ? Number(rate.value) : null, expires_in_s: life.value ? Number(life.value) : null };
    let made;
    try { made = await json("v1/tokens", { method: "POST", body: JSON.stringify(wanted), headers: { "content-type": "application/json" } }); } catch (error) { toast(error.message, { bad: true, seconds: 20 }); return; }
    const shown = h("input", { class: "line", readonly: true, value: made.token, "aria-label": "The token", onfocus: () => shown.select() });
    await dialog(`The token ${visible(made.name)}`, h("div", {}, h("p", {}, "Copy it now: only its hash is stored, so it cannot be shown again."), shown), [{ label: "Done", value: true, kind: "main" }]);
    await this.showTokens();
  }
  async revoke(name) {
    if (!await confirm("Revoke the token?", `Programs that use ${visible(name)} are refused from then on.`, "Revoke")) return;
    try { await ask(`v1/tokens/${encodeURIComponent(name)}`, { method: "DELETE" }); toast(`Revoked ${visible(name)}.`); } catch (error) { toast(error.message, { bad: true, seconds: 20 }); }
    await this.showTokens();
  }
  async showSettings() {
    try {
      const { settings } = await json("v1/settings");
      fill(this.settings, h("details", {}, h("summary", {}, `Configuration of the server (${settings.length})`), table(["option", "value", "set by", "what it does"], settings.map(one => [
        { text: `--${one.name}`, class: "mono" }, { text: visible(one.value), class: "mono" }, one.origin, one.help]), { label: "Configuration" })));
    } catch (error) { fill(this.settings, h("p", { class: "bad" }, error.message)); }
  }
}
