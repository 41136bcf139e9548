// A text field with a list of choices, for keyboard, pointer and screen reader alike.

import { fill, make } from "./dom.js";

const MOST = 60;

/** Gives a text field a list of choices. */
export class Combobox {
  #input;
  #list;
  #options;
  #shown = [];
  #active = -1;

  /**
   * @param {HTMLInputElement} input
   * @param {HTMLUListElement} list
   * @param {{choices: () => Array<{label: string, detail?: string, tone?: string}>, onPick: Function,
   *   text: () => string, nothing: string}} options `text` is what the field says when it is left
   */
  constructor(input, list, options) {
    this.#input = input;
    this.#list = list;
    this.#options = options;
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list",
    })) input.setAttribute(name, value);
    list.setAttribute("role", "listbox");
    list.hidden = true;
    input.addEventListener("focus", () => {
      input.select();
      this.#open("");
    });
    input.addEventListener("input", () => this.#open(input.value));
    input.addEventListener("keydown", (event) => this.#key(event));
    input.addEventListener("blur", () => this.close());
    // The field keeps the focus, so that a press on a choice does not close the list first.
    list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  /** Close the list and say what is chosen. */
  close() {
    this.#list.hidden = true;
    this.#input.setAttribute("aria-expanded", "false");
    this.#input.removeAttribute("aria-activedescendant");
    this.#input.value = this.#options.text();
  }

  #open(query) {
    const wanted = query.trim().toLowerCase();
    const found = this.#options.choices().filter(({ label }) => label.toLowerCase().includes(wanted));
    // Names that begin with the query come first.
    if (wanted) found.sort((a, b) => a.label.toLowerCase().indexOf(wanted) - b.label.toLowerCase().indexOf(wanted));
    this.#shown = found.slice(0, MOST);
    const rows = this.#shown.map((choice, n) => this.#row(choice, n));
    if (found.length > MOST) rows.push(make("li.choice-note", { role: "option", "aria-disabled": "true" }, `and ${found.length - MOST} more: type a part of the name`));
    if (!found.length) rows.push(make("li.choice-note", { role: "option", "aria-disabled": "true" }, this.#options.nothing));
    fill(this.#list, rows);
    this.#list.hidden = false;
    this.#input.setAttribute("aria-expanded", "true");
    this.#activate(wanted && this.#shown.length ? 0 : -1);
  }

  #row(choice, n) {
    return make(
      "li.choice",
      { role: "option", id: `${this.#list.id}-${n}`, "aria-selected": "false", onclick: () => this.#pick(n) },
      choice.tone ? make("span.dot", { "data-tone": choice.tone, "aria-hidden": "true" }) : null,
      make("span.choice-label", {}, choice.label),
      choice.detail ? make("span.choice-detail", {}, choice.detail) : null,
    );
  }

  #key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves) {
      event.preventDefault();
      if (this.#list.hidden) this.#open("");
      const count = this.#shown.length;
      if (count) this.#activate((this.#active + moves[event.key] + count + (this.#active < 0 && event.key === "ArrowUp" ? 1 : 0)) % count);
    } else if (event.key === "Enter" && !this.#list.hidden) {
      event.preventDefault();
      if (this.#active >= 0) this.#pick(this.#active);
    } else if (event.key === "Escape" && !this.#list.hidden) {
      event.stopPropagation();
      this.close();
    }
  }

  #activate(n) {
    this.#active = n;
    [...this.#list.children].forEach((row, place) => {
      if (!row.hasAttribute("aria-selected")) return;
      row.setAttribute("aria-selected", String(place === n));
      if (place === n) row.scrollIntoView({ block: "nearest" });
    });
    if (n < 0) this.#input.removeAttribute("aria-activedescendant");
    else this.#input.setAttribute("aria-activedescendant", `${this.#list.id}-${n}`);
  }

  #pick(n) {
    const choice = this.#shown[n];
    this.close();
    this.#options.onPick(choice);
    this.#input.value = this.#options.text();
  }
}
