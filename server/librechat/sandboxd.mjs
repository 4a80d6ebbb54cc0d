// Starts the server under test, whose program SANDBOXD names, on a root of its own.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const serviceKey = 'the-service-key';

export async function start() {
  const root = await mkdtemp(join(tmpdir(), 'sandboxd-node-'));
  const child = spawn(process.env.SANDBOXD, ['--listen', '127.0.0.1:0', '--root', root], {
    env: { ...process.env, CODE_EXEC_API_KEY: serviceKey, SANDBOXD_KEY: 'sk-a-key-for-automation' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let url;
  for await (const line of createInterface({ input: child.stdout })) {
    url = line.match(/^listening on (.*)$/)?.[1];
    if (url) break;
  }
  if (!url) throw new Error('sandboxd did not start');
  const stop = async () => {
    const held = await (await fetch(url + '/v1/sandbox', { headers: { Authorization: 'Bearer sk-a-key-for-automation' } })).json();
    for (const { id } of held.sandboxes) {
      await fetch(`${url}/v1/sandbox/${id}`, { method: 'DELETE', headers: { Authorization: 'Bearer sk-a-key-for-automation' } });
    }
    child.kill('SIGTERM');
    await ended;
    await rm(root, { recursive: true, force: true });
  };
  return { url, stop };
}
