// Dtypes (section 16.2, DTY-1 to DTY-3).
import { fail } from './errors.mjs';

/** @typedef {{name: string, bits: number, width: number, float: boolean}} Dtype */

const integer = {
  BOOL: 8,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  F8_E8M0: 8,
  U8: 8,
  I8: 8,
  I16: 16,
  U16: 16,
  I32: 32,
  U32: 32,
  C64: 64,
  I64: 64,
  U64: 64,
};
const float = { F8_E5M2: 8, F8_E4M3: 8, F8_E4M3FNUZ: 8, F8_E5M2FNUZ: 8, F16: 16, BF16: 16, F32: 32, F64: 64 };

/** @type {Map<string, Dtype>} */
export const DTYPES = new Map();
for (const [order, list] of /** @type {const} */ ([
  ['integer', integer],
  ['float', float],
])) {
  for (const [name, bits] of Object.entries(list)) {
    DTYPES.set(name, { name, bits, width: Math.max(1, Math.floor(bits / 8)), float: order === 'float' });
  }
}

/** DTY-1. @param {string} name @returns {Dtype} */
export function dtypeOf(name) {
  const dtype = DTYPES.get(name);
  if (!dtype) fail('unsupported_dtype', `dtype ${JSON.stringify(name)}`);
  return dtype;
}

/**
 * Number of bytes of a tensor, or NaN if it has no whole number of bytes (DTY-3), or Infinity if it is beyond
 * 2^53. Nothing overflows: a shape that holds a 0 has no bytes whatever its other extents are.
 * @param {Dtype} dtype
 * @param {number[]} shape
 */
export function tensorBytes(dtype, shape) {
  let bits = BigInt(dtype.bits);
  for (const extent of shape) bits *= BigInt(extent);
  if (bits % 8n !== 0n) return NaN;
  const bytes = bits / 8n;
  return bytes > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(bytes);
}

/**
 * DTY-3.
 * @param {Dtype} dtype
 * @param {number[]} shape
 * @returns {number[]}
 */
export function storageShape(dtype, shape) {
  return dtype.bits < 8 ? [tensorBytes(dtype, shape)] : shape;
}
