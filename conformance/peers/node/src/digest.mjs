// State digest (section 10). Sums are taken in two halves of 32 bits, because BigInt is too slow per element.
import { createHash } from 'node:crypto';

const TWO32 = 4294967296;
const G_HI = 0x9e3779b9 | 0;
const G_LO = 0x7f4a7c15;
const A_HI = 0xbf58476d | 0;
const A_LO = 0x1ce4e5b9;
const B_HI = 0x94d049bb | 0;
const B_LO = 0x133111eb;

/** The high half of the product of two u32. @param {number} a @param {number} b */
function mulHigh(a, b) {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = b & 0xffff;
  const b1 = b >>> 16;
  const t = (Math.imul(a1, b0) + (Math.imul(a0, b0) >>> 16)) | 0;
  const u = (Math.imul(a0, b1) + (t & 0xffff)) | 0;
  return (Math.imul(a1, b1) + (t >>> 16) + (u >>> 16)) | 0;
}

/** The seed of a tensor (DIG-1), as a u64. */
export class Seed {
  /** @param {number} hi @param {number} lo */
  constructor(hi, lo) {
    this.hi = hi | 0;
    this.lo = lo | 0;
  }

  /** @param {string} name @param {string} dtype @param {number[]} shape the logical shape */
  static of(name, dtype, shape) {
    const extents = Buffer.alloc(8 * shape.length);
    shape.forEach((extent, i) => extents.writeBigUInt64LE(BigInt(extent), 8 * i));
    const hash = createHash('sha256').update(`${name}\0${dtype}\0`, 'utf8').update(extents).digest();
    return new Seed(hash.readUInt32LE(4), hash.readUInt32LE(0));
  }

  toBigInt() {
    return (BigInt(this.hi >>> 0) << 32n) | BigInt(this.lo >>> 0);
  }
}

/** A sum of contributions modulo 2^64. */
export class DigestSum {
  constructor() {
    this.hi = 0;
    this.lo = 0;
  }

  /**
   * Adds the contribution of one element (DIG-2).
   * @param {Seed} seed
   * @param {number} index flat index in the whole tensor
   * @param {number} bitsHi
   * @param {number} bitsLo
   */
  add(seed, index, bitsHi, bitsLo) {
    const indexLo = index >>> 0;
    const indexHi = (index - indexLo) / TWO32;
    // x = (seed + index × G) ^ bits
    let lo = Math.imul(indexLo, G_LO);
    let hi = (mulHigh(indexLo, G_LO) + Math.imul(indexLo, G_HI) + Math.imul(indexHi, G_LO)) | 0;
    lo = (lo + seed.lo) | 0;
    hi = (hi + seed.hi + (lo >>> 0 < seed.lo >>> 0 ? 1 : 0)) ^ bitsHi;
    lo ^= bitsLo;
    // x = (x ^ (x >> 30)) × A
    lo ^= (lo >>> 30) | (hi << 2);
    hi ^= hi >>> 30;
    hi = (mulHigh(lo, A_LO) + Math.imul(lo, A_HI) + Math.imul(hi, A_LO)) | 0;
    lo = Math.imul(lo, A_LO);
    // x = (x ^ (x >> 27)) × B
    lo ^= (lo >>> 27) | (hi << 5);
    hi ^= hi >>> 27;
    hi = (mulHigh(lo, B_LO) + Math.imul(lo, B_HI) + Math.imul(hi, B_LO)) | 0;
    lo = Math.imul(lo, B_LO);
    // x ^ (x >> 31)
    lo ^= (lo >>> 31) | (hi << 1);
    hi ^= hi >>> 31;
    this.lo = (this.lo + lo) | 0;
    this.hi = (this.hi + hi + (this.lo >>> 0 < lo >>> 0 ? 1 : 0)) | 0;
  }

  /** @returns {bigint} */
  value() {
    return (BigInt(this.hi >>> 0) << 32n) | BigInt(this.lo >>> 0);
  }
}

/**
 * Elements of one width over bytes, as bit patterns (DTY-4). Widths of 8 are two halves.
 * @param {Uint8Array} bytes stored at an offset that is a multiple of the width
 * @param {number} width
 */
export function elements(bytes, width) {
  const { buffer, byteOffset, byteLength } = bytes;
  if (width === 1) return bytes;
  if (width === 2) return new Uint16Array(buffer, byteOffset, byteLength / 2);
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/**
 * The digest of elements that lie one after the other in a tensor (DIG-3).
 * @param {Seed} seed
 * @param {Uint8Array} bytes
 * @param {number} width
 * @param {number} [first] flat index of the first element
 * @returns {bigint}
 */
export function digestOf(seed, bytes, width, first = 0) {
  const sum = new DigestSum();
  const all = elements(bytes, width);
  if (width === 8) {
    for (let i = 0; i < all.length; i += 2) sum.add(seed, first + i / 2, all[i + 1], all[i]);
  } else {
    for (let i = 0; i < all.length; i += 1) sum.add(seed, first + i, 0, all[i]);
  }
  return sum.value();
}
