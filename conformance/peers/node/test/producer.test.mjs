// A producer, read back by a consumer.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Consumer } from '../src/consumer.mjs';
import { DTYPES } from '../src/dtypes.mjs';
import { cutBoxes } from '../src/encoder.mjs';
import { DEFAULT_LIMITS } from '../src/limits.mjs';
import { Producer } from '../src/producer.mjs';
import { parseRecord } from '../src/records.mjs';
import { Signer } from '../src/signatures.mjs';
import { writeSnapshot } from '../src/snapshot-writer.mjs';
import { FileStore } from '../src/store-file.mjs';
import { TensorTable } from '../src/table.mjs';
import { code, exampleStream, folder } from './helpers.mjs';
import { examples } from './spec.mjs';

/** Bytes that repeat from run to run. @param {number} length @param {number} seed */
function noise(length, seed) {
  const out = new Uint8Array(length);
  let x = seed + 1;
  for (let i = 0; i < length; i += 1) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    out[i] = x >>> 24;
  }
  return out;
}

/** @param {Uint8Array} bytes @param {number} every */
const changed = (bytes, every) => bytes.map((byte, i) => (i % every === 0 ? byte + 1 : byte));

/** @param {{name: string, bytes: Uint8Array}[]} tensors @param {Consumer} consumer */
function assertHeld(tensors, consumer) {
  const { table, tensors: held } = consumer.held;
  for (const { name, bytes } of tensors)
    assert.ok(Buffer.compare(held.get(table.ordinals.get(name)), bytes) === 0, name);
  consumer.verify();
}

const everyDtype = () =>
  [...DTYPES.values()].flatMap((dtype, i) => [
    { name: `${dtype.name}.matrix`, dtype: dtype.name, shape: [8, 12], bytes: noise((96 * dtype.bits) / 8, i) },
    { name: `${dtype.name}.empty`, dtype: dtype.name, shape: [0, 3], bytes: new Uint8Array(0) },
  ]);

for (const options of [{}, { absolute: true }, { ranked: true }]) {
  test(`every dtype goes around, ${Object.keys(options)[0] ?? 'by differences'}`, async (t) => {
    const store = new FileStore(await folder(t));
    const producer = await Producer.open(store, options);
    const consumer = new Consumer(store);
    let tensors = [...everyDtype(), { name: 'scalar', dtype: 'F32', shape: [], bytes: noise(4, 9) }];
    for (const every of [0, 1, 5, 40, Infinity]) {
      tensors = tensors.map((tensor) => ({
        ...tensor,
        bytes: every === 0 ? tensor.bytes : changed(tensor.bytes, every),
      }));
      const { version, stateDigest } = await producer.publish({ tensors, metadata: { every: String(every) } });
      assert.equal(await consumer.update(), version);
      assert.equal(consumer.held.read.record.state_digest, stateDigest);
      assertHeld(tensors, consumer);
    }
    const { delta } = consumer.held.read.record;
    assert.deepEqual([delta.changed_elements > 0, delta.parts.length], [true, 1]);
    await producer.close();
    const fresh = new Consumer(store);
    assert.equal(await fresh.update(), 4);
    assertHeld(tensors, fresh);
  });
}

test('other tensors, aliases and files', async (t) => {
  const store = new FileStore(await folder(t));
  const producer = await Producer.open(store);
  const consumer = new Consumer(store);
  const tensors = [
    { name: 'a', dtype: 'F16', shape: [4], bytes: noise(8, 1) },
    { name: 'b', dtype: 'I64', shape: [2], bytes: noise(16, 2) },
  ];
  const files = new Map([
    ['config.json', Buffer.from('{}')],
    ['vocab.txt', Buffer.from('a')],
  ]);
  await producer.publish({ tensors, files });
  assert.equal(await consumer.update(), 0);
  const first = consumer.held.read.record;
  await producer.publish({ tensors: [...tensors].reverse(), files: new Map([...files].slice(0, 1)) });
  assert.equal(await consumer.update(), 1);
  const second = consumer.held.read.record;
  assert.deepEqual([second.delta.parts, second.files, second.tensors], [[], first.files.slice(0, 1), first.tensors]);
  await producer.publish({ tensors, aliases: [{ name: 'c', target: 'a' }] });
  assert.equal(await consumer.update(), 2);
  assert.ok(consumer.held.read.record.snapshot);
  assert.equal(consumer.held.files.size, 0);
  await assert.rejects(producer.publish({ tensors: [{ ...tensors[0], bytes: noise(6, 1) }] }), code('invalid_state'));
  await assert.rejects(producer.publish({ tensors: [{ ...tensors[0], dtype: 'F17' }] }), code('invalid_state'));
  await producer.close();
  const again = await Producer.open(store);
  assert.equal(again.version, 2);
  assert.equal((await again.publish({ tensors })).version, 3);
  await again.close();
});

test('boxes cover a tensor once', () => {
  for (const [shape, most] of /** @type {[number[], number][]} */ ([
    [[], 1],
    [[7], 3],
    [[4, 5], 5],
    [[4, 5], 3],
    [[2, 3, 4], 13],
    [[3, 1, 2], 1],
  ])) {
    const seen = new Set();
    for (const { start, extent } of cutBoxes(shape, most)) {
      const count = extent.reduce((a, b) => a * b, 1);
      assert.ok(count <= most);
      let base = 0;
      shape.forEach((dim, i) => (base = base * dim + start[i]));
      for (let i = 0; i < count; i += 1) seen.add(base + i);
    }
    assert.equal(
      seen.size,
      shape.reduce((a, b) => a * b, 1),
    );
  }
});

test('a large tensor has several boxes', async (t) => {
  const store = new FileStore(await folder(t));
  const producer = await Producer.open(store, { singleWriter: true });
  const bytes = noise(6 * 1024 * 1024, 3);
  const tensors = [{ name: 'w', dtype: 'BF16', shape: [3, 1024, 1024], bytes }];
  await producer.publish({ tensors });
  tensors[0] = { ...tensors[0], bytes: changed(bytes, 4000) };
  await producer.publish({ tensors });
  const consumer = new Consumer(store);
  await consumer.update(0);
  await consumer.update();
  assertHeld(tensors, consumer);
  assert.equal(consumer.held.read.record.delta.parts[0].batches[0].rows, 2);
  await assert.rejects(readFile(join(store.root, 'leases/writer.json')));
});

test('the shard of the example is written again byte for byte', async (t) => {
  const { store } = await exampleStream(t);
  const consumer = new Consumer(store);
  await consumer.update(1);
  const { shards } = JSON.parse(examples('anchor')[0].toString()).snapshot;
  const written = await writeSnapshot(
    store,
    'data/x/',
    TensorTable.parse(examples('tensor_table')[0], DEFAULT_LIMITS),
    consumer.held.tensors,
  );
  assert.equal(written.shards[0].digest, shards[0].digest);
});

test('two producers on one version: the later is told of a conflict', async (t) => {
  const store = new FileStore(await folder(t));
  const tensors = [{ name: 'a', dtype: 'U8', shape: [4], bytes: noise(4, 1) }];
  const options = { singleWriter: true };
  const first = await Producer.open(store, options);
  await first.publish({ tensors });
  const second = await Producer.open(store, options);
  await first.publish({ tensors });
  await assert.rejects(second.publish({ tensors }), code('conflict'));
  await assert.rejects(second.publish({ tensors }), code('conflict'));
});

test('the lease: held, observed, taken over', async (t) => {
  const store = new FileStore(await folder(t));
  const tensors = [{ name: 'a', dtype: 'U8', shape: [4], bytes: noise(4, 1) }];
  const first = await Producer.open(store, { ttlMs: 1500, holder: 'first' });
  await first.publish({ tensors });
  await assert.rejects(Producer.open(store, { ttlMs: 1500 }), code('lease_held'));
  const second = await Producer.open(store, { ttlMs: 1500, takeOver: true });
  assert.equal(second.epoch, 1);
  await second.publish({ tensors });
  await assert.rejects(first.publish({ tensors }), code('fenced'));
  await first.close();
  second.lease.held = false; // as if it had died
  clearTimeout(second.lease.timer);
  await second.lease.queue;
  const third = await Producer.open(store, { ttlMs: 1500 });
  assert.equal(third.epoch, 2);
  assert.equal((await third.publish({ tensors })).version, 2);
  await third.close();
  const lease = parseRecord('lease', await readFile(join(store.root, 'leases/writer.json')), DEFAULT_LIMITS);
  assert.deepEqual([lease.released, lease.epoch], [true, 2]);
  await rm(join(store.root, 'leases'), { recursive: true });
  const fourth = await Producer.open(store);
  assert.equal(fourth.epoch, 3);
  await fourth.close();
});

test('the lease is renewed', async (t) => {
  const store = new FileStore(await folder(t));
  const producer = await Producer.open(store, { ttlMs: 1500 });
  const before = await readFile(join(store.root, 'leases/writer.json'), 'utf8');
  const until = performance.now() + 20000;
  let after = before;
  while (after === before && performance.now() < until) {
    await sleep(50);
    after = await readFile(join(store.root, 'leases/writer.json'), 'utf8');
  }
  assert.notEqual(JSON.parse(before).commit_id, JSON.parse(after).commit_id);
  assert.equal(JSON.parse(before).acquired_at, JSON.parse(after).acquired_at);
  await producer.close();
});

test('a signed stream', async (t) => {
  const store = new FileStore(await folder(t));
  const pem = () => generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const signer = new Signer(/** @type {string} */ (pem()));
  const other = new Signer(/** @type {string} */ (pem()));
  const tensors = [{ name: 'a', dtype: 'U8', shape: [4], bytes: noise(4, 1) }];
  const producer = await Producer.open(store, { signer });
  await producer.publish({ tensors });
  await producer.publish({ tensors });
  await producer.close();
  for (const publicKeys of [null, [signer.publicKey]])
    assert.equal(await new Consumer(store, { publicKeys }).update(), 1);
  await assert.rejects(new Consumer(store, { publicKeys: [other.publicKey] }).update(), code('bad_signature'));
  await assert.rejects(Producer.open(store), code('invalid_argument'));
  await assert.rejects(Producer.open(store, { signer: other }), code('invalid_argument'));
  const plain = new FileStore(await folder(t));
  await (await Producer.open(plain)).close();
  await assert.rejects(Producer.open(plain, { signer }), code('invalid_argument'));
  await assert.rejects(new Consumer(plain, { publicKeys: [signer.publicKey] }).update(), code('bad_signature'));
});
