// @ts-check
// Templates of the desk's forms: some to begin with, and the operator's own, which this browser keeps.

import { element, facts, field, freshKey, say, show } from "./qiang.js";

/** Values of fields by their ids. @typedef {Record<string, string | boolean>} Values */
/** @typedef {{ key: string, name: string, values: Values }} Template */

/** Own templates of a form; the oldest goes. */
const OWN_MAX = 50;
/** Fields that no template has: times, and what is secret. */
const APART = ["starts", "ends", "passphrase", "template"];

/**
 * Offers the templates of a form.
 * @param {HTMLElement} form @param {string} kind of the form, for what this browser keeps
 * @param {Record<string, Values>} ready templates to begin with, by the names of their texts
 * @param {() => void} check reads the form again
 */
export function templatesOf(form, kind, ready, check) {
  const place = `qiang:${facts.session?.user}:templates:${kind}`;
  const list = field("template");
  const remove = field("template-remove");
  const note = element("template-note");
  /** @returns {Template[]} */
  const own = () => JSON.parse(localStorage.getItem(place) ?? "[]");
  const fields = () => [...form.querySelectorAll("input, select, textarea")]
    .map((it) => /** @type {HTMLInputElement} */ (it)).filter(({ id }) => id && !APART.includes(id));
  const usual = read();

  function read() {
    return Object.fromEntries(fields().map((it) => [it.id, it.type === "checkbox" ? it.checked : it.value]));
  }

  /** @param {Values} values */
  const fill = (values) => {
    for (const it of fields()) {
      const value = values[it.id] ?? usual[it.id];
      if (it.type === "checkbox") it.checked = value === true;
      else it.value = String(value);
    }
    check();
  };

  /** @param {string} [chosen] */
  const showList = (chosen = "") => {
    const option = (/** @type {string} */ value, /** @type {string} */ text) => {
      const one = Object.assign(document.createElement("option"), { value });
      show(one, text);
      return one;
    };
    list.replaceChildren(option("", say("template_none")),
      ...Object.keys(ready).map((name) => option(name, say(name))),
      ...own().map(({ key, name }) => option(key, name)));
    list.value = chosen;
    remove.hidden = !own().some(({ key }) => key === chosen);
  };

  list.addEventListener("change", (event) => {
    event.stopPropagation();
    const kept = own().find(({ key }) => key === list.value);
    fill(kept?.values ?? ready[list.value] ?? {});
    remove.hidden = !kept;
    show(note, "");
  });
  element("template-save").addEventListener("click", () => {
    const [values, key] = [read(), freshKey()];
    const name = String(values.title).trim() || say("template_unnamed");
    // A template of the same name is replaced.
    const others = own().filter((other) => other.name !== name);
    localStorage.setItem(place, JSON.stringify([...others, { key, name, values }].slice(-OWN_MAX)));
    showList(key);
    show(note, say("template_saved", { name }));
  });
  remove.addEventListener("click", () => {
    localStorage.setItem(place, JSON.stringify(own().filter(({ key }) => key !== list.value)));
    showList();
    show(note, say("template_removed"));
    list.focus();
  });
  showList();
}
