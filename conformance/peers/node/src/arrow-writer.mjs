// Writing Arrow IPC files (section 8.6, PRT-1 to PRT-3).
import { Builder } from 'flatbuffers';
import { compress } from './zstd.mjs';

const METADATA_V5 = 4;
const HEADER = { schema: 1, recordBatch: 3 };
const TYPE = { int: 2, utf8: 5, list: 12, largeBinary: 19 };
const MAGIC = Buffer.from('ARROW1', 'latin1');
const EMPTY = new Uint8Array(0);

/** @typedef {{name: string, type: 'uint32' | 'uint64' | 'utf8' | 'list' | 'largeBinary'}} Column */

/** @param {Builder} b @param {Column['type']} type @returns {[number, number]} */
function writeType(b, type) {
  if (type === 'uint32' || type === 'uint64') {
    b.startObject(2);
    b.addFieldInt32(0, type === 'uint32' ? 32 : 64, 0);
    return [TYPE.int, b.endObject()];
  }
  b.startObject(0);
  return [TYPE[type], b.endObject()];
}

/** @param {Builder} b @param {Column} column @returns {number} */
function writeField(b, { name, type }) {
  const child = type === 'list' ? [writeField(b, { name: 'item', type: 'uint64' })] : [];
  b.startVector(4, child.length, 4);
  child.forEach((offset) => b.addOffset(offset));
  const children = b.endVector();
  const text = b.createString(name);
  const [kind, body] = writeType(b, type);
  b.startObject(7);
  b.addFieldOffset(0, text, 0);
  b.addFieldInt8(2, kind, 0);
  b.addFieldOffset(3, body, 0);
  b.addFieldOffset(5, children, 0);
  return b.endObject();
}

/** @param {Builder} b @param {Column[]} columns */
function writeSchema(b, columns) {
  const fields = columns.map((column) => writeField(b, column));
  b.startVector(4, fields.length, 4);
  fields.reverse().forEach((offset) => b.addOffset(offset));
  const vector = b.endVector();
  b.startObject(4);
  b.addFieldOffset(1, vector, 0);
  return b.endObject();
}

/** @param {Builder} b @param {number} kind @param {number} header @param {number} bodyBytes */
function finishMessage(b, kind, header, bodyBytes) {
  b.startObject(5);
  b.addFieldInt16(0, METADATA_V5, 0);
  b.addFieldInt8(1, kind, 0);
  b.addFieldOffset(2, header, 0);
  b.addFieldInt64(3, BigInt(bodyBytes), 0n);
  b.finish(b.endObject());
  const metadata = b.asUint8Array();
  const out = new Uint8Array(8 + Math.ceil(metadata.length / 8) * 8);
  const view = new DataView(out.buffer);
  view.setUint32(0, 0xffffffff, true);
  view.setInt32(4, out.length - 8, true);
  out.set(metadata, 8);
  return out;
}

/** @param {Builder} b @param {[number, number][]} pairs */
function writePairs(b, pairs) {
  b.startVector(16, pairs.length, 8);
  for (const [first, second] of [...pairs].reverse()) {
    b.prep(8, 16);
    b.writeInt64(BigInt(second));
    b.writeInt64(BigInt(first));
  }
  return b.endVector();
}

/** A column of a batch: its field nodes and buffers. */
class Encoded {
  /** @type {[number, number][]} */
  nodes = [];
  /** @type {Uint8Array[]} */
  buffers = [];

  /** @param {number} rows @param {...(Uint8Array | Uint32Array | BigUint64Array | Int32Array)} data */
  add(rows, ...data) {
    this.nodes.push([rows, 0]);
    this.buffers.push(EMPTY, ...data.map((part) => new Uint8Array(part.buffer, part.byteOffset, part.byteLength)));
  }
}

/** @param {Uint8Array[]} values @param {4 | 8} width of the offsets */
function binary(values, width) {
  const offsets = width === 4 ? new Int32Array(values.length + 1) : new BigUint64Array(values.length + 1);
  let at = 0;
  values.forEach((value, i) => {
    at += value.length;
    offsets[i + 1] = width === 4 ? at : BigInt(at);
  });
  return /** @type {const} */ ([offsets, new Uint8Array(Buffer.concat(values))]);
}

/**
 * Nodes and buffers of a batch.
 * @param {Column[]} columns
 * @param {any[][]} values of each column
 */
function encode(columns, values) {
  const out = new Encoded();
  columns.forEach(({ type }, c) => {
    const column = values[c];
    if (type === 'uint32') out.add(column.length, Uint32Array.from(column));
    else if (type === 'uint64') out.add(column.length, BigUint64Array.from(column, BigInt));
    else if (type === 'utf8')
      out.add(
        column.length,
        ...binary(
          column.map((text) => Buffer.from(text, 'utf8')),
          4,
        ),
      );
    else if (type === 'largeBinary') out.add(column.length, ...binary(column, 8));
    else {
      const offsets = new Int32Array(column.length + 1);
      column.forEach((list, i) => {
        offsets[i + 1] = offsets[i] + list.length;
      });
      out.add(column.length, offsets);
      const items = column.flat();
      out.add(items.length, BigUint64Array.from(items, BigInt));
    }
  });
  return out;
}

/** A buffer as it is stored (PRT-3). @param {Uint8Array} raw */
function storeBuffer(raw) {
  if (raw.length === 0) return raw;
  const small = compress(raw);
  const shrinks = small.length < raw.length;
  const data = shrinks ? small : raw;
  const out = new Uint8Array(8 + data.length);
  new DataView(out.buffer).setBigInt64(0, shrinks ? BigInt(raw.length) : -1n, true);
  out.set(data, 8);
  return out;
}

/**
 * The encapsulated message of a record batch.
 * @param {Column[]} columns
 * @param {any[][]} values
 */
function writeBatch(columns, values) {
  const { nodes, buffers } = encode(columns, values);
  const decoded = buffers.reduce((sum, raw) => sum + raw.length, 0);
  /** @type {[number, number][]} */
  const places = [];
  /** @type {Uint8Array[]} */
  const body = [];
  let at = 0;
  for (const raw of buffers) {
    const stored = storeBuffer(raw);
    places.push([at, stored.length]);
    body.push(stored, new Uint8Array((8 - (stored.length % 8)) % 8));
    at = Math.ceil((at + stored.length) / 8) * 8;
  }
  const b = new Builder(4096);
  const buffersVector = writePairs(b, places);
  const nodesVector = writePairs(b, nodes);
  b.startObject(2);
  b.addFieldInt8(0, 1, 0); // the codec ZSTD; the method BUFFER is 0
  const compression = b.endObject();
  b.startObject(5);
  b.addFieldInt64(0, BigInt(values[0].length), 0n);
  b.addFieldOffset(1, nodesVector, 0);
  b.addFieldOffset(2, buffersVector, 0);
  b.addFieldOffset(3, compression, 0);
  const metadata = finishMessage(b, HEADER.recordBatch, b.endObject(), at);
  return { bytes: new Uint8Array(Buffer.concat([metadata, ...body])), metadataBytes: metadata.length, decoded };
}

/**
 * An Arrow IPC file.
 * @param {Column[]} columns
 * @param {any[][][]} batches the values of each column of each batch
 * @returns {{bytes: Uint8Array, batches: {offset: number, bytes: number, decoded: number}[]}}
 */
export function writeArrowFile(columns, batches) {
  const b = new Builder(4096);
  const schema = finishMessage(b, HEADER.schema, writeSchema(b, columns), 0);
  /** @type {Uint8Array[]} */
  const pieces = [MAGIC, new Uint8Array(2), schema];
  let at = 8 + schema.length;
  const places = batches.map((values) => {
    const { bytes, metadataBytes, decoded } = writeBatch(columns, values);
    pieces.push(bytes);
    at += bytes.length;
    return { offset: at - bytes.length, bytes: bytes.length, decoded, metadataBytes };
  });
  const f = new Builder(4096);
  const footerSchema = writeSchema(f, columns);
  f.startVector(24, places.length, 8);
  for (const { offset, bytes, metadataBytes } of [...places].reverse()) {
    f.prep(8, 24);
    f.writeInt64(BigInt(bytes - metadataBytes));
    f.pad(4);
    f.writeInt32(metadataBytes);
    f.writeInt64(BigInt(offset));
  }
  const blocks = f.endVector();
  f.startVector(24, 0, 8);
  const dictionaries = f.endVector();
  f.startObject(5);
  f.addFieldInt16(0, METADATA_V5, 0);
  f.addFieldOffset(1, footerSchema, 0);
  f.addFieldOffset(2, dictionaries, 0);
  f.addFieldOffset(3, blocks, 0);
  f.finish(f.endObject());
  const footer = f.asUint8Array();
  const tail = new DataView(new ArrayBuffer(4));
  tail.setInt32(0, footer.length, true);
  pieces.push(Buffer.from('ffffffff00000000', 'hex'), footer, new Uint8Array(tail.buffer), MAGIC);
  return {
    bytes: new Uint8Array(Buffer.concat(pieces)),
    batches: places.map(({ offset, bytes, decoded }) => ({ offset, bytes, decoded })),
  };
}
