// The place in the URL: `#tab?db=…&table=…`. Back, forward and a reload lead to the same view.

export const TABS = ["overview", "data", "sql", "changes", "operations", "profile"];

/** Reads the place. */
export function place() {
  const [tab, rest = ""] = location.hash.slice(1).split("?");
  return { tab: TABS.includes(tab) ? tab : "overview", ...Object.fromEntries(new URLSearchParams(rest)) };
}
/** The address of a place; members that are empty are left out. */
export function link({ tab, ...rest }) {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#${tab}${text && "?" + text}`;
}
const listeners = [];
export const onMove = listener => listeners.push(listener);
const moved = () => listeners.forEach(listener => listener(place()));
/** Goes to a place; with `replace`, without a step in the browser's history. */
export function go(to, { replace } = {}) {
  const address = link(to);
  if (address === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  moved();
}
addEventListener("popstate", () => { if (location.hash !== "#main") moved(); });
