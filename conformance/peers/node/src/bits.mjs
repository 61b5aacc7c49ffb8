// Streams of bits, from the least significant to the most significant one of each byte (section 9.7).
import { fail } from './errors.mjs';

/** Takes bits from a stream; one that is missing is `malformed_row`. */
export class BitReader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.byte = 0;
    this.shift = 0;
  }

  /** How many bits are left. */
  get left() {
    return 8 * (this.bytes.length - this.byte) - this.shift;
  }

  bit() {
    if (this.byte >= this.bytes.length) fail('malformed_row', 'a bit is missing (RNK-2, SUB-2)');
    const bit = (this.bytes[this.byte] >> this.shift) & 1;
    this.shift += 1;
    if (this.shift === 8) {
      this.shift = 0;
      this.byte += 1;
    }
    return bit;
  }

  /** A number of up to 32 bits, the least significant first. @param {number} count */
  bits(count) {
    if (count > this.left) fail('malformed_row', 'a bit is missing (RNK-2, SUB-2)');
    let value = 0;
    for (let taken = 0; taken < count;) {
      const take = Math.min(8 - this.shift, count - taken);
      value |= ((this.bytes[this.byte] >> this.shift) & ((1 << take) - 1)) << taken;
      taken += take;
      this.shift += take;
      if (this.shift === 8) {
        this.shift = 0;
        this.byte += 1;
      }
    }
    return value >>> 0;
  }

  /** RNK-2: fewer than 8 bits are left, and they are 0. */
  end() {
    if (this.left >= 8 || (this.left > 0 && this.bytes[this.byte] >> this.shift !== 0)) {
      fail('malformed_row', 'bits left over that are no padding (RNK-2)');
    }
  }
}

/** Makes a stream of bits, padded with zeros to whole bytes. */
export class BitWriter {
  constructor() {
    this.bytes = new Uint8Array(64);
    this.byte = 0;
    this.shift = 0;
  }

  /** A number of up to 32 bits, the least significant first. @param {number} value @param {number} count */
  put(value, count) {
    if (this.byte + 5 > this.bytes.length) {
      const { bytes } = this;
      this.bytes = new Uint8Array(2 * bytes.length);
      this.bytes.set(bytes);
    }
    let [rest, left] = [value, count];
    while (left > 0) {
      const take = Math.min(8 - this.shift, left);
      this.bytes[this.byte] |= (rest & ((1 << take) - 1)) << this.shift;
      rest >>>= take;
      left -= take;
      this.shift += take;
      if (this.shift === 8) {
        this.shift = 0;
        this.byte += 1;
      }
    }
  }

  /** How many bits were put. */
  get length() {
    return 8 * this.byte + this.shift;
  }

  finish() {
    return this.bytes.slice(0, this.byte + (this.shift > 0 ? 1 : 0));
  }
}
