// Tensor tables (section 8.3).
import { Seed } from './digest.mjs';
import { dtypeOf, tensorBytes } from './dtypes.mjs';
import { fail } from './errors.mjs';
import { jsonBytes, parseJson } from './json.mjs';
import { checkLimit } from './limits.mjs';
import { checkProtocol, PROTOCOL, PROTOCOL_VERSION } from './records.mjs';
import * as t from './types.mjs';

/**
 * @typedef {object} TensorEntry
 * @property {string} name
 * @property {import('./dtypes.mjs').Dtype} dtype
 * @property {number[]} shape logical shape
 * @property {number} bytes
 * @property {Seed} seed
 */

const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;

/** @type {t.Check} TAB-3 */
const tensorName = (value, at) => {
  t.string(value, at);
  if (value === '' || value === '__metadata__' || FORBIDDEN.test(value)) {
    fail('malformed_record', `${at}: not the name of a tensor (TAB-3)`);
  }
};
const shape = t.object(
  {
    kind: t.oneOf('tensor_table'),
    tensors: t.arrayOf(t.object({ name: tensorName, dtype: t.string, shape: t.arrayOf(t.uint) })),
  },
  { aliases: t.arrayOf(t.object({ name: tensorName, target: t.string })) },
);

/** Names, dtypes and shapes of a state, in the order of their ordinals. */
export class TensorTable {
  /**
   * @param {{name: string, dtype: string, shape: number[]}[]} tensors
   * @param {{name: string, target: string}[]} aliases
   * @param {import('./limits.mjs').Limits} limits
   */
  constructor(tensors, aliases, limits) {
    if (tensors.length === 0) fail('malformed_record', 'a table without tensors (TAB-2)');
    checkLimit(limits, 'tensors', tensors.length + aliases.length, 'entries of a table');
    /** @type {Map<string, number>} from name or alias to ordinal */
    this.ordinals = new Map();
    /** @type {TensorEntry[]} */
    this.tensors = [];
    this.aliases = aliases;
    this.stateBytes = 0;
    tensors.forEach((tensor, ordinal) => {
      this.addName(tensor.name, ordinal, limits);
      checkLimit(limits, 'dims', tensor.shape.length, 'dimensions');
      const dtype = dtypeOf(tensor.dtype);
      const bytes = tensorBytes(dtype, tensor.shape);
      if (Number.isNaN(bytes)) fail('malformed_record', `${JSON.stringify(tensor.name)} is not of whole bytes (DTY-3)`);
      checkLimit(limits, 'tensor_bytes', bytes, 'a tensor');
      this.stateBytes += bytes;
      checkLimit(limits, 'state_bytes', this.stateBytes, 'a state');
      const seed = Seed.of(tensor.name, dtype.name, tensor.shape);
      this.tensors.push({ name: tensor.name, dtype, shape: tensor.shape, bytes, seed });
    });
    for (const { name, target } of aliases) {
      const ordinal = this.ordinals.get(target);
      if (ordinal === undefined || this.tensors[ordinal].name !== target) {
        fail('malformed_record', 'an alias of what is no tensor (TAB-4)');
      }
      this.addName(name, ordinal, limits);
    }
  }

  /** @param {string} name @param {number} ordinal @param {import('./limits.mjs').Limits} limits */
  addName(name, ordinal, limits) {
    checkLimit(limits, 'name_bytes', Buffer.byteLength(name, 'utf8'), 'a name');
    if (this.ordinals.has(name)) fail('malformed_record', `name ${JSON.stringify(name)} twice (TAB-3)`);
    this.ordinals.set(name, ordinal);
  }

  /** @param {Uint8Array} bytes @param {import('./limits.mjs').Limits} limits */
  static parse(bytes, limits) {
    checkLimit(limits, 'table_bytes', bytes.length, 'a tensor table');
    const record = parseJson(bytes, limits.json_depth);
    checkProtocol(record); // TAB-5
    shape(record, 'tensor_table');
    return new TensorTable(record.tensors, record.aliases ?? [], limits);
  }

  /** The table as an object of the store. */
  toBytes() {
    return jsonBytes({
      protocol: PROTOCOL,
      protocol_version: PROTOCOL_VERSION,
      kind: 'tensor_table',
      tensors: this.tensors.map((tensor) => ({ name: tensor.name, dtype: tensor.dtype.name, shape: tensor.shape })),
      aliases: this.aliases.length ? this.aliases.map(({ name, target }) => ({ name, target })) : undefined,
    });
  }

  /** A text that is equal for tables that are equal as sets, aliases included (PUB-1). */
  setIdentity() {
    const tensors = this.tensors.map(({ name, dtype, shape: extents }) => JSON.stringify([name, dtype.name, extents]));
    const aliases = this.aliases.map(({ name, target }) => JSON.stringify([name, target]));
    return JSON.stringify([tensors.sort(), aliases.sort()]);
  }
}
