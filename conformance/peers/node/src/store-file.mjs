// The binding for local disk (section 5.3).
import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import * as fs from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import koffi from 'koffi';
import { fail } from './errors.mjs';
import { requireKey } from './keys.mjs';

const LOCK_EX_NB = 2 | 4;
const LOCK_WAIT_MS = 30000;
/** @type {((fd: number, operation: number) => number) | undefined} */
let flock;

/** @param {any} error @param {string} key @returns {never} */
function mapError(error, key) {
  if (error?.code === 'ENOENT') fail('object_not_found', key);
  if (
    error?.code === 'ENOTDIR' ||
    error?.code === 'ELOOP' ||
    error?.code === 'EISDIR' ||
    error?.code === 'ENAMETOOLONG'
  ) {
    fail('invalid_key', `${key}: ${error.code}`);
  }
  if (error?.code === 'EACCES' || error?.code === 'EPERM' || error?.code === 'EROFS')
    fail('store_denied', `${key}: ${error.code}`, error);
  if (typeof error?.syscall === 'string') fail('store_unavailable', `${key}: ${error.code}`, error);
  throw error;
}

/** A store in a folder. */
export class FileStore {
  /** STO-3 and STO-4 hold here. */
  lacks = { create: false, replace: false };

  /** @param {string} root */
  constructor(root) {
    this.root = root;
  }

  /**
   * Runs `work` on the path of a key. Failures of the file system become codes.
   * @template T
   * @param {string} key
   * @param {(path: string) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async at(key, work) {
    requireKey(key);
    try {
      await this.refuseLinks(key);
      return await work(join(this.root, key));
    } catch (error) {
      return mapError(error, key);
    }
  }

  /** STO-15 and STO-16. @param {string} key */
  async refuseLinks(key) {
    const segments = key.split('/');
    if (segments.some((segment) => segment.length > 255)) fail('invalid_key', `${key}: a segment is too long (STO-16)`);
    let path = this.root;
    for (const [i, segment] of segments.entries()) {
      path = join(path, segment);
      let stat;
      try {
        stat = await fs.lstat(path);
      } catch (error) {
        if (/** @type {any} */ (error).code === 'ENOENT') return;
        throw error;
      }
      if (stat.isSymbolicLink()) fail('invalid_key', `${key} lies behind a symbolic link (STO-15)`);
      const last = i === segments.length - 1;
      if (last ? !stat.isFile() : !stat.isDirectory())
        fail('invalid_key', `${key} continues another key, or is continued (STO-16)`);
    }
  }

  /**
   * @template T
   * @param {string} key
   * @param {(file: fs.FileHandle, size: number) => Promise<T>} work
   */
  open(key, work) {
    return this.at(key, async (path) => {
      const file = await fs.open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
      try {
        return await work(file, (await file.stat()).size);
      } finally {
        await file.close();
      }
    });
  }

  /** @param {string} key @param {number} maxBytes */
  get(key, maxBytes) {
    return this.open(key, async (file, size) => {
      if (size > maxBytes) fail('limit_exceeded', `${key} has ${size} bytes, above ${maxBytes}`);
      const bytes = await readExactly(file, 0, size, key);
      return { bytes, token: sha256(bytes) };
    });
  }

  /** @param {string} key @param {number} start @param {number} length */
  getRange(key, start, length) {
    return this.open(key, async (file, size) => {
      if (start + length > size) fail('size_mismatch', `${key} ends at ${size}, before ${start + length}`);
      return readExactly(file, start, length, key);
    });
  }

  /** @param {string} key */
  head(key) {
    return this.open(key, async (_file, size) => size);
  }

  /** @param {string} prefix @returns {Promise<{key: string, size: number}[]>} */
  async list(prefix) {
    /** @type {{key: string, size: number}[]} */
    const out = [];
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    /** @param {string} at */
    const walk = async (at) => {
      let entries;
      try {
        entries = await fs.readdir(join(this.root, at), { withFileTypes: true });
      } catch (error) {
        if (/** @type {any} */ (error).code === 'ENOENT') return;
        mapError(error, at);
      }
      for (const entry of entries) {
        const key = at + entry.name;
        if (entry.name.startsWith('.') || entry.isSymbolicLink()) continue;
        if (entry.isDirectory()) {
          if (`${key}/`.startsWith(prefix) || prefix.startsWith(`${key}/`)) await walk(`${key}/`);
        } else if (entry.isFile() && key.startsWith(prefix)) {
          const stat = await fs.stat(join(this.root, key)).catch(() => null);
          if (stat) out.push({ key, size: stat.size });
        }
      }
    };
    await walk(folder);
    return out.sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** @param {string} key @param {Uint8Array} bytes */
  putCreate(key, bytes) {
    return this.write(key, [bytes], async (temporary, path) => {
      try {
        await fs.link(temporary, path);
      } catch (error) {
        const { code } = /** @type {any} */ (error);
        if (code === 'EEXIST') fail('object_exists', key);
        if (code === 'EPERM' || code === 'ENOTSUP' || code === 'ENOSYS')
          fail('store_unfit', 'no hard links here', error);
        throw error;
      }
      return sha256(bytes);
    });
  }

  /** @param {string} key @param {Uint8Array} bytes */
  putOverwrite(key, bytes) {
    return this.write(key, [bytes], (temporary, path, folder) =>
      withLock(folder, async () => {
        await fs.rename(temporary, path);
        return sha256(bytes);
      }),
    );
  }

  /** @param {string} key @param {Uint8Array} bytes @param {string} token */
  putReplace(key, bytes, token) {
    return this.write(key, [bytes], (temporary, path, folder) =>
      withLock(folder, async () => {
        const held = await fs.readFile(path).catch(() => null);
        if (held === null || sha256(held) !== token) fail('precondition_failed', key);
        await fs.rename(temporary, path);
        return sha256(bytes);
      }),
    );
  }

  /** @param {string} key @param {AsyncIterable<Uint8Array> | Iterable<Uint8Array>} chunks */
  async putStream(key, chunks) {
    await this.write(key, chunks, (temporary, path, folder) => withLock(folder, () => fs.rename(temporary, path)));
  }

  /** @param {string} key */
  delete(key) {
    return this.at(key, async (path) => {
      const folder = join(path, '..');
      try {
        await withLock(folder, () => fs.rm(path, { force: true }));
        await syncFolder(folder);
      } catch (error) {
        if (/** @type {any} */ (error).code !== 'ENOENT') throw error;
      }
    });
  }

  /**
   * STO-13: a temporary file beside the place, flushed, then named by one system call.
   * @template T
   * @param {string} key
   * @param {AsyncIterable<Uint8Array> | Iterable<Uint8Array>} chunks
   * @param {(temporary: string, path: string, folder: string) => Promise<T>} name
   */
  write(key, chunks, name) {
    return this.at(key, async (path) => {
      const folder = join(path, '..');
      await makeFolder(folder);
      const temporary = join(folder, `.${randomUUID()}.tmp`);
      try {
        const file = await fs.open(temporary, 'wx');
        try {
          for await (const chunk of chunks) await file.writeFile(chunk);
          await file.sync();
        } finally {
          await file.close();
        }
        const result = await name(temporary, path, folder);
        await fs.rm(temporary, { force: true });
        await syncFolder(folder);
        return result;
      } finally {
        await fs.rm(temporary, { force: true });
      }
    });
  }
}

/** @param {Uint8Array} bytes */
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** @param {fs.FileHandle} file @param {number} start @param {number} length @param {string} key */
async function readExactly(file, start, length, key) {
  const bytes = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, start + done);
    if (bytesRead === 0) fail('size_mismatch', `${key} became shorter while it was read`);
    done += bytesRead;
  }
  return bytes;
}

/** @param {string} folder */
async function syncFolder(folder) {
  const handle = await fs.open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes a folder and those above it, each flushed. @param {string} folder */
async function makeFolder(folder) {
  const first = await fs.mkdir(folder, { recursive: true });
  if (first === undefined) return;
  for (let at = folder; at.length >= first.length; at = join(at, '..')) await syncFolder(join(at, '..'));
}

/**
 * STO-14: a lock on the folder itself, which dies with its holder.
 * @template T
 * @param {string} folder
 * @param {() => Promise<T>} work
 */
async function withLock(folder, work) {
  flock ??= koffi.load(null).func('int flock(int, int)');
  const handle = await fs.open(folder, constants.O_RDONLY);
  try {
    const until = performance.now() + LOCK_WAIT_MS;
    for (let pause = 1; flock(handle.fd, LOCK_EX_NB) !== 0; pause = Math.min(2 * pause, 50)) {
      if (performance.now() > until) fail('store_unavailable', `the lock of ${folder} is not free`);
      await sleep(pause);
    }
    return await work();
  } finally {
    await handle.close();
  }
}
