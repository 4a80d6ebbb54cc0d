// One script for the tools, over a pipe and over HTTP, with the clients in TypeScript: the one that most agents have, and the one
// after it, which can do without a session.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as second from '@modelcontextprotocol/client';
import * as secondStdio from '@modelcontextprotocol/client/stdio';
import * as first from '@modelcontextprotocol/sdk/client/index.js';
import * as firstStdio from '@modelcontextprotocol/sdk/client/stdio.js';
import * as firstHTTP from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { key, program, start } from './sandboxd.mjs';

const clients = {
  'the first': {
    ...first, ...firstStdio, ...firstHTTP, options: {}, sessions: true,
    callTool: (client, params, options) => client.callTool(params, undefined, options),
  },
  'the second': {
    ...second, ...secondStdio, options: {}, sessions: true,
    callTool: (client, params, options) => client.callTool(params, options),
  },
  'the second without sessions': {
    ...second, ...secondStdio, options: { versionNegotiation: { mode: 'auto' } }, sessions: false,
    callTool: (client, params, options) => client.callTool(params, options),
  },
};

function http(kind, url, credential = key) {
  const headers = credential ? { Authorization: `Bearer ${credential}` } : {};
  return new kind.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
}

async function connect(kind, transport) {
  const client = new kind.Client({ name: 'test', version: '1' }, kind.options);
  await client.connect(transport);
  client.kind = kind;
  return client;
}

async function call(client, name, args = {}, options = {}) {
  const result = await client.kind.callTool(client, { name, arguments: args }, options);
  return { ...result, text: result.content.find((c) => c.type === 'text')?.text, value: result.structuredContent };
}

// script is what every client does over every transport.
async function script(t, client) {
  await t.test('the tools are listed, and have schemas', async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name).sort(),
      ['describe', 'exec', 'list_files', 'read_file', 'run_code', 'run_command', 'sandbox', 'write_file']);
    assert.equal(tools.find((tool) => tool.name === 'sandbox').inputSchema.properties.op.enum.length, 17);
  });
  await t.test('describe explains', async () => {
    for (const op of ['get_download', 'list_sandboxes']) {
      const about = JSON.parse((await call(client, 'describe', { op })).text);
      assert.equal(about.name, op);
      assert.equal(about.inputSchema.type, 'object');
      assert.equal(about.annotations.readOnlyHint, true);
    }
  });
  let id;
  await t.test('a sandbox is leased, and runs commands', async () => {
    const leased = await call(client, 'sandbox', { op: 'lease_sandbox', input: {} });
    id = leased.value.id;
    assert.match(id, /^[a-z0-9]{21}$/);
    assert.equal(JSON.parse(leased.text).id, id);
    const ran = await call(client, 'sandbox', { op: 'run_in_sandbox', input: { id, argv: ['echo', 'a  b'] } });
    assert.equal(ran.value.stdout, 'a  b\n');
    const failed = await call(client, 'exec_sandbox', { id, command: 'exit 3' }); // by the operation's name
    assert.equal(failed.value.exitCode, 3);
    assert.ok(!failed.isError);
  });
  await t.test('files go in and out', async () => {
    await call(client, 'write_sandbox_file', { id, path: 'd/f', data: 'aGk=' });
    assert.equal((await call(client, 'read_sandbox_file', { id, path: 'd/f' })).value.data, 'aGk=');
    assert.equal((await call(client, 'read_file', { id, path: 'd/f' })).text, 'hi');
    assert.equal((await call(client, 'list_files', { id, path: 'd' })).text, 'f (2 bytes)\n');
  });
  await t.test('code runs, and its pictures are shown', async () => {
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==';
    const ran = await call(client, 'run_code', { lang: 'bash', code: `echo ${png} | base64 -d > plot_1.png; echo done`, session_id: id });
    assert.match(ran.text, /^done\n\[files: plot_1\.png\]/);
    const [picture] = ran.content.filter((c) => c.type === 'image');
    assert.equal(picture.mimeType, 'image/png');
    assert.equal(picture.data, png);
  });
  await t.test('what code prints is told as it prints it', async () => {
    // It goes on only when the file is there, which is written when it has been heard.
    const code = 'echo begun; until [ -e go ]; do read -t 0.05 x <> <(:); done; echo done';
    let went;
    const ran = await call(client, 'run_code', { lang: 'bash', code, session_id: id }, {
      onprogress: (p) => { if (p.message === 'begun\n') went = call(client, 'write_file', { id, path: 'go', content: '' }); },
    });
    await went;
    assert.match(ran.text, /^begun\ndone\n/);
  });
  await t.test('a refusal is a result with the sentence', async () => {
    const refused = await call(client, 'get_sandbox_by_id', { id: 'nosuch' });
    assert.ok(refused.isError);
    assert.match(refused.text, /no such sandbox/);
    await assert.rejects(call(client, 'sandbox', {}), { code: -32602 });
    await assert.rejects(call(client, 'nosuch'), { code: -32602 });
  });
  await t.test('progress comes as it is printed, and cancelling stops the command', async () => {
    const controller = new AbortController();
    let heard;
    const running = call(client, 'exec_sandbox', { id, command: 'echo begun; setsid sleep 1000 & sleep 1000' }, {
      signal: controller.signal, onprogress: (p) => { heard = p.message; controller.abort(); },
    });
    await assert.rejects(running);
    assert.equal(heard, 'begun\n');
    const wait = 'for i in $(seq 100); do pgrep -x sleep >/dev/null || exit 0; read -t 0.1 x <> <(:); done; exit 1';
    assert.equal((await call(client, 'exec_sandbox', { id, argv: ['bash', '-c', wait] })).value.exitCode, 0);
  });
  await t.test('it ends', async () => {
    assert.equal((await call(client, 'end_sandbox', { id })).text, 'null');
    assert.ok((await call(client, 'get_sandbox_by_id', { id })).isError);
  });
}

for (const [name, kind] of Object.entries(clients)) {
  test(`${name}, over a pipe`, async (t) => {
    const client = await connect(kind, new kind.StdioClientTransport({ command: program, args: ['mcp'], env: process.env }));
    await script(t, client);
    await client.close();
  });

  test(`${name}, over HTTP`, async (t) => {
    const server = await start(t);
    const transport = http(kind, server.url);
    const client = await connect(kind, transport);
    assert.equal(!!transport.sessionId, kind.sessions);
    await script(t, client);
    await t.test('without a credential nothing is called', async () => {
      const stranger = await connect(kind, http(kind, server.url, ''));
      await stranger.listTools();
      await call(stranger, 'describe', { op: 'list_sandboxes' });
      await assert.rejects(call(stranger, 'list_sandboxes'), /credential/);
      await stranger.close();
    });
    await t.test('a server that was started anew goes on', async () => {
      await server.again();
      if (!kind.sessions) {
        assert.deepEqual((await call(client, 'list_sandboxes')).value.sandboxes, []);
        return;
      }
      await assert.rejects(call(client, 'list_sandboxes'), (error) => (error.status ?? error.code) === 404);
      const anew = await connect(kind, http(kind, server.url));
      assert.deepEqual((await call(anew, 'list_sandboxes')).value.sandboxes, []);
      await anew.transport.terminateSession();
      await anew.close();
    });
    await client.close();
  });
}
