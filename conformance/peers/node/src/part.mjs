// Reading record batches of delta parts (section 8.6), with the checks of PRT-5 from its third step on.
import { checkBox } from './boxes.mjs';
import { CODEC_STREAMS, checkStreams } from './codecs.mjs';
import { storageShape } from './dtypes.mjs';
import { fail, ofCodec } from './errors.mjs';
import { Table } from './flatbuffer.mjs';
import { checkExpansion } from './limits.mjs';
import { decompress } from './zstd.mjs';

/** @typedef {import('./table.mjs').TensorTable} TensorTable */

const METADATA_V5 = 4;
const HEADER_RECORD_BATCH = 3;
const CODEC_ZSTD = 1;
const METHOD_BUFFER = 0;
const FIXED_NODES = 9;
const FIXED_BUFFERS = 19;

/** @param {string} why @returns {never} */
const refuse = (why) => fail('malformed_part', why);

/**
 * @typedef {object} Row
 * @property {number} tensor
 * @property {number[]} start
 * @property {number[]} extent
 * @property {number} elements of the box
 * @property {string} codec
 * @property {number} changed
 * @property {bigint} before
 * @property {bigint} after
 * @property {Record<string, Uint8Array>} streams those that are not empty, or needed
 */

/**
 * What the message says of itself (PRT-5, step 3).
 * @param {Uint8Array} bytes
 * @param {any} batch of the record
 * @param {number} streams
 * @param {import('./limits.mjs').Limits} limits
 */
function readMessage(bytes, batch, streams, limits) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8 || view.getUint32(0, true) !== 0xffffffff) refuse('no encapsulated message');
  const metadataBytes = view.getInt32(4, true);
  if (metadataBytes <= 0 || 8 + metadataBytes > bytes.length) refuse('metadata leaves the batch');
  const message = Table.root(bytes.subarray(8, 8 + metadataBytes));
  if (message.i16(0, 0) !== METADATA_V5) refuse('metadata is not of version V5 (PRT-1)');
  const header = message.i8(1, 0) === HEADER_RECORD_BATCH ? message.table(2) : null;
  if (header === null) refuse('the message is not a record batch');
  const compression = header.table(3);
  if (!compression || compression.i8(0, 0) !== CODEC_ZSTD || compression.i8(1, 0) !== METHOD_BUFFER) {
    refuse('the batch is not compressed by zstd (PRT-3)');
  }
  const body = bytes.subarray(8 + metadataBytes);
  if (message.i64(3) !== body.length) refuse('the body does not fill the range');
  const bodyView = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const places = header.pairs(2);
  let decoded = 0;
  /** @type {{data: Uint8Array, length: number}[]} length after decompression, or -1 for what is stored as it is */
  const buffers = [];
  for (let i = 0; i < places.length; i += 1) {
    const [offset, length] = places.get(i);
    if (offset > body.length || length > body.length - offset) refuse('a buffer leaves the body');
    if (length === 0) {
      buffers.push({ data: new Uint8Array(0), length: -1 });
      continue;
    }
    if (length < 8) refuse('a buffer without its length');
    const claimed = Number(bodyView.getBigInt64(offset, true));
    if (claimed < -1) refuse('a buffer of negative length');
    decoded += claimed === -1 ? length - 8 : claimed;
    buffers.push({ data: body.subarray(offset + 8, offset + length), length: claimed });
  }
  checkExpansion(limits, decoded, bytes.length);
  if (decoded !== batch.decoded_bytes) refuse('decoded_bytes is another');
  if (header.i64(0) !== batch.rows) refuse('rows is another');
  const nodes = header.pairs(1);
  if (nodes.length !== FIXED_NODES + streams || buffers.length !== FIXED_BUFFERS + 3 * streams) {
    refuse('numbers of nodes and buffers are not those of the schema');
  }
  for (let i = 0; i < nodes.length; i += 1) if (nodes.get(i)[1] !== 0) refuse('nulls');
  return { buffers, nodes };
}

/** Takes the columns of a batch one after the other (PRT-5, step 4). */
class Columns {
  /** @param {ReturnType<typeof readMessage>} message @param {number} rows */
  constructor({ buffers, nodes }, rows) {
    this.buffers = buffers;
    this.nodes = nodes;
    this.rows = rows;
    this.node = 0;
    this.buffer = 0;
  }

  /** The next buffer, decompressed. */
  next() {
    const { data, length } = this.buffers[this.buffer];
    this.buffer += 1;
    return length === -1 ? data.slice() : decompress(data, length);
  }

  /**
   * The next field node and validity buffer, whose bits say nothing, since no node counts a null.
   * @param {number} length the length that the node must have
   */
  field(length) {
    const [stated] = this.nodes.get(this.node);
    this.node += 1;
    if (stated !== length) refuse('a column of another length');
    this.next();
  }

  /** @param {number} count @param {number} width */
  fixed(count, width) {
    const data = this.next();
    if (data.length < count * width) refuse('a buffer that is too short');
    return data;
  }

  uint32() {
    this.field(this.rows);
    return new Uint32Array(this.fixed(this.rows, 4).buffer, 0, this.rows);
  }

  /** @param {number} [count] */
  uint64(count = this.rows) {
    this.field(count);
    return new BigUint64Array(this.fixed(count, 8).buffer, 0, count);
  }

  /** Offsets that ascend. @param {4 | 8} width @returns {Float64Array} */
  offsets(width) {
    const raw = this.fixed(this.rows === 0 ? 0 : this.rows + 1, width);
    const view = new DataView(raw.buffer);
    const out = new Float64Array(this.rows + 1);
    for (let i = 0; i < (this.rows === 0 ? 0 : out.length); i += 1) {
      out[i] = width === 4 ? view.getInt32(4 * i, true) : Number(view.getBigInt64(8 * i, true));
      if (out[i] < (i === 0 ? 0 : out[i - 1])) refuse('offsets that do not ascend');
    }
    return out;
  }

  /** @returns {(row: number) => number[]} */
  lists() {
    this.field(this.rows);
    const offsets = this.offsets(4);
    const [stated] = this.nodes.get(this.node);
    const items = this.uint64(stated);
    if (offsets[this.rows] > items.length) refuse('offsets that leave their buffer');
    return (row) => Array.from(items.subarray(offsets[row], offsets[row + 1]), Number);
  }

  /** @param {4 | 8} width of the offsets */
  binary(width) {
    this.field(this.rows);
    const offsets = this.offsets(width);
    const data = this.next();
    if (offsets[this.rows] > data.length) refuse('offsets that leave their buffer');
    return {
      empty: (/** @type {number} */ row) => offsets[row] === offsets[row + 1],
      value: (/** @type {number} */ row) => data.subarray(offsets[row], offsets[row + 1]),
    };
  }

  /** @returns {string[]} */
  utf8() {
    const values = this.binary(4);
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return Array.from({ length: this.rows }, (_, row) => {
      try {
        return decoder.decode(values.value(row));
      } catch {
        return refuse('a string that is not UTF-8');
      }
    });
  }
}

/**
 * Reads a batch whose size and sha256 were found to be right. All its rows are checked (PRT-5, steps 5 and 6) before
 * the first is given out; they are made one by one, since they can be many.
 * @param {Uint8Array} bytes
 * @param {any} batch of the record
 * @param {string[]} streamNames of the part
 * @param {TensorTable} table
 * @param {import('./limits.mjs').Limits} limits
 * @returns {Generator<Row>}
 */
export function readBatch(bytes, batch, streamNames, table, limits) {
  const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const columns = new Columns(readMessage(plain, batch, streamNames.length, limits), batch.rows);
  const tensors = columns.uint32();
  const starts = columns.lists();
  const extents = columns.lists();
  const codecs = columns.utf8();
  const changed = columns.uint64();
  const before = columns.uint64();
  const after = columns.uint64();
  const streams = streamNames.map((name) => ({ name, ...columns.binary(8) }));
  const inPart = new Set(streamNames);

  /** ROW-1 to ROW-3, BOX-1, BOX-2 and COD-1 (PRT-5, step 5). @param {number} row @returns {Row} */
  const readRow = (row) => {
    const tensor = table.tensors[tensors[row]];
    if (!tensor) fail('malformed_row', 'not an ordinal of the table (ROW-1)');
    const [start, extent, codec] = [starts(row), extents(row), codecs[row]];
    const elements = checkBox(start, extent, storageShape(tensor.dtype, tensor.shape));
    if (changed[row] < 1n || changed[row] > BigInt(elements)) fail('malformed_row', 'changed (ROW-2)');
    if (!Object.hasOwn(CODEC_STREAMS, codec)) fail('unsupported_codec', `codec ${JSON.stringify(codec)}`);
    /** @type {Record<string, Uint8Array>} */
    const own = Object.create(null);
    for (const { name, empty, value } of streams) if (!empty(row)) own[name] = value(row);
    const count = Number(changed[row]);
    checkStreams(codec, tensor.dtype, count, elements, own, inPart);
    return {
      tensor: tensors[row],
      start,
      extent,
      elements,
      codec,
      changed: count,
      before: before[row],
      after: after[row],
      streams: own,
    };
  };
  const read = (/** @type {number} */ row) => ofCodec(codecs[row], () => readRow(row));

  let low = Infinity;
  let high = -1;
  for (let row = 0; row < batch.rows; row += 1) {
    read(row);
    low = Math.min(low, tensors[row]);
    high = Math.max(high, tensors[row]);
  }
  if (batch.rows === 0 || low !== batch.first_tensor || high !== batch.last_tensor) {
    refuse('no rows, or other ordinals than first_tensor and last_tensor');
  }
  return (function* () {
    for (let row = 0; row < batch.rows; row += 1) yield read(row);
  })();
}
