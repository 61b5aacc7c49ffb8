// Reading a plain safetensors file as a state to publish.
import { readFile } from 'node:fs/promises';
import { fail, isCode } from './errors.mjs';
import { DEFAULT_LIMITS } from './limits.mjs';
import { parseHeader } from './shard.mjs';

/**
 * @param {string} path
 * @returns {Promise<{name: string, dtype: string, shape: number[], bytes: Uint8Array}[]>} in the order of the file
 */
export async function readSafetensors(path) {
  const file = await readFile(path);
  const refuse = (/** @type {string} */ why, /** @type {unknown} */ cause) =>
    fail('invalid_state', `${path}: ${why}`, cause);
  if (file.length < 8 || file.readBigUInt64LE(0) > BigInt(file.length - 8)) refuse('no safetensors file', null);
  const begin = 8 + Number(file.readBigUInt64LE(0));
  try {
    const { tensors } = parseHeader(file.subarray(8, begin), file.length - begin, DEFAULT_LIMITS.json_depth);
    return tensors.map(({ name, dtype, shape, begin: from, end }) => ({
      name,
      dtype: dtype.name,
      shape,
      bytes: Uint8Array.from(file.subarray(begin + from, begin + end)),
    }));
  } catch (error) {
    if (!isCode(error)) throw error;
    return refuse(/** @type {Error} */ (error).message, error);
  }
}
