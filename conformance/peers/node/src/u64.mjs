// 64-bit arithmetic. Digests are BigInt where they are compared; sums over many elements use two halves of 32 bits
// (digest.mjs).

const MASK = 0xffffffffffffffffn;

/** @param {string} hex a hex64 */
export const parseHex = (hex) => BigInt(`0x${hex}`);
/** @param {bigint} value @returns {string} */
export const formatHex = (value) => value.toString(16).padStart(16, '0');
/** @param {bigint} a @param {bigint} b */
export const u64Add = (a, b) => (a + b) & MASK;
/** @param {bigint} a @param {bigint} b */
export const u64Sub = (a, b) => (a - b) & MASK;
