// Headers of safetensors shards (section 8.7).
import { dtypeOf, tensorBytes } from './dtypes.mjs';
import { fail } from './errors.mjs';
import { JsonNumber, parseJson, writeJson } from './json.mjs';

/** @typedef {import('./table.mjs').TensorTable} TensorTable */

/** @param {string} why @returns {never} */
const refuse = (why) => fail('malformed_shard', why);

/**
 * Ordinals of a shard in the order in which they lie (SNP-4).
 * @param {TensorTable} table
 * @param {number} first
 * @param {number} last
 */
export function layoutOrder(table, first, last) {
  const ordinals = [];
  for (let i = first; i <= last; i += 1) ordinals.push(i);
  const width = (/** @type {number} */ i) => table.tensors[i].dtype.width;
  return ordinals.sort((a, b) => width(b) - width(a) || a - b);
}

/** @param {any} value */
const isObject = (value) =>
  value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof JsonNumber);

/** @param {any} value @returns {value is number[]} */
const isUints = (value) => Array.isArray(value) && value.every((v) => typeof v === 'number' && v >= 0);

/**
 * Reads a header of any safetensors file: its tensors in the order in which they lie.
 * @param {Uint8Array} json the header without its length
 * @param {number} dataBytes bytes of the file behind the header
 * @param {number} jsonDepth
 */
export function parseHeader(json, dataBytes, jsonDepth) {
  const header = parseJson(json, jsonDepth, 'malformed_shard');
  const metadata = header.__metadata__ ?? Object.create(null);
  if (
    '__metadata__' in header &&
    !(isObject(header.__metadata__) && Object.values(metadata).every((v) => typeof v === 'string'))
  ) {
    refuse('__metadata__ is not an object of strings');
  }
  const tensors = [];
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const {
      dtype: dtypeName,
      shape,
      data_offsets: offsets,
    } = isObject(entry) ? entry : refuse('an entry that is no object');
    if (typeof dtypeName !== 'string' || !isUints(shape) || !isUints(offsets) || offsets.length !== 2) {
      refuse(`${JSON.stringify(name)} has not the shape of an entry`);
    }
    const dtype = dtypeOf(dtypeName);
    const [begin, end] = offsets;
    if (end - begin !== tensorBytes(dtype, shape)) refuse(`${JSON.stringify(name)}: data_offsets do not fit the shape`);
    tensors.push({ name, dtype, shape, begin, end });
  }
  tensors.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let at = 0;
  for (const { begin, end } of tensors) {
    if (begin !== at) refuse('tensors overlap or leave a hole');
    at = end;
  }
  if (at !== dataBytes) refuse('tensors do not fill the file');
  return { metadata, tensors };
}

/**
 * Checks the header of a shard against its descriptor and the table (SNP-3, SNP-4).
 * @param {Uint8Array} bytes the first `header_bytes` bytes of the file
 * @param {any} shard descriptor
 * @param {TensorTable} table
 * @param {number} jsonDepth
 * @returns {{ordinal: number, begin: number, end: number, digest: string}[]} in file order, offsets from the
 *   beginning of the file
 */
export function readShardHeader(bytes, shard, table, jsonDepth) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getBigUint64(0, true) !== BigInt(shard.header_bytes - 8))
    fail('size_mismatch', 'a header of another length (SNP-5)');
  const { metadata, tensors } = parseHeader(bytes.subarray(8), shard.bytes - shard.header_bytes, jsonDepth);
  if (tensors.length !== shard.last_tensor - shard.first_tensor + 1) {
    refuse('other tensors than the shard should hold (SNP-3)');
  }
  const text = metadata['deltawire.digests'];
  if (text === undefined) refuse('no deltawire.digests (SNP-4)');
  const digests = parseJson(Buffer.from(text, 'utf8'), jsonDepth, 'malformed_shard');
  if (Object.keys(digests).length !== tensors.length) refuse('digests of other tensors (SNP-4)');
  return tensors.map(({ name, dtype, shape, begin, end }) => {
    const ordinal = table.ordinals.get(name) ?? -1;
    const entry = table.tensors[ordinal];
    if (ordinal < shard.first_tensor || ordinal > shard.last_tensor || entry.name !== name) {
      refuse(`${JSON.stringify(name)} is no tensor of the shard (SNP-3)`);
    }
    if (dtype !== entry.dtype || shape.join() !== entry.shape.join()) {
      refuse(`${JSON.stringify(name)} is not as in the table (SNP-3)`);
    }
    const digest = digests[name];
    if (typeof digest !== 'string' || !/^[0-9a-f]{16}$/.test(digest)) refuse('a tensor without its digest (SNP-4)');
    return { ordinal, begin: shard.header_bytes + begin, end: shard.header_bytes + end, digest };
  });
}

/**
 * The header of a new shard, with its length.
 * @param {TensorTable} table
 * @param {number[]} order of layoutOrder
 * @param {string[]} digests of each tensor of the order
 */
export function writeShardHeader(table, order, digests) {
  const byName = Object.create(null);
  order.forEach((ordinal, i) => {
    byName[table.tensors[ordinal].name] = digests[i];
  });
  const header = Object.create(null);
  header.__metadata__ = { format: 'pt', 'deltawire.digests': writeJson(byName) };
  let at = 0;
  for (const ordinal of order) {
    const { name, dtype, shape, bytes } = table.tensors[ordinal];
    header[name] = { dtype: dtype.name, shape, data_offsets: [at, at + bytes] };
    at += bytes;
  }
  const json = Buffer.from(writeJson(header), 'utf8');
  const out = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, 0x20);
  out.writeBigUInt64LE(BigInt(out.length - 8), 0);
  json.copy(out, 8);
  return out;
}
