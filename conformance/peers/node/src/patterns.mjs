// Elements as bit patterns (DTY-4), in a typed array of the width.
/** @typedef {Uint8Array | Uint16Array | Uint32Array | BigUint64Array} Patterns */

const ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };

/**
 * Bytes as patterns; they begin at a multiple of the width.
 * @param {Uint8Array} bytes
 * @param {number} width
 * @returns {Patterns}
 */
export function patterns(bytes, width) {
  return new ARRAYS[/** @type {1 | 2 | 4 | 8} */ (width)](
    /** @type {ArrayBuffer} */ (bytes.buffer),
    bytes.byteOffset,
    bytes.byteLength / width,
  );
}

/** @param {number} length @param {number} width @returns {Patterns} */
export const newPatterns = (length, width) => new ARRAYS[/** @type {1 | 2 | 4 | 8} */ (width)](length);
