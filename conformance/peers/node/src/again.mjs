// Asking again where a store has said nothing (STO-9, STO-33).
import { setTimeout as sleep } from 'node:timers/promises';
import { fail } from './errors.mjs';
import { isNoAnswer } from './http.mjs';

const ATTEMPTS = 6;
export const PAUSE_MS = 100;
/** What one verb waits altogether between its attempts. */
export const MOST_WAIT_MS = 60000;

/** No answer that says anything: what was asked is asked again. */
export class Again extends Error {
  /** @param {string} message @param {{waitMs?: number, cause?: unknown}} [options] */
  constructor(message, { waitMs = 0, cause } = {}) {
    super(message, { cause });
    this.waitMs = waitMs;
  }
}

/**
 * Does work until it says something, a bounded number of times.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function insist(work) {
  let waited = 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Again) && !isNoAnswer(error)) throw error;
      const asked = error instanceof Again ? error.waitMs : 0;
      const pause = Math.max(asked, PAUSE_MS * 2 ** (attempt - 1));
      waited += pause;
      if (attempt === ATTEMPTS || waited > MOST_WAIT_MS)
        fail('store_unavailable', /** @type {Error} */ (error).message, error);
      await sleep(pause);
    }
  }
}
