// Fetching what descriptors name (section 7.3).
import { fail, isCode } from './errors.mjs';
import { checkLimit } from './limits.mjs';
import { sha256Of } from './reader.mjs';
import { rangesOf } from './store.mjs';

/** @typedef {import('./store.mjs').Store} Store */

/**
 * What a record names and is not there is `missing_object` (DSC-3).
 * @template T
 * @param {string} key
 * @param {Promise<T>} reading
 */
export async function named(key, reading) {
  try {
    return await reading;
  } catch (error) {
    if (isCode(error, 'object_not_found')) fail('missing_object', key, error);
    throw error;
  }
}

/**
 * An object read whole (DSC-3, DSC-4).
 * @param {Store} store
 * @param {any} descriptor
 * @param {import('./limits.mjs').Limits} limits
 * @param {'table_bytes' | 'file_bytes'} limit
 */
export async function fetchWhole(store, descriptor, limits, limit) {
  checkLimit(limits, limit, descriptor.bytes, descriptor.key);
  const reading = store.get(descriptor.key, descriptor.bytes).catch((error) => {
    if (isCode(error, 'limit_exceeded'))
      fail('size_mismatch', `${descriptor.key} is larger than ${descriptor.bytes}`, error);
    throw error;
  });
  const { bytes } = await named(descriptor.key, reading);
  if (bytes.length !== descriptor.bytes) fail('size_mismatch', `${descriptor.key} has another size`);
  if (sha256Of(bytes) !== descriptor.digest) fail('digest_mismatch', descriptor.key);
  return bytes;
}

/**
 * Ranges of one object, read by as few requests as sensible: neighbours are read together.
 * @param {Store} store
 * @param {string} key
 * @param {{offset: number, bytes: number}[]} ranges ascending
 * @param {number} together bytes that one request may bring
 * @returns {AsyncGenerator<Uint8Array>} one for each range
 */
export async function* fetchRanges(store, key, ranges, together) {
  const read = rangesOf(store, key);
  for (let i = 0; i < ranges.length;) {
    const { offset } = ranges[i];
    let end = offset + ranges[i].bytes;
    let next = i + 1;
    while (next < ranges.length && ranges[next].offset === end && end + ranges[next].bytes - offset <= together) {
      end += ranges[next].bytes;
      next += 1;
    }
    const bytes = await named(key, read(offset, end - offset));
    for (; i < next; i += 1)
      yield bytes.subarray(ranges[i].offset - offset, ranges[i].offset - offset + ranges[i].bytes);
  }
}
