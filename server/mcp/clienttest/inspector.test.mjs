// The protocol's own inspector, each of whose calls is a program of its own.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { folder, key, program, start } from './sandboxd.mjs';

const modules = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const inspector = join(modules, '@modelcontextprotocol/inspector/clients/launcher/build/index.js');

// inspect runs it, and returns what it prints. It fails if the inspector does, as on results that are errors, and then the
// error has what was printed.
async function inspect(home, server, ...args) {
  const { stdout } = await promisify(execFile)(process.execPath, [inspector, '--cli', ...server, ...args], {
    env: { ...process.env, HOME: home }, timeout: 60_000,
  });
  return JSON.parse(stdout);
}

// call calls a tool; the fields of args are JSON where they are not text.
function call(home, server, name, args = {}, ...more) {
  const pairs = Object.entries(args).flatMap(([field, value]) =>
    ['--tool-arg', `${field}=${typeof value === 'string' ? value : JSON.stringify(value)}`]);
  return inspect(home, server, '--method', 'tools/call', '--tool-name', name, ...pairs, ...more);
}

// script is what it does over every transport.
async function script(t, home, server) {
  await t.test('the tools are listed, and every client can use their schemas', async () => {
    const { tools } = await inspect(home, server, '--method', 'tools/list', '--strict');
    assert.deepEqual(tools.map((tool) => tool.name).sort(),
      ['describe', 'exec', 'list_files', 'read_file', 'run_code', 'run_command', 'sandbox', 'write_file']);
    assert.equal(tools.find((tool) => tool.name === 'sandbox').inputSchema.properties.op.enum.length, 17);
  });
  await t.test('describe explains', async () => {
    for (const op of ['get_download', 'list_sandboxes']) {
      const about = await call(home, server, 'describe', { op });
      assert.equal(about.structuredContent.name, op);
      assert.deepEqual(JSON.parse(about.content[0].text), about.structuredContent);
    }
  });
  await t.test('a command runs without a lease', async () => {
    const ran = await call(home, server, 'run_command', { command: 'echo "a  b"; exit 3' });
    assert.match(ran.content[0].text, /^a  b\n\[exit code 3\]\n\[sandbox [a-z0-9]{21}/);
    assert.equal(ran.structuredContent.exitCode, 3);
  });
}

test('the inspector over a pipe', async (t) => {
  const home = await folder(t);
  const server = [program, 'mcp'];
  await script(t, home, server);
  await t.test('a lease ends with its server', async () => {
    const leased = await call(home, server, 'sandbox', { op: 'lease_sandbox', input: {} });
    assert.equal(leased.structuredContent.status, 'running');
    const { structuredContent: { sandboxes } } = await call(home, server, 'sandbox', { op: 'list_sandboxes' });
    assert.deepEqual(sandboxes, []);
  });
});

test('the inspector over HTTP', async (t) => {
  const home = await folder(t);
  const { url } = await start(t);
  const server = [url, '--header', `Authorization: Bearer ${key}`];
  await script(t, home, server);
  await t.test('a lease is there for whoever comes next', async () => {
    const { structuredContent: { id } } = await call(home, server, 'sandbox', { op: 'lease_sandbox', input: {} });
    const ran = await call(home, server, 'sandbox', { op: 'run_in_sandbox', input: { id, argv: ['echo', 'a  b'] } });
    assert.equal(ran.structuredContent.stdout, 'a  b\n');
    const ended = await call(home, server, 'sandbox', { op: 'end_sandbox', input: { id } });
    assert.equal(ended.content[0].text, 'null');
    await assert.rejects(call(home, server, 'sandbox', { op: 'get_sandbox_by_id', input: { id } }), (error) => {
      const refused = JSON.parse(error.stdout);
      assert.ok(refused.isError);
      assert.match(refused.content[0].text, /no such sandbox|ended/);
      return true;
    });
  });
  await t.test('without a credential nothing is called', async () => {
    const stranger = [url, '--stored-auth-only'];
    await inspect(home, stranger, '--method', 'tools/list');
    await call(home, stranger, 'describe', { op: 'list_sandboxes' });
    await assert.rejects(call(home, stranger, 'sandbox', { op: 'list_sandboxes' }), /auth/i);
  });
});
