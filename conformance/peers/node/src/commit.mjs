// Creating records (section 11.1, CMT-1 to CMT-8).
import { setTimeout as sleep } from 'node:timers/promises';
import { fail, isCode } from './errors.mjs';
import { parseJson } from './json.mjs';

const ATTEMPTS = 5;
const PAUSE_MS = 50;

/** What says for certain that nothing was written. */
const REFUSALS = ['store_denied', 'store_unfit', 'invalid_key'];

/**
 * The other record, as far as it can be read (CMT-8).
 * @param {Uint8Array} bytes
 * @param {import('./limits.mjs').Limits} limits
 */
function glance(bytes, limits) {
  try {
    return parseJson(bytes, limits.json_depth);
  } catch {
    return {};
  }
}

/**
 * Creates a record by `put(create)`, and reads it back where it is not known what happened.
 * @param {import('./store.mjs').Store} store
 * @param {string} key
 * @param {Uint8Array} bytes the same for all attempts (CMT-3)
 * @param {string} commitId
 * @param {import('./limits.mjs').Limits} limits
 * @returns {Promise<{ours: true} | {ours: false, other: any}>}
 */
export async function createRecord(store, key, bytes, commitId, limits) {
  /** @returns {Promise<{ours: true} | {ours: false, other: any} | null>} null if there is no object */
  const readBack = async () => {
    try {
      const found = await store.get(key, limits.record_bytes);
      const other = glance(found.bytes, limits);
      return other.commit_id === commitId ? { ours: true } : { ours: false, other };
    } catch (error) {
      if (isCode(error, 'object_not_found')) return null;
      if (isCode(error, 'limit_exceeded')) return { ours: false, other: {} };
      throw error;
    }
  };
  let mayHaveArrived = false;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (attempt > 0) await sleep(PAUSE_MS * 2 ** attempt);
    try {
      await store.putCreate(key, bytes);
      if (!store.lacks.create) return { ours: true };
    } catch (error) {
      if (!isCode(error)) throw error;
      if (isCode(error, ...REFUSALS) && !mayHaveArrived) throw error;
      mayHaveArrived ||= !isCode(error, ...REFUSALS, 'object_exists');
    }
    try {
      const found = await readBack();
      if (found) return found;
    } catch (error) {
      if (!isCode(error)) throw error;
      mayHaveArrived = true;
    }
  }
  return fail('outcome_unknown', `whether ${key} was created could not be found out (CMT-6)`);
}
