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
const EINTR = 4;
const EWOULDBLOCK = 11;
/** How often a folder is made again that vanishes before anything is in it. */
const FOLDER_ATTEMPTS = 100;
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

/** Codes of paths that cannot hold an object: below a file, or a folder (STO-15). */
const NO_OBJECT = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ENXIO'];

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
      if (!(await this.mayHold(key))) fail('invalid_key', `${key} continues another key, or is continued (STO-16)`);
      return await work(join(this.root, key));
    } catch (error) {
      return mapError(error, key);
    }
  }

  /**
   * Refuses what lies behind a link (STO-15), and segments that are too long (STO-16).
   * @param {string} key
   * @returns {Promise<boolean>} false if no object can be there: it is a folder, below a file or no regular file
   */
  async mayHold(key) {
    const segments = key.split('/');
    if (segments.some((segment) => segment.length > 255)) fail('invalid_key', `${key}: a segment is too long (STO-16)`);
    let path = this.root;
    for (const [i, segment] of segments.entries()) {
      path = join(path, segment);
      let stat;
      try {
        stat = await fs.lstat(path);
      } catch (error) {
        if (/** @type {any} */ (error).code === 'ENOENT') return true;
        throw error;
      }
      if (stat.isSymbolicLink()) fail('invalid_key', `${key} lies behind a symbolic link (STO-15)`);
      const last = i === segments.length - 1;
      if (last ? !stat.isFile() : !stat.isDirectory()) return false;
    }
    return true;
  }

  /**
   * Reads; where no object can be, none is found (STO-15).
   * @template T
   * @param {string} key
   * @param {(file: fs.FileHandle, size: number) => Promise<T>} work
   */
  async open(key, work) {
    requireKey(key);
    try {
      if (!(await this.mayHold(key))) fail('object_not_found', `${key}: no regular file`);
      const file = await fs.open(
        join(this.root, key),
        constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
      );
      try {
        const stat = await file.stat();
        if (!stat.isFile()) fail('object_not_found', `${key}: no regular file`);
        return await work(file, stat.size);
      } finally {
        await file.close();
      }
    } catch (error) {
      if (NO_OBJECT.includes(/** @type {any} */ (error)?.code)) fail('object_not_found', key);
      return mapError(error, key);
    }
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
    /** @param {string} at */
    const walk = async (at) => {
      let entries;
      try {
        entries = await fs.readdir(join(this.root, at), { withFileTypes: true });
      } catch (error) {
        if (NO_OBJECT.includes(/** @type {any} */ (error).code)) return;
        mapError(error, at);
      }
      for (const entry of entries) {
        const key = at + entry.name;
        if (entry.name.startsWith('.') || entry.isSymbolicLink()) continue;
        if (entry.isDirectory()) {
          if (`${key}/`.startsWith(prefix) || prefix.startsWith(`${key}/`)) await walk(`${key}/`);
        } else if (entry.isFile() && key.startsWith(prefix)) {
          const stat = await fs.lstat(join(this.root, key)).catch(() => null);
          if (stat?.isFile()) out.push({ key, size: stat.size });
        }
      }
    };
    await walk(''); // from the root down, so that no link is passed (STO-15)
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
  async delete(key) {
    requireKey(key);
    const path = join(this.root, key);
    const folder = join(path, '..');
    try {
      if (!(await this.mayHold(key))) return; // STO-6: nothing is there
      await withLock(folder, () => fs.rm(path, { force: true }));
      await syncFolder(folder);
    } catch (error) {
      if (!NO_OBJECT.includes(/** @type {any} */ (error)?.code)) mapError(error, key);
    }
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
      const temporary = join(folder, `.${randomUUID()}.tmp`);
      try {
        const file = await createIn(folder, temporary);
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
 * Creates a file and the folder it is in, which others may remove as long as nothing is in it (section 5.3).
 * @param {string} folder
 * @param {string} path
 */
async function createIn(folder, path) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await makeFolder(folder);
      return await fs.open(path, 'wx');
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'ENOENT' || attempt === FOLDER_ATTEMPTS) throw error;
    }
  }
}

/**
 * Opens the lock of a folder. It is created empty if it is missing, for all who may write in the folder.
 * @param {string} folder
 */
async function openLock(folder) {
  const path = join(folder, '.lock');
  for (;;) {
    try {
      return await fs.open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'ENOENT') throw error;
    }
    const temporary = join(folder, `.${randomUUID()}.tmp`);
    try {
      const file = await fs.open(temporary, 'wx');
      try {
        await file.chmod((await fs.stat(folder)).mode & 0o666);
      } finally {
        await file.close();
      }
      await fs.link(temporary, path);
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'EEXIST') throw error;
    } finally {
      await fs.rm(temporary, { force: true });
    }
  }
}

/** Whether a path still is the file that is open. @param {string} path @param {fs.FileHandle} file */
async function isStill(path, file) {
  const [open, named] = await Promise.all([
    file.stat({ bigint: true }),
    fs.lstat(path, { bigint: true }).catch(() => null),
  ]);
  return named !== null && named.ino === open.ino && named.dev === open.dev;
}

/**
 * STO-14: the lock of a folder, which dies with its holder.
 * @template T
 * @param {string} folder
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function withLock(folder, work) {
  flock ??= koffi.load(null).func('int flock(int, int)');
  const until = performance.now() + LOCK_WAIT_MS;
  for (;;) {
    const file = await openLock(folder);
    try {
      for (let pause = 1; flock(file.fd, LOCK_EX_NB) !== 0; pause = Math.min(2 * pause, 50)) {
        if (![EINTR, EWOULDBLOCK].includes(koffi.errno())) fail('store_unfit', 'no file locks here');
        if (performance.now() > until) fail('store_unavailable', `the lock of ${folder} is not free`);
        await sleep(pause);
      }
      if (await isStill(join(folder, '.lock'), file)) return await work();
    } finally {
      await file.close();
    }
  }
}
