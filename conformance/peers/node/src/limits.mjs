// Limits of section 14 (LIM-1).
import { fail } from './errors.mjs';

export const DEFAULT_LIMITS = Object.freeze({
  record_bytes: 16777216,
  table_bytes: 268435456,
  json_depth: 32,
  metadata_bytes: 65536,
  features: 64,
  signing_keys: 16,
  tensors: 2000000,
  name_bytes: 1024,
  dims: 16,
  tensor_bytes: 17592186044416,
  state_bytes: 1125899906842624,
  parts: 100000,
  batches: 1000000,
  batch_bytes: 268435456,
  batch_decoded_bytes: 1073741824,
  batch_expansion: 1024,
  rows: 4000000,
  shard_header_bytes: 100000000,
  files: 1000,
  file_bytes: 268435456,
  path_records: 1000000,
  kept: 100000,
  pins: 100000,
});

/** @typedef {typeof DEFAULT_LIMITS} Limits */

/** Below this size a batch may expand as it likes (LIM-2). */
const FREE_EXPANSION_BYTES = 16 * 1024 * 1024;

/**
 * The defaults with some of them replaced.
 * @param {Record<string, number>} [changes]
 * @returns {Limits}
 */
export function makeLimits(changes = {}) {
  for (const [name, value] of Object.entries(changes)) {
    if (!(name in DEFAULT_LIMITS)) fail('invalid_argument', `no such limit: ${name}`);
    if (!Number.isSafeInteger(value) || value < 0) fail('invalid_argument', `limit ${name} is no count`);
  }
  return Object.freeze({ ...DEFAULT_LIMITS, ...changes });
}

/**
 * @param {Limits} limits
 * @param {keyof Limits} name
 * @param {number} value
 * @param {string} what
 */
export function checkLimit(limits, name, value, what) {
  if (value > limits[name]) fail('limit_exceeded', `${what}: ${value} is above ${name} = ${limits[name]}`);
}

/**
 * LIM-2, for what a record claims and for what a batch claims.
 * @param {Limits} limits
 * @param {number} decoded
 * @param {number} stored
 */
export function checkExpansion(limits, decoded, stored) {
  checkLimit(limits, 'batch_decoded_bytes', decoded, 'a batch after decompression');
  if (decoded > FREE_EXPANSION_BYTES && decoded > limits.batch_expansion * stored) {
    fail('limit_exceeded', `a batch of ${stored} bytes expands to ${decoded}`);
  }
}
