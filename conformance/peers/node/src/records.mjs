// Shapes and invariants of records (section 8), checked in the order of REC-2.
import { fail } from './errors.mjs';
import { jsonBytes, parseJson } from './json.mjs';
import { checkExpansion, checkLimit } from './limits.mjs';
import { isSmallOrderKey } from './signing-keys.mjs';
import * as t from './types.mjs';
import { parseHex, u64Add, u64Sub } from './u64.mjs';

/** @typedef {import('./limits.mjs').Limits} Limits */

export const PROTOCOL = 'deltawire';
export const PROTOCOL_VERSION = '0.1';
export const PART_TYPE = 'application/vnd.apache.arrow.file';
/** Names in `reader_features` (section 16.3). */
const KNOWN_READER_FEATURES = ['ranked'];
export const SHARD_TYPE = 'application/vnd.safetensors';

const producer = t.object({ name: t.name, version: t.name });
const signature = t.object({ key: t.publicKey, value: t.hex512 });
const ENVELOPE = {
  protocol: t.string,
  protocol_version: t.versionString,
  kind: t.string,
  stream_id: t.uuid,
  commit_id: t.uuid,
  epoch: t.uint,
  created_at: t.timestamp,
  producer,
  reader_features: t.arrayOf(t.feature),
  writer_features: t.arrayOf(t.feature),
  metadata: t.anyObject,
};
const DESCRIPTOR = { key: t.key, media_type: t.name, bytes: t.uint, digest: t.sha256 };
const descriptor = t.object(DESCRIPTOR);
const file = t.object({ ...DESCRIPTOR, name: t.fileName });
const link = t.object({ version: t.uint, digest: t.sha256 });
const batch = t.object({
  offset: t.uint,
  bytes: t.uint,
  digest: t.sha256,
  decoded_bytes: t.uint,
  rows: t.uint,
  first_tensor: t.uint,
  last_tensor: t.uint,
});
const part = t.object({
  ...DESCRIPTOR,
  media_type: t.oneOf(PART_TYPE),
  streams: t.arrayOf(t.name),
  batches: t.arrayOf(batch),
});
const delta = t.object({
  changed_elements: t.uint,
  changed_tensors: t.uint,
  digest_before: t.hex64,
  digest_after: t.hex64,
  parts: t.arrayOf(part),
});
const shard = t.object({
  ...DESCRIPTOR,
  media_type: t.oneOf(SHARD_TYPE),
  header_bytes: t.uint,
  header_digest: t.sha256,
  first_tensor: t.uint,
  last_tensor: t.uint,
});
const snapshot = t.object({ shards: t.arrayOf(shard), index: descriptor }, { files: t.arrayOf(file) });
const origin = t.object(
  { stream_id: t.uuid, version: t.uint, digest: t.sha256, state_digest: t.hex64 },
  { url: t.plainUrl },
);

/** @type {Record<string, [Record<string, t.Check>, Record<string, t.Check>?]>} */
const MEMBERS = {
  stream: [{ writers: t.oneOf('many', 'single') }, { origin, signing_keys: t.arrayOf(t.publicKey) }],
  version: [
    { version: t.uint, tensors: descriptor, state_digest: t.hex64 },
    { parent: link, delta, snapshot, files: t.arrayOf(file), rollback_of: link },
  ],
  anchor: [{ version: t.uint, version_digest: t.sha256, tensors: descriptor, state_digest: t.hex64, snapshot }],
  head: [{ version: t.uint }, { anchor: t.uint }],
  lease: [{ holder: t.name, acquired_at: t.timestamp, ttl_ms: t.uintIn(1, 86400000), released: t.boolean }],
  retention: [{ boundary: t.uint }, { kept: t.arrayOf(t.uint) }],
  span: [
    {
      base: t.uint,
      base_digest: t.sha256,
      version: t.uint,
      version_digest: t.sha256,
      tensors: descriptor,
      state_digest: t.hex64,
      delta,
      replaces_bytes: t.uint,
    },
  ],
};
const SHAPES = Object.fromEntries(
  Object.entries(MEMBERS).map(([kind, [required, optional]]) => [
    kind,
    t.object({ ...ENVELOPE, ...required }, { signature, ...optional }),
  ]),
);

/** @param {boolean} holds @param {string} what */
function require(holds, what) {
  if (!holds) fail('malformed_record', what);
}

/** FIL-2 and the number of files. @param {any[]} files @param {Limits} limits */
function checkFiles(files, limits) {
  checkLimit(limits, 'files', files.length, 'auxiliary files');
  for (const one of files) checkLimit(limits, 'file_bytes', one.bytes, one.key);
  require(new Set(files.map((f) => f.name)).size === files.length, 'an auxiliary file is listed twice (FIL-2)');
}

/** PRT-2, PRT-4, DLT-4 and the counts. @param {any} d @param {Limits} limits */
function checkDelta(d, limits) {
  checkLimit(limits, 'parts', d.parts.length, 'parts');
  let batches = 0;
  for (const p of d.parts) {
    batches += p.batches.length;
    require(new Set(p.streams).size === p.streams.length, 'a stream is named twice (PRT-2)');
    let end = 0;
    for (const b of p.batches) {
      require(b.offset >= end && b.offset + b.bytes <= p.bytes, 'batches overlap or leave the part (PRT-4)');
      require(b.first_tensor <= b.last_tensor, 'first_tensor is above last_tensor (PRT-4)');
      checkLimit(limits, 'batch_bytes', b.bytes, 'a batch');
      checkLimit(limits, 'rows', b.rows, 'rows of a batch');
      checkExpansion(limits, b.decoded_bytes, b.bytes);
      end = b.offset + b.bytes;
    }
  }
  checkLimit(limits, 'batches', batches, 'batches');
  if (d.parts.length === 0) {
    require(d.changed_elements === 0 && d.digest_before === d.digest_after, 'a delta without parts (DLT-4)');
  }
}

/** SNP-3. @param {any} s @param {Limits} limits */
function checkSnapshot(s, limits) {
  checkLimit(limits, 'parts', s.shards.length, 'shards');
  require(s.shards.length > 0, 'a snapshot without shards (SNP-3)');
  let next = 0;
  for (const one of s.shards) {
    require(one.first_tensor === next && one.last_tensor >= next, 'shards do not follow each other (SNP-3)');
    require(one.header_bytes >= 8 && one.header_bytes <= one.bytes, 'header_bytes (SNP-3)');
    checkLimit(limits, 'shard_header_bytes', one.header_bytes, 'the header of a shard');
    next = one.last_tensor + 1;
  }
  checkFiles(s.files ?? [], limits);
}

/** Sum of the bytes of the parts of a delta. @param {any} d */
export const partsBytes = (d) => d.parts.reduce((/** @type {number} */ sum, /** @type {any} */ p) => sum + p.bytes, 0);
/** Sum of the bytes of the shards of a snapshot. @param {any} s */
export const shardsBytes = (s) =>
  s.shards.reduce((/** @type {number} */ sum, /** @type {any} */ p) => sum + p.bytes, 0);

/** The digest that follows from one before and a delta (CHN-4, PUB-6). @param {string} before @param {any} d */
export function digestAfter(before, d) {
  return u64Sub(u64Add(parseHex(before), parseHex(d.digest_after)), parseHex(d.digest_before));
}

/** @type {Record<string, (record: any, limits: Limits) => void>} */
const INVARIANTS = {
  stream(record, limits) {
    const keys = record.signing_keys ?? [];
    checkLimit(limits, 'signing_keys', keys.length, 'signing keys');
    require(new Set(keys).size === keys.length, 'a key is named twice (SIG-1)');
    require(record.writer_features.includes('signed') ===
      keys.length > 0, 'signing_keys without `signed`, or the reverse (SIG-1)');
    require(!keys.some(isSmallOrderKey), 'a public key of small order (SIG-12)');
  },
  version(record, limits) {
    const n = record.version;
    require('parent' in record === n > 0, 'parent (VSN-3)');
    require(n === 0 || record.parent.version === n - 1, 'parent.version (VSN-3)');
    require('delta' in record !== 'snapshot' in record, 'delta and snapshot (VSN-4)');
    require(n > 0 || 'snapshot' in record, 'version 0 without a snapshot (VSN-4)');
    if ('delta' in record) checkDelta(record.delta, limits);
    else checkSnapshot(record.snapshot, limits);
    checkFiles(record.files ?? [], limits);
    require(!('rollback_of' in record) || record.rollback_of.version < n, 'rollback_of.version (RBK-1)');
  },
  anchor: (record, limits) => checkSnapshot(record.snapshot, limits),
  head() {},
  lease() {},
  retention(record, limits) {
    const kept = record.kept ?? [];
    checkLimit(limits, 'kept', kept.length, 'kept versions');
    require(kept.every(
      (/** @type {number} */ v, /** @type {number} */ i) => v < record.boundary && (i === 0 || kept[i - 1] < v),
    ), 'kept (RET-1)');
  },
  span(record, limits) {
    require(record.base < record.version, 'base (SPN-1)');
    checkDelta(record.delta, limits);
    require(partsBytes(record.delta) <= record.replaces_bytes, 'a span larger than what it replaces (SPN-3)');
  },
};

/** Protocol name and major version (VER-1). @param {any} record */
export function checkProtocol(record) {
  t.string(record.protocol, 'protocol');
  if (record.protocol !== PROTOCOL) fail('unsupported_protocol', 'another protocol');
  t.versionString(record.protocol_version, 'protocol_version');
  if (Number(record.protocol_version.split('.')[0]) !== 0) fail('unsupported_protocol', 'another major version');
}

/**
 * Reads a record, in the order of REC-2. Which stream it is of, and whether it is signed, the caller checks.
 * @param {string} kind
 * @param {Uint8Array} bytes
 * @param {Limits} limits
 * @returns {any}
 */
export function parseRecord(kind, bytes, limits) {
  checkLimit(limits, 'record_bytes', bytes.length, 'a record');
  const record = parseJson(bytes, limits.json_depth);
  checkProtocol(record);
  const { reader_features: features } = record;
  if (Array.isArray(features) && features.every((f) => typeof f === 'string')) {
    const unknown = features.find((f) => !KNOWN_READER_FEATURES.includes(f));
    if (unknown !== undefined) fail('unsupported_feature', `reader feature ${JSON.stringify(unknown)} (VER-2)`);
  }
  SHAPES[kind](record, kind);
  require(record.kind === kind, `kind is not ${kind}`);
  checkLimit(limits, 'features', record.reader_features.length, 'reader features');
  checkLimit(limits, 'features', record.writer_features.length, 'writer features');
  require(record.reader_features.every(
    (/** @type {string} */ f) => record.writer_features.includes(f),
  ), 'a reader feature that is no writer feature (VER-3)');
  require(!KNOWN_READER_FEATURES.some(
    (f) => record.writer_features.includes(f) && !record.reader_features.includes(f),
  ), 'a reader feature that is a writer feature only (VER-3)');
  checkLimit(limits, 'metadata_bytes', jsonBytes(record.metadata).length, 'metadata');
  if ('tensors' in MEMBERS[kind][0]) checkLimit(limits, 'table_bytes', record.tensors.bytes, record.tensors.key);
  INVARIANTS[kind](record, limits);
  return record;
}
