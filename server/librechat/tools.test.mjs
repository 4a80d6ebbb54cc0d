// What the client's code and bash tools make of the server, by both base addresses that it can be given.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { serviceKey, start } from './sandboxd.mjs';

let server, tools, base;
const auth = { 'X-API-Key': serviceKey };

before(async () => {
  server = await start();
  base = server.url + '/v1';
  process.env.LIBRECHAT_CODE_BASEURL = base; // which is read when the module is loaded
  tools = await import('@librechat/agents');
});
after(() => server?.stop());

let calls = 0;
// call invokes a tool as the client's tool node does.
async function call(tool, args, context = {}) {
  const message = await tool.invoke({ name: tool.name, args, id: `call_${++calls}`, type: 'tool_call', ...context });
  return { text: message.content, artifact: message.artifact };
}
const code = (authHeaders = auth) => tools.createCodeExecutionTool({ authHeaders });
const bash = (authHeaders = auth) => tools.createBashExecutionTool({ authHeaders });

async function upload(name, content, fields = {}) {
  const form = new FormData();
  for (const [k, v] of Object.entries(fields)) form.set(k, v);
  form.set('file', new Blob([content]), name);
  const answer = await (await fetch(base + '/upload', { method: 'POST', headers: auth, body: form })).json();
  assert.equal(answer.message, 'success');
  assert.equal(answer.session_id, answer.storage_session_id);
  return { id: answer.files[0].fileId, name, storage_session_id: answer.storage_session_id };
}

test('hello', async () => {
  const { text, artifact } = await call(code(), { lang: 'py', code: 'print("hello")' });
  assert.match(text, /stdout:\nhello/);
  assert.doesNotMatch(text, /stderr/);
  assert.match(artifact.session_id, /^[A-Za-z0-9_-]{21}$/);
  assert.match((await call(bash(), { command: 'echo hello from bash' })).text, /hello from bash/);
});

test('a file out', async () => {
  const { artifact } = await call(code(), { lang: 'py', code: 'open("out.txt", "w").write("made"); import os; os.makedirs("deep"); open("deep/two.txt", "w").write("2")' });
  assert.deepEqual(artifact.files.map((f) => f.name).sort(), ['deep/two.txt', 'out.txt']);
  for (const file of artifact.files) {
    assert.match(file.id, /^[A-Za-z0-9_-]{21}$/);
    const bytes = await fetch(`${base}/download/${artifact.session_id}/${file.id}`, { headers: auth });
    assert.equal(bytes.status, 200);
    assert.equal(await bytes.text(), file.name === 'out.txt' ? 'made' : '2');
  }
  const rows = await (await fetch(`${base}/files/${artifact.session_id}?detail=summary`, { headers: auth })).json();
  const row = rows.find((r) => r.name.startsWith(`${artifact.session_id}/${artifact.files[0].id}`));
  assert.ok(Date.now() - Date.parse(row.lastModified) < 23 * 3600 * 1000);
});

test('a file in', async () => {
  const file = await upload('naïve data.csv', 'a,b\n1,2\n', { entity_id: 'agent' });
  const { text, artifact } = await call(code(), { lang: 'py', code: 'print(open("/mnt/data/naïve data.csv").read())' }, { _injected_files: [file] });
  assert.match(text, /a,b\n1,2/);
  assert.ok(!(artifact.files ?? []).some((f) => f.name === file.name && !f.inherited), 'an unchanged input is no new file');
});

test('continuity by files alone', async () => {
  const first = await call(code(), { lang: 'py', code: 'open("state.txt", "w").write("1")' });
  const second = await call(bash(), { command: 'cat state.txt; echo 2 >> state.txt' }, { _injected_files: first.artifact.files });
  assert.match(second.text, /stdout:\n1/);
  const third = await call(code(), { lang: 'py', code: 'print(open("state.txt").read())' }, { _injected_files: second.artifact.files });
  assert.match(third.text, /12/);
});

test('two uploads in one run', async () => {
  const files = [await upload('one.txt', 'one'), await upload('two.txt', 'two')];
  assert.notEqual(files[0].storage_session_id, files[1].storage_session_id);
  const { text } = await call(bash(), { command: 'cat one.txt two.txt' }, { _injected_files: files });
  assert.match(text, /onetwo/);
});

test('a program that fails', async () => {
  const { text } = await call(code(), { lang: 'py', code: 'print("before"); raise SystemExit("why")' });
  assert.match(text, /stdout:\nbefore/);
  assert.match(text, /stderr:\nwhy/);
});

test('no key, and a wrong one', async () => {
  for (const headers of [undefined, { 'X-API-Key': 'wrong' }, { Authorization: 'Bearer wrong' }]) {
    await assert.rejects(call(code(headers ?? {}), { lang: 'py', code: 'print("ran")' }), (e) => /401/.test(e.message) && !/ran\n/.test(e.message));
  }
});

test('programmatic calls are refused for good', async () => {
  for (const path of ['/exec/programmatic']) {
    const answer = await fetch(base + path, { method: 'POST', headers: { ...auth, 'Content-Type': 'application/json' }, body: '{"code":"x","tools":[]}' });
    assert.equal(answer.status, 501);
    assert.equal((await answer.json()).error, 'unsupported_capability');
  }
});

test('the other base address', async () => {
  const answer = await fetch(server.url + '/v1/exec/exec', { method: 'POST', headers: { ...auth, 'Content-Type': 'application/json' }, body: JSON.stringify({ lang: 'bash', code: 'echo hi' }) });
  assert.equal((await answer.json()).stdout, 'hi\n');
});
