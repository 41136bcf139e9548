// The windows of a monitor as columns, the oldest first.

const COLUMNS = ["window", "hamming", "confirmed_hamming", "level", "p_value", "alpha", "last_record", "end", "effect", "stored"];
const MAX_WINDOWS = 10_000;

/** Columns that grow with the stream. */
export class Series {
  /** @param {object} columns the answer of /series */
  constructor(columns) {
    for (const name of COLUMNS) this[name] = columns[name];
  }

  get length() {
    return this.window.length;
  }

  get first() {
    return this.window[0] ?? null;
  }

  get last() {
    return this.window.at(-1) ?? null;
  }

  /** Return the place of a window, or of the nearest one. */
  place(index) {
    let [low, high] = [0, this.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.window[middle] < index) low = middle + 1;
      else high = middle;
    }
    const nearer = low > 0 && index - this.window[low - 1] < this.window[low] - index;
    return nearer ? low - 1 : low;
  }

  /** Return when a window was: by its records, or else when it was complete. */
  time(index) {
    const place = this.place(index);
    return this.end[place] ?? this.stored[place] ?? null;
  }

  /** Return the number of the window that is nearest to a number. */
  nearest(index) {
    return this.length ? this.window[this.place(index)] : null;
  }

  /** Return the window that is so many places away from another one. */
  step(index, by) {
    const place = Math.min(this.length - 1, Math.max(0, this.place(index) + by));
    return this.window[place];
  }

  /** Return all columns of one window. */
  at(index) {
    const place = this.place(index);
    return Object.fromEntries(COLUMNS.map((name) => [name, this[name][place]]));
  }

  /** Add windows that are newer than all; return how many there were. */
  extend(columns) {
    const from = columns.window.findIndex((index) => this.last === null || index > this.last);
    if (from < 0) return 0;
    for (const name of COLUMNS) {
      this[name].push(...columns[name].slice(from));
      this[name].splice(0, this[name].length - MAX_WINDOWS);
    }
    return columns.window.length - from;
  }
}
