// Ways to a version: anchors, spans, rebases, retention, and what is got round (section 11.5).
import assert from 'node:assert/strict';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { envelope } from '../src/envelope.mjs';
import { jsonBytes } from '../src/json.mjs';
import { anchorKey, spanKey, versionKey } from '../src/keys.mjs';
import { DEFAULT_LIMITS } from '../src/limits.mjs';
import { addAnchor, addSpan, build } from '../src/maintainer.mjs';
import { Planner } from '../src/plan.mjs';
import { Producer } from '../src/producer.mjs';
import { StreamReader } from '../src/reader.mjs';
import { FileStore } from '../src/store-file.mjs';
import { code, folder, put } from './helpers.mjs';

/**
 * A stream of `count` versions of one tensor, in each of which another sixteenth of it changes.
 * @param {import('node:test').TestContext} t
 * @param {number} count
 */
async function line(t, count) {
  const root = await folder(t);
  const store = new FileStore(root);
  const producer = await Producer.open(store);
  const bytes = new Uint8Array(8192);
  for (let n = 0; n < count; n += 1) {
    for (let i = n % 16; i < bytes.length; i += 16) bytes[i] = (i * (n + 3)) >>> 3;
    await producer.publish({ tensors: [{ name: 'w', dtype: 'BF16', shape: [64, 64], bytes: Uint8Array.from(bytes) }] });
  }
  await producer.close();
  return { root, store, reader: await StreamReader.open(store, DEFAULT_LIMITS), bytes };
}

/**
 * The names of the steps of the way that a consumer would take.
 * @param {Consumer} consumer
 * @param {StreamReader} reader
 * @param {number} target
 */
async function kinds(consumer, reader, target) {
  const way = await new Planner(reader, target, consumer.use).search(consumer.version, await reader.retention());
  return way?.map(({ kind, version }) => `${kind} ${version}`);
}

/** @param {Awaited<ReturnType<typeof line>>} stream @param {number} boundary @param {number[]} kept */
async function retain({ root, reader }, boundary, kept) {
  const record = { ...envelope('retention', reader.stream, reader.stream.commit_id, 0), boundary, kept };
  await put(root, 'retention.json', jsonBytes(record));
}

test('anchors and spans shorten the way', async (t) => {
  const stream = await line(t, 10);
  const { store, reader, bytes } = stream;
  const old = new Consumer(store);
  await old.update(0);
  assert.deepEqual(await build(reader), {
    anchors: [9],
    spans: [
      [0, 2],
      [2, 4],
      [4, 6],
      [6, 8],
      [0, 4],
      [4, 8],
      [0, 8],
    ],
  });
  assert.deepEqual(await kinds(new Consumer(store), reader, 9), ['anchor 9']);
  assert.deepEqual(await kinds(new Consumer(store), reader, 8), ['rebase 0', 'span 8']);
  for (const options of [{}, { anchors: false }, { anchors: false, spans: false }, { spans: false }]) {
    const consumer = new Consumer(store, options);
    await consumer.update();
    assert.deepEqual(consumer.held.tensors.get(0), bytes);
  }
  assert.deepEqual(await kinds(Object.assign(old, { use: { anchors: false, spans: true } }), reader, 9), [
    'span 8',
    'delta 9',
  ]);
  await old.update();
  assert.deepEqual(old.held.tensors.get(0), bytes);
});

test('bad anchors, spans and steps are got round', async (t) => {
  const stream = await line(t, 10);
  const { root, store, reader, bytes } = stream;
  await addAnchor(reader, 5);
  await addAnchor(reader, 8);
  await addSpan(reader, 0, 8);
  const reads = async (/** @type {string[]} */ ...notes) => {
    /** @type {string[]} */
    const told = [];
    const consumer = new Consumer(store, { note: (note) => told.push(note.split(' is no good')[0]) });
    await consumer.update();
    assert.deepEqual(consumer.held.tensors.get(0), bytes);
    assert.deepEqual(told, notes);
  };
  await reads();
  const anchor = await readFile(join(root, anchorKey(8)));
  await put(root, anchorKey(8), anchor.subarray(1));
  await reads();
  await put(
    root,
    anchorKey(8),
    Buffer.from(anchor.toString().replace(/"version_digest":"sha256:./, '"version_digest":"sha256:z')),
  );
  await reads();
  await put(root, anchorKey(8), anchor);
  await rm(join(root, JSON.parse(anchor.toString()).snapshot.shards[0].key));
  await reads('anchor 8');
  await rm(join(root, versionKey(7)));
  await reads('anchor 8'); // over the span from 0
  const span = JSON.parse(await readFile(join(root, spanKey(0, 8)), 'utf8'));
  await rm(join(root, span.delta.parts[0].key));
  await assert.rejects(reads(), code('missing_object'));
});

test('a rebase is a way of its own', async (t) => {
  const root = await folder(t);
  const store = new FileStore(root);
  const producer = await Producer.open(store);
  const tensor = { name: 'a', dtype: 'U8', shape: [8], bytes: new Uint8Array(8) };
  await producer.publish({ tensors: [tensor] });
  const consumer = new Consumer(store);
  await consumer.update();
  await producer.publish({ tensors: [{ ...tensor, bytes: new Uint8Array(8).fill(1) }] });
  await producer.publish({ tensors: [tensor, { ...tensor, name: 'b' }] });
  await producer.publish({ tensors: [tensor, { ...tensor, name: 'b', bytes: new Uint8Array(8).fill(2) }] });
  await producer.close();
  await rm(join(root, versionKey(1)));
  assert.equal(await consumer.update(3), 3);
  assert.equal(consumer.held.tensors.size, 2);
});

test('retention rules steps out', async (t) => {
  const stream = await line(t, 8);
  const { store, reader, bytes } = stream;
  const behind = new Consumer(store);
  await behind.update(1);
  await addAnchor(reader, 5);
  await retain(stream, 5, [0]);
  assert.deepEqual(await kinds(behind, reader, 7), ['anchor 5', 'delta 6', 'delta 7']);
  assert.equal(await behind.update(), 7);
  assert.deepEqual(behind.held.tensors.get(0), bytes);
  await assert.rejects(new Consumer(store).update(3), code('version_not_found'));
  assert.equal(await new Consumer(store).update(0), 0);
});

test('versions that follow a collected one are found', async (t) => {
  const stream = await line(t, 8);
  const { root, store, reader } = stream;
  const behind = new Consumer(store);
  await behind.update(1);
  await addAnchor(reader, 5);
  await retain(stream, 5, []);
  for (const n of [0, 2, 3, 4]) await rm(join(root, versionKey(n)));
  assert.equal(await behind.update(), 7);
  await rm(join(root, 'head.json'));
  assert.equal(await new Consumer(store).update(), 7);
  await rm(join(root, anchorKey(5)));
  await assert.rejects(new Consumer(store).update(), code('path_lost'));
  assert.ok((await readdir(join(root, 'versions'))).length === 4);
});
