// A reader of flatbuffers in which every access is bounded (PRT-5, section 15).
import { fail } from './errors.mjs';

/** @returns {never} */
const refuse = () => fail('malformed_part', 'Arrow metadata that is not well-formed (PRT-5)');

/** A table within a flatbuffer. */
export class Table {
  /** @param {DataView} view @param {number} at */
  constructor(view, at) {
    this.view = view;
    this.at = at;
    need(view, at, 4);
    this.vtable = at - view.getInt32(at, true);
    need(view, this.vtable, 4);
    this.vtableBytes = view.getUint16(this.vtable, true);
    this.bytes = view.getUint16(this.vtable + 2, true);
    if (this.vtableBytes < 4 || this.bytes < 4) refuse();
    need(view, this.vtable, this.vtableBytes);
    need(view, at, this.bytes);
  }

  /** The root table. @param {Uint8Array} bytes */
  static root(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    need(view, 0, 4);
    return new Table(view, view.getUint32(0, true));
  }

  /** Where field `id` of `size` bytes stands, or 0 if it is absent. @param {number} id @param {number} size */
  field(id, size) {
    const entry = 4 + 2 * id;
    if (entry + 2 > this.vtableBytes) return 0;
    const offset = this.view.getUint16(this.vtable + entry, true);
    if (offset === 0) return 0;
    if (offset < 4 || offset + size > this.bytes) refuse();
    return this.at + offset;
  }

  /** @param {number} id @param {number} absent */
  i8(id, absent) {
    const at = this.field(id, 1);
    return at === 0 ? absent : this.view.getInt8(at);
  }

  /** @param {number} id @param {number} absent */
  i16(id, absent) {
    const at = this.field(id, 2);
    return at === 0 ? absent : this.view.getInt16(at, true);
  }

  /** @param {number} id */
  i64(id) {
    const at = this.field(id, 8);
    return at === 0 ? 0 : toCount(this.view, at);
  }

  /** @param {number} id @returns {number} where the thing stands that an offset points at, or 0 */
  pointer(id) {
    const at = this.field(id, 4);
    return at === 0 ? 0 : at + this.view.getUint32(at, true);
  }

  /** @param {number} id */
  table(id) {
    const at = this.pointer(id);
    return at === 0 ? null : new Table(this.view, at);
  }

  /**
   * A vector of structs of two i64.
   * @param {number} id
   * @returns {{length: number, get: (i: number) => [number, number]}}
   */
  pairs(id) {
    const at = this.pointer(id);
    if (at === 0) return { length: 0, get: refuse };
    need(this.view, at, 4);
    const length = this.view.getUint32(at, true);
    need(this.view, at + 4, 16 * length);
    return {
      length,
      get: (i) => [toCount(this.view, at + 4 + 16 * i), toCount(this.view, at + 12 + 16 * i)],
    };
  }
}

/** @param {DataView} view @param {number} at @param {number} size */
function need(view, at, size) {
  if (at < 0 || at + size > view.byteLength) refuse();
}

/** An i64 that counts something. @param {DataView} view @param {number} at */
function toCount(view, at) {
  const value = Number(view.getBigInt64(at, true));
  if (value < 0 || value > Number.MAX_SAFE_INTEGER) refuse();
  return value;
}
