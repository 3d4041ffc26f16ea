// Pages of lists.

import type { Page } from "./generated/types.js";

/** List that is read page by page. Iterate over it for all entries, or over `pages()`. */
export class Pager<T> implements AsyncIterable<T> {
  readonly #fetch: (after: string | undefined) => Promise<Page<T>>;
  readonly #endless: boolean;
  #after: string | undefined;

  /** @internal */
  constructor(fetch: (after: string | undefined) => Promise<Page<T>>, after: string | undefined, endless: boolean) {
    this.#fetch = fetch;
    this.#after = after;
    this.#endless = endless;
  }

  /** Cursor after the last page that was read. Keep that of `listEvents`, and continue there later. */
  get cursor(): string | undefined {
    return this.#after;
  }

  /** Reads the next page. It moves the cursor. */
  async page(): Promise<Page<T>> {
    const page = await this.#fetch(this.#after);
    this.#after = page.next ?? this.#after;
    return page;
  }

  /** Pages up to the end of the list. A page may be short or empty and still have a next one. */
  async *pages(): AsyncGenerator<Page<T>, void> {
    for (;;) {
      const page = await this.page();
      yield page;
      // The list of events always has a next page: later events are on it.
      if (page.next == null || (this.#endless && page.data.length === 0)) {
        return;
      }
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for await (const page of this.pages()) {
      yield* page.data;
    }
  }

  /** All entries. Use it for lists that fit in memory. */
  async all(): Promise<T[]> {
    const entries: T[] = [];
    for await (const entry of this) {
      entries.push(entry);
    }
    return entries;
  }
}
