// Rollbacks and forks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { Producer } from '../src/producer.mjs';
import { fork, rollback } from '../src/revisit.mjs';
import { FileStore } from '../src/store-file.mjs';
import { code, folder } from './helpers.mjs';

test('a rollback and a fork', async (t) => {
  const store = new FileStore(await folder(t));
  const producer = await Producer.open(store);
  const tensor = { name: 'a', dtype: 'U8', shape: [8], bytes: new Uint8Array(8) };
  const digests = [];
  for (const n of [0, 1, 2]) {
    const files = new Map([['n.txt', Buffer.from(String(n))]]);
    digests.push(
      (await producer.publish({ tensors: [{ ...tensor, bytes: new Uint8Array(8).fill(n) }], files })).stateDigest,
    );
  }
  await producer.close();
  assert.deepEqual(await rollback(store, 1, {}), { version: 3, stateDigest: digests[1] });
  await assert.rejects(rollback(store, 7, {}), code('version_not_found'));
  const consumer = new Consumer(store);
  await consumer.update();
  assert.deepEqual(
    [consumer.held.read.record.rollback_of.version, consumer.held.files.get('n.txt').bytes[0]],
    [1, 0x31],
  );
  const other = new FileStore(await folder(t));
  assert.deepEqual(await fork(store, 2, other, {}), { stateDigest: digests[2] });
  await assert.rejects(fork(store, 2, other, {}), code('invalid_argument'));
  const reader = new Consumer(other);
  assert.equal(await reader.update(), 0);
  assert.equal(reader.held.files.get('n.txt').bytes[0], 0x32);
  const next = await Producer.open(other);
  assert.equal((await next.publish({ tensors: [tensor] })).version, 1);
  await next.close();
});
