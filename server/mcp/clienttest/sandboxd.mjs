// Starts the server under test, whose program SANDBOXD names.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const program = process.env.SANDBOXD;
export const key = 'sk-a-key-for-automation';

// folder makes one that is gone after a test.
export async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), 'sandboxd-mcp-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

// start starts the server, on a folder of its own. After the test it ends, with all that was leased.
export async function start(t) {
  const root = await mkdtemp(join(tmpdir(), 'sandboxd-mcp-'));
  let server = await serve(root, '127.0.0.1:0');
  const { url, host } = server;
  t.after(async () => {
    const headers = { Authorization: `Bearer ${key}` };
    const { sandboxes } = await (await fetch(`http://${host}/v1/sandbox`, { headers })).json();
    for (const { id } of sandboxes) await fetch(`http://${host}/v1/sandbox/${id}`, { method: 'DELETE', headers });
    await server.stop();
    await rm(root, { recursive: true, force: true });
  });
  return { url, again: async () => { await server.stop(); server = await serve(root, host); } };
}

async function serve(root, listen) {
  const child = spawn(program, ['--listen', listen, '--root', root], {
    env: { ...process.env, SANDBOXD_KEY: key }, stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let url;
  for await (const line of createInterface({ input: child.stdout })) {
    url = line.match(/^listening on (.*)$/)?.[1];
    if (url) break;
  }
  if (!url) throw new Error('sandboxd did not start');
  return { url: url + '/v1/mcp', host: new URL(url).host, stop: async () => { child.kill('SIGTERM'); await ended; } };
}
