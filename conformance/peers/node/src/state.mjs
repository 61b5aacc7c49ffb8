// A state that is held: tensors, auxiliary files and where in the line it is.
import { digestOf } from './digest.mjs';
import { fail } from './errors.mjs';
import { u64Add } from './u64.mjs';

/**
 * Tensors are kept by ordinal, the bytes of each in a buffer of its own.
 * @typedef {object} Held
 * @property {string} streamId
 * @property {import('./reader.mjs').Read} read the record of the version
 * @property {import('./table.mjs').TensorTable} table
 * @property {Map<number, Uint8Array>} tensors
 * @property {Map<string, {bytes: Uint8Array, digest: string}>} files
 * @property {bigint} digest sum of the digests of the tensors held (FOL-6)
 */

/** Room for a tensor; what does not fit into memory is above a limit too. @param {number} bytes */
export function allocate(bytes) {
  try {
    return new Uint8Array(bytes);
  } catch (error) {
    return fail('limit_exceeded', `no memory for a tensor of ${bytes} bytes`, error);
  }
}

/** The sum of the digests of the bits held, element by element. @param {Pick<Held, 'table' | 'tensors'>} held */
export function sumOf({ table, tensors }) {
  let sum = 0n;
  for (const [ordinal, bytes] of tensors) {
    const { seed, dtype } = table.tensors[ordinal];
    sum = u64Add(sum, digestOf(seed, bytes, dtype.width));
  }
  return sum;
}

/** DIG-6. @param {Held} held */
export function verifyHeld(held) {
  if (sumOf(held) !== held.digest) fail('state_mismatch', 'the state held is not what it should be (DIG-6)');
}

/**
 * Ordinals of the tensors wanted; an alias stands for its tensor (FOL-6).
 * @param {import('./table.mjs').TensorTable} table
 * @param {string[] | null} names null for all
 */
export function select(table, names) {
  if (names === null) return new Set(table.tensors.keys());
  return new Set(
    names.map((name) => table.ordinals.get(name) ?? fail('invalid_argument', `no tensor ${JSON.stringify(name)}`)),
  );
}
