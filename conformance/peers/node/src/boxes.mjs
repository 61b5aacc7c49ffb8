// Boxes and positions (section 7.4).
import { fail } from './errors.mjs';

const MAX_ELEMENTS = 2 ** 31;

/**
 * BOX-1 and BOX-2: the number of elements of a box of a tensor.
 * @param {number[]} start
 * @param {number[]} extent
 * @param {number[]} shape storage shape
 */
export function checkBox(start, extent, shape) {
  if (start.length !== shape.length || extent.length !== shape.length) {
    fail('malformed_row', 'a box of another number of dimensions (BOX-1)');
  }
  let elements = 1;
  for (let i = 0; i < shape.length; i += 1) {
    if (!(extent[i] >= 1 && start[i] <= shape[i] && extent[i] <= shape[i] - start[i])) {
      fail('malformed_row', 'a box that leaves its tensor (BOX-1)');
    }
    elements *= extent[i];
  }
  if (elements >= MAX_ELEMENTS) fail('malformed_row', 'a box of too many elements (BOX-2)');
  return elements;
}

/** From positions in a box to flat indices in its tensor (BOX-3). */
export class BoxMap {
  /**
   * @param {number[]} start
   * @param {number[]} extent
   * @param {number[]} shape
   */
  constructor(start, extent, shape) {
    // Dimensions from `inner` on lie in one run, because all behind `inner` are taken whole.
    let inner = Math.max(0, shape.length - 1);
    while (inner > 0 && extent[inner] === shape[inner]) inner -= 1;
    this.run = extent.slice(inner).reduce((a, b) => a * b, 1);
    this.extent = extent;
    this.outerDims = inner;
    this.strides = new Array(shape.length).fill(1);
    for (let i = shape.length - 2; i >= 0; i -= 1) this.strides[i] = this.strides[i + 1] * shape[i + 1];
    this.base = start.reduce((sum, at, i) => sum + at * this.strides[i], 0);
    this.outer = 0;
    this.offset = this.base;
  }

  /** Fastest for ascending positions. @param {number} position */
  flat(position) {
    const outer = Math.floor(position / this.run);
    if (outer !== this.outer) {
      let rest = outer;
      this.offset = this.base;
      for (let i = this.outerDims - 1; i >= 0; i -= 1) {
        this.offset += (rest % this.extent[i]) * this.strides[i];
        rest = Math.floor(rest / this.extent[i]);
      }
      this.outer = outer;
    }
    return this.offset + (position - outer * this.run);
  }
}
